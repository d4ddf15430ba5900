"""Which extra of this package brings a package that is not there."""

from __future__ import annotations

from importlib.util import find_spec

from harness import errors
from harness.errors import UsageError

EXTRAS = {
    "argcomplete": "completion",
    "beir": "beir",
    "chromadb": "chroma",
    "duckdb": "duckdb",
    "faiss": "faiss",
    "graphiti_core": "graphiti",
    "httpx": "graphiti",
    "lancedb": "lancedb",
    "langchain_core": "langchain",
    "llama_index": "llamaindex",
    "mcp": "mcp",
    "mem0": "mem0",
    "mteb": "mteb",
    "nltk": "answers",
    "onnxruntime": "onnx",
    "openai": "answers",
    "pyterrier": "pyterrier",
    "qdrant_client": "qdrant",
    "ray": "ray",
    "safetensors": "minilm",
    "sentence_transformers": "dense",
    "tantivy": "tantivy",
    "threadpoolctl": "minilm",
    "tokenizers": "minilm",
    "torch": "dense",
    "transformers": "dense",
    "urllib3": "http",
}
"""Modules and the extra that brings each."""


def install(module: str) -> str:
    """The command that brings a module: one of our extras, else the package of that name."""
    extra = EXTRAS.get(module)
    return errors.install(extra) if extra else f"pip install {module}"


def there(module: str) -> bool:
    """Whether a module is installed; it is not imported, though a package it stands in is."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def need(what: str, *modules: str) -> None:
    """Raises UsageError, with the command that helps, where a module is missing.

    Nothing is imported: this is for constructors, whose heavy imports come later.
    """
    for module in modules:
        if not there(module):
            raise UsageError(f"{what} needs the package {module!r}: {install(module)}")
