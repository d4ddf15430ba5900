"""BM25: a tokenizer, an inverted index, MaxScore, and the retriever that is made of them."""

from harness.retrievers.bm25.retriever import BM25, METHODS

__all__ = ["BM25", "METHODS"]
