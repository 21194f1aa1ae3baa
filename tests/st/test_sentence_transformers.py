"""The bundled model beside sentence-transformers, which runs the same weights in float32.

Runs where the extra ``st`` is installed, and needs no hub.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the extra st")

from e5_to_sentence_transformers import make_tokenizer, write_folder

from kbwiki.e5weights import Tokenizer, Weights, find_weights
from kbwiki.embedders import Embedder, make_embedder
from kbwiki.errors import ModelError

# torch and transformers warn of what is theirs to mend.
pytestmark = pytest.mark.filterwarnings("default")

CORPUS = Path(__file__).parents[2] / "corpus"


def _paragraphs(language: str) -> list[str]:
    texts = [path.read_text() for path in sorted((CORPUS / language).rglob("*.md"))]
    return [part.strip() for text in texts for part in text.split("\n\n") if len(part) > 150]


@pytest.fixture(scope="session")
def weights() -> Weights:
    """Return the bundled weights."""
    return Weights(find_weights())


@pytest.fixture(scope="session")
def folder(weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same model for sentence-transformers."""
    folder = tmp_path_factory.mktemp("st") / "multilingual-e5-small"
    write_folder(weights, folder, {"query": "query: ", "passage": "passage: "})
    return folder


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """Return the default embedder."""
    return make_embedder("e5-small", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def theirs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """Return the embedder of the folder."""
    return make_embedder(f"st:{folder}", tmp_path_factory.mktemp("unused"))


def test_vectors_of_both_agree(ours: Embedder, theirs: Embedder) -> None:
    texts = [*_paragraphs("en")[:30], *_paragraphs("ru")[:30]]
    assert len(texts) == 60
    cosines = (ours.embed(texts, "passage") * theirs.embed(texts, "passage")).sum(axis=1)
    assert cosines.mean() > 0.998
    assert cosines.min() > 0.995


def test_queries_of_both_agree(ours: Embedder, theirs: Embedder) -> None:
    texts = ["что такое градиент?", "how do transformers attend", "BM25", ""]
    cosines = (ours.embed(texts, "query") * theirs.embed(texts, "query")).sum(axis=1)
    assert cosines.min() > 0.995


def test_both_split_alike(weights: Weights) -> None:
    mine, reference = Tokenizer(weights), make_tokenizer(weights)
    odd = [
        "",
        " a",
        "a  b",
        "и\u0306",
        "e\u0301\u0308",
        "𓀀𓀁",
        "a\0b",
        "深層学習は",
        "½ ﬁ №",
        "x\u200by",
    ]
    for text in map("passage: {}".format, [*_paragraphs("en"), *_paragraphs("ru"), *odd]):
        assert mine.encode(text) == reference.encode(text, add_special_tokens=False).ids


def test_vectors_have_the_dimension_and_length_one(theirs: Embedder) -> None:
    vectors = theirs.embed(["a", "half \ud83d of a pair", "", "a\0b"], "query")
    assert vectors.shape == (4, theirs.dim) == (4, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert theirs.embed([], "query").shape == (0, 384)


def test_vectors_keep_the_order_of_the_texts(theirs: Embedder) -> None:
    texts = [*_paragraphs("ru")[:6], "short", "a"]
    together = theirs.embed(texts, "passage")
    alone = np.concatenate([theirs.embed([text], "passage") for text in texts])
    assert np.allclose(together, alone, atol=1e-5)


def test_a_path_alone_names_the_model(folder: Path, theirs: Embedder, tmp_path: Path) -> None:
    again = make_embedder(str(folder), tmp_path)
    assert again.name == theirs.name
    assert again.name.startswith("st:multilingual-e5-small@")


def test_other_weights_have_another_name(theirs: Embedder, tmp_path: Path) -> None:
    other = tmp_path / "multilingual-e5-small"
    other.mkdir()
    (other / "config.json").write_text("{}")
    assert make_embedder(f"st:{other}", tmp_path).name != theirs.name


def test_an_e5_folder_without_prompts_is_prompted(
    folder: Path, theirs: Embedder, tmp_path: Path
) -> None:
    bare = tmp_path / "multilingual-e5-small"
    bare.mkdir()
    for path in folder.iterdir():
        if path.name != "config_sentence_transformers.json":
            (bare / path.name).symlink_to(path)
    prompted = make_embedder(f"st:{bare}", tmp_path).embed(["a graph"], "passage")
    assert np.allclose(prompted, theirs.embed(["a graph"], "passage"), atol=1e-5)


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        make_embedder(f"st:{tmp_path}", tmp_path).embed(["x"], "query")
    assert caught.value.message.startswith("st:")


def test_a_damaged_model_is_told(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      rest")
    with pytest.raises(ModelError, match="cannot be loaded"):
        make_embedder(f"st:{tmp_path}", tmp_path).embed(["x"], "query")


def test_a_download_is_announced(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from kbwiki.embedders import make_embedder;"
        "e = make_embedder('st:someone/some-model', Path('unused'), on_notice=print);"
        "print(e.name); e.dim"
    )
    # Offline, or this test would ask the hub.
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == (
        "st:someone/some-model\ndownloading someone/some-model from the Hugging Face hub\n"
    )
    assert "ModelError: st:someone/some-model: the model cannot be loaded" in done.stderr
