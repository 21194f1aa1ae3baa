"""The int8 graph of multilingual-e5-small: built from the bundled weights, kept between runs.

Owns the quantisation and the folder where the finished graph waits for the next process. It knows
nothing of texts and of what runs the graph. It needs no hub and no torch.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbwiki.e5weights import Weights
from kbwiki.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnx import NodeProto, TensorProto

    _Floats = NDArray[np.float32]

_BUILDER = 1
"""A part of the cache's key: raise it with every change of the graph."""

_CONTRIB = "com.microsoft"
"""Where onnxruntime keeps operators of its own."""

_LIMIT = 63
"""Weights have 7 bits, not 8.

Where x86 lacks VNNI, onnxruntime multiplies by an instruction that adds two products in 16 bits
and saturates: 2 * 255 * 127 does not fit, 2 * 255 * 63 does. So every processor has the same sums.
With 8 bits, vectors of a Zen 4 and of an emulated Haswell differed by 0.003 (cosine), with 7 by
0.0002.
"""

_FLOOR = 0.25
"""More than the amount of GELU's least value, -0.17."""


def load_graph(weights: Weights, cache_dir: Path, on_notice: Callable[[str], None]) -> bytes:
    """Return the serialised graph, from the cache where it is there and whole.

    Takes 20 ms then. Else it is built, in about a second, and kept; two processes may do so at
    once. Raises ConfigError where it cannot be kept.
    """
    key = hashlib.sha256(f"{_BUILDER} {weights.key()}".encode()).hexdigest()
    folder = cache_dir / f"e5-small-{key[:12]}"
    graph = _read(folder)
    if graph is None:
        on_notice(
            "building the int8 graph of multilingual-e5-small from the bundled weights, "
            "once, a few seconds"
        )
        graph = build_graph(weights)
        _keep(folder, graph, weights)
    return graph


