"""SQLite's full-text index FTS5, with stemming: the standard library alone."""

import re
import sqlite3


class Fts5:
    def index(self, corpus):
        # With a time limit, `search` is called in another thread.
        self.db = sqlite3.connect(":memory:", check_same_thread=False)
        self.db.execute("create virtual table notes using fts5(text, tokenize = 'porter')")
        rows = enumerate(corpus.contents)
        self.db.executemany("insert into notes (rowid, text) values (?, ?)", rows)

    def search(self, queries, k):
        return [self.best(query.text, k) for query in queries]

    def best(self, text, k):
        # Quoted, since unquoted AND, NOT and NEAR are operators.
        words = [f'"{word}"' for word in re.findall(r"\w+", text)]
        sql = "select rowid, -rank from notes where notes match ? order by rank limit ?"
        return self.db.execute(sql, (" OR ".join(words), k)).fetchall() if words else []
