"""Vectors as the store takes them."""

from collections.abc import Iterable

MAX_INDEXED_DIM = 2000
"""Dimensions up to which pgvector indexes a vector; a longer one is kept in half precision."""


def literal(vector: Iterable[float]) -> str:
    """Return a vector as pgvector reads it."""
    # An array gives floats of its own kind one by one, which are slow to write.
    floats = vector.tolist() if hasattr(vector, "tolist") else vector
    return "[" + ",".join([f"{x:.7g}" for x in floats]) + "]"


def query_that_saves(dim: int) -> str:
    """Return the name of the query that stores vectors of so many dimensions."""
    return "save_vectors" if dim <= MAX_INDEXED_DIM else "save_halfvecs"
