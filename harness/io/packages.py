"""Optional packages: whether they are installed, and the commands that install them."""

from __future__ import annotations

from importlib.util import find_spec

from harness.errors import UsageError

EXTRAS = {
    "argcomplete": "completion",
    "beir": "beir",
    "chromadb": "chroma",
    "duckdb": "duckdb",
    "faiss": "faiss",
    "graphiti_core": "graphiti",
    "httpx": "graphiti",
    "ir_datasets": "ir",
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
    "pytrec_eval": "verify",
    "qdrant_client": "qdrant",
    "ray": "ray",
    "safetensors": "minilm",
    "sentence_transformers": "dense",
    "stop_words": "languages",
    "tantivy": "tantivy",
    "threadpoolctl": "minilm",
    "tokenizers": "minilm",
    "torch": "dense",
    "transformers": "dense",
}
"""Maps modules to the extra that installs each."""


def install_command(module: str) -> str:
    """Returns the command that installs a module: an extra, else the package of that name."""
    extra = EXTRAS.get(module)
    return f"pip install -e '.[{extra}]'" if extra else f"pip install {module}"


def is_installed(module: str) -> bool:
    """Tests whether a module is installed, importing at most its parent package."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def require_packages(what: str, *modules: str) -> None:
    """Raises UsageError with the install command if a module is missing.

    Does not import the modules, so that constructors stay fast.
    """
    for module in modules:
        if not is_installed(module):
            raise UsageError(f"{what} needs the package {module!r}: {install_command(module)}")
