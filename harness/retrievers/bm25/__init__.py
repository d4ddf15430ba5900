"""BM25: tokenizer, inverted index, MaxScore, and the retriever."""

from harness.retrievers.bm25.retriever import BM25, METHODS

__all__ = ["BM25", "METHODS"]
