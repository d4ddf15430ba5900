"""Haystack's BM25 retriever over its in-memory document store.

pip install haystack-ai
"""

import os

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # must be set before the import

from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore


class HaystackBM25:
    def index(self, corpus):
        store = InMemoryDocumentStore()
        store.write_documents([Document(id=d.id, content=d.content) for d in corpus])
        self.retriever = InMemoryBM25Retriever(store)

    def search(self, queries, k):
        return [self.best(query.text, k) for query in queries]

    def best(self, text, k):
        # Haystack raises an error for an empty query.
        found = self.retriever.run(query=text, top_k=k)["documents"] if text else []
        return [(document.id, document.score) for document in found]