def build_graph(weights: Weights) -> bytes:
    """Quantise the matrices and serialise the graph as ONNX.

    Input ``words``, (1, tokens, hidden), is what `Weights.words` returns: in the graph the words
    would cost each process 100 MB, in the file they are pages that processes share. Output
    ``mean``, (1, hidden), is the mean over the tokens, not yet normalised. It takes one text at a
    time: scales of activations are taken over the whole input, so in a batch the vector of a text
    would depend on its neighbours.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ConfigError(
            f"e5-small: the package onnx, which writes the graph, does not work: {error}.",
            "Run: pip install --force-reinstall onnx",
        ) from error
    graph = _Graph(weights)
    graph.encoder()
    hidden = weights.shape.hidden
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info("words", TensorProto.FLOAT, [1, "tokens", hidden])],
            [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, hidden])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(_CONTRIB, 1)],
        ir_version=9,
    )
    return bytes(model.SerializeToString())


class _Graph:
    """The nodes and constants of the encoder; a text is (1, tokens, hidden) all the way."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.shape = weights.shape
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def encoder(self) -> None:
        x, norm = self.embeddings(), "emb.ln"
        for i in range(self.shape.layers):
            x = self.attention(x, norm, f"l{i}.")
            x, norm = self.feed_forward(x, f"l{i}."), f"l{i}.oln"
        self.apply("ReduceMean", x, self.integers("axis", 1), to="mean", keepdims=0)

    def embeddings(self) -> str:
        hidden, window = self.shape.hidden, self.shape.window
        kind = self.weights.floats("emb.type", self.shape.kinds, hidden)[0]
        positions = self.weights.floats("emb.pos", window, hidden) + kind
        n_tokens = self.apply("Shape", "words", start=1, end=2)
        start = self.integers("start", 0)
        x = self.apply("Slice", self.constant("positions", positions), start, n_tokens)
        return self.norm(self.apply("Add", "words", x), "emb.ln")

    def attention(self, x: str, norm: str, layer: str) -> str:
        hidden, heads = self.shape.hidden, self.shape.heads
        y = self.queries_keys_values(x, norm, layer)
        thirds = self.integers("thirds", hidden, hidden, hidden)
        by_head = self.integers("by_head", 0, 0, heads, hidden // heads)
        parts = [self.apply("Reshape", part, by_head) for part in self.split(y, thirds, 3)]
        q, v = (self.apply("Transpose", part, perm=[0, 2, 1, 3]) for part in parts[::2])
        k = self.apply("Transpose", parts[1], perm=[0, 2, 3, 1])
        y = self.apply("Softmax", self.apply("MatMul", q, k), axis=-1)
        y = self.apply("Transpose", self.apply("MatMul", y, v), perm=[0, 2, 1, 3])
        y = self.apply("Reshape", y, self.integers("joined", 0, 0, hidden))
        bias = self.weights.floats(layer + "ao.b", hidden)
        y = self.linear(y, layer + "ao", self.weights.matrix(layer + "ao.w", hidden, hidden), bias)
        return self.norm(self.apply("Add", x, y), layer + "aln")

    def queries_keys_values(self, x: str, norm: str, layer: str) -> str:
        import numpy as np

        hidden = self.shape.hidden
        x, scale = self.even(x, norm)
        parts = [self.weights.matrix(f"{layer}{part}.w", hidden, hidden) for part in "qkv"]
        biases = [self.weights.floats(f"{layer}{part}.b", hidden) for part in "qkv"]
        # What attention divides by: here it takes no step of its own.
        root = np.float32((hidden // self.shape.heads) ** 0.5)
        parts[0], biases[0] = parts[0] / root, biases[0] / root
        return self.linear(x, layer + "qkv", np.concatenate(parts) * scale, np.concatenate(biases))

    def feed_forward(self, x: str, layer: str) -> str:
        hidden, inner = self.shape.hidden, self.shape.inner
        evened, scale = self.even(x, layer + "aln")
        matrix = self.weights.matrix(layer + "fi.w", inner, hidden) * scale
        y = self.linear(evened, layer + "fi", matrix, self.weights.floats(layer + "fi.b", inner))
        y = self.apply("Gelu", y)
        # A few tokens are many times as loud as the rest, to which they would leave a few of the
        # 256 steps of an activation. So each token is divided by its greatest value.
        peak = self.apply("ReduceMax", y, self.integers("last", -1), keepdims=1)
        peak = self.apply("Max", peak, self.number("floor", _FLOOR))
        matrix = self.weights.matrix(layer + "fo.w", hidden, inner)
        y = self.linear(self.apply("Div", y, peak), layer + "fo", matrix)
        bias = self.constant(layer + "fo.b", self.weights.floats(layer + "fo.b", hidden))
        y = self.apply("Add", self.apply("Mul", y, peak), bias)
        return self.norm(self.apply("Add", x, y), layer + "oln")

    def even(self, x: str, norm: str) -> "tuple[str, _Floats]":
        """Even out how loud the columns are that a layer norm puts out.

        Returns them divided by a scale, by which the caller multiplies the next matrix
        (SmoothQuant, Xiao et al. 2022; here the scale is read off the norm's gain and offset,
        which takes no sample of texts). It is made of powers of two: exact, and everywhere alike.
        """
        import numpy as np

        hidden = self.shape.hidden
        loud = np.abs(self.weights.floats(norm + ".w", hidden))
        loud = loud + np.abs(self.weights.floats(norm + ".b", hidden))
        _, exponent = np.frexp(np.maximum(loud / np.median(loud), np.float32(1)))
        scale = np.ldexp(np.float32(1), exponent - 1)
        return self.apply("Mul", x, self.constant(norm + ".scale", 1 / scale)), scale

    def linear(self, x: str, name: str, matrix: "_Floats", bias: "_Floats | None" = None) -> str:
        """Multiply by a matrix in integers of 7 bits, with one scale a row."""
        import numpy as np

        scale = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-12)) / np.float32(_LIMIT)
        integers = np.rint(matrix / scale[:, None]).astype(np.int8)
        inputs = [x, self.constant(name + ".w", integers.T), self.constant(name + ".scale", scale)]
        if bias is not None:
            inputs += ["", self.constant(name + ".b", bias)]
        return self.apply("DynamicQuantizeMatMul", *inputs, domain=_CONTRIB)

    def norm(self, x: str, name: str) -> str:
        hidden = self.shape.hidden
        gain = self.constant(name + ".w", self.weights.floats(name + ".w", hidden))
        offset = self.constant(name + ".b", self.weights.floats(name + ".b", hidden))
        epsilon = self.shape.epsilon
        return self.apply("LayerNormalization", x, gain, offset, axis=-1, epsilon=epsilon)

    def apply(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        from onnx import helper

        to = to or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [to], **attributes))
        return to

    def split(self, x: str, sizes: str, n: int) -> list[str]:
        from onnx import helper

        parts = [f"t{len(self.nodes)}.{i}" for i in range(n)]
        self.nodes.append(helper.make_node("Split", [x, sizes], parts, axis=-1))
        return parts

    def integers(self, name: str, *values: int) -> str:
        import numpy as np

        return self.constant(name, np.array(values, np.int64))

    def number(self, name: str, value: float) -> str:
        import numpy as np

        return self.constant(name, np.array(value, np.float32))

    def constant(self, name: str, values: "NDArray[Any]") -> str:
        """Add a constant; a name that is there already keeps its values."""
        import numpy as np
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name


def _read(folder: Path) -> bytes | None:
    try:
        graph = (folder / "model.onnx").read_bytes()
        meta = json.loads((folder / "meta.json").read_bytes())
    except (OSError, ValueError):
        return None
    # All of it is hashed, which takes 12 ms: a flipped bit would not fail, it would mislead.
    whole = isinstance(meta, dict) and meta.get("sha256") == hashlib.sha256(graph).hexdigest()
    return graph if whole else None


def _keep(folder: Path, graph: bytes, weights: Weights) -> None:
    meta = {
        "builder": _BUILDER,
        "sha256": hashlib.sha256(graph).hexdigest(),
        "size": len(graph),
        "weights": str(weights.path),
        "weights_sha256": weights.sha256(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / "model.onnx", graph)
        _replace(folder / "meta.json", json.dumps(meta, indent=1).encode())
    except OSError as error:
        raise ConfigError(
            f"{folder}: the model's graph cannot be kept there: {error.strerror or error}.",
            "Make room, or name a folder that can be written in KBWIKI_CACHE_DIR.",
        ) from error


def _replace(path: Path, content: bytes) -> None:
    """Write a file that others see either as it was or as it will be."""
    new = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
