"""Compares lexical retrievers in ten languages on the pages of LibreOffice's help.

    python -m tests.benchmarks.languages write HELP FOLDER
    python -m tests.benchmarks.languages run FOLDER
    python -m tests.benchmarks.languages mteb FOLDER

`write` reads Debian's packages `libreoffice-help-*`, unpacked into HELP (the folder that has `de`,
`zh-CN` and so on), and writes them in the layout of mteb/MIRACLRetrieval. A document is the text of
a page without its heading; a query is a heading that only one page has, which is its one relevant
document. `run` prints nDCG@10 of this project's retrievers, `mteb` that of MTEB's BM25 with its own
choice of terms for each language, where mteb and bm25s are installed.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tabulate import tabulate

LETTERS = {
    "ja": "[\u3041-\u30ff\u4e00-\u9fff]",
    "zh": "[\u4e00-\u9fff]",
    "ko": "[\uac00-\ud7a3]",
    "km": "[\u1780-\u17ff]",
    "ru": "[\u0400-\u04ff]",
    "el": "[\u0370-\u03ff]",
}
"""Letters of a heading that is translated; some pages are left in English."""
LANGUAGES = {
    "de": ("german", "deu"),
    "el": ("greek", "ell"),
    "en": ("english", "eng"),
    "fi": ("finnish", "fin"),
    "ja": ("none", "jpn"),
    "km": ("none", "khm"),
    "ko": ("none", "kor"),
    "ru": ("russian", "rus"),
    "tr": ("turkish", "tur"),
    "vi": ("none", "vie"),
    "zh": ("none", "cmn"),
}
"""Value of `language=` and ISO 639-3 code of each language."""
SHORTEST = 100  # characters of a page


class Page(HTMLParser):
    """Collects the heading and the text of a help page."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self._depth, self._in_heading = 0, False
        self._heading: list[str] = []
        self._text: list[str] = []
        self.feed(content)
        self.heading, self.text = (
            re.sub(r"\s+", " ", "".join(parts)).strip() for parts in (self._heading, self._text)
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div" and (self._depth or ("id", "DisplayArea") in attrs):
            self._depth += 1
        elif tag == "h1" and self._depth and not self._heading:
            self._in_heading = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth:
            self._depth -= 1
        elif tag == "h1":
            self._in_heading = False

    def handle_data(self, data: str) -> None:
        if self._depth:
            (self._heading if self._in_heading else self._text).append(data)


def write(help_folder: Path, out: Path) -> None:
    """Writes each language's corpus, queries and qrels."""
    for folder in sorted(help_folder.iterdir()):
        language = folder.name.partition("-")[0]
        if language not in LANGUAGES or not (folder / "text").is_dir():
            continue
        documents: dict[str, str] = {}
        headings: dict[str, list[str]] = {}
        for path in sorted((folder / "text").rglob("*.html")):
            page = Page(path.read_text("utf-8"))
            if len(page.text) >= SHORTEST:
                name = path.relative_to(folder / "text").with_suffix("").as_posix()
                documents[name] = page.text
                if page.heading and re.search(LETTERS.get(language, "."), page.heading):
                    headings.setdefault(page.heading, []).append(name)
        queries = {pages[0]: text for text, pages in headings.items() if len(pages) == 1}
        ids = [f"q:{name}" for name in queries]
        _table(out, f"{language}-corpus", _id=[*documents], text=[*documents.values()])
        _table(out, f"{language}-queries", _id=ids, text=[*queries.values()])
        columns = {"query-id": ids, "corpus-id": [*queries], "score": [1] * len(ids)}
        _table(out, f"{language}-qrels", **columns)


def _table(out: Path, name: str, **columns: list[str] | list[int]) -> None:
    (out / name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), out / name / "dev-00000-of-00001.parquet")


def run(folder: Path) -> None:
    """Prints nDCG@10 of each retriever in each language."""
    import tempfile

    from harness import RetrieverSpec, open_dataset, score_run
    from harness import run as run_retriever

    rows = []
    for language, (name, _) in LANGUAGES.items():
        dataset = open_dataset(f"mteb/MIRACLRetrieval:{language}", source=folder, split="dev")
        row: list[str | float] = [language, dataset.n_queries]
        for retriever in ("bm25", "tfidf"):
            for params in ({}, {"language": name}):
                with tempfile.TemporaryDirectory() as out:
                    made = run_retriever(dataset, RetrieverSpec(retriever, params), out=out)
                    row.append(score_run(made, dataset)["ndcg@10"])
        rows.append(row)
    head = ["", "queries", "bm25", "bm25 language=", "tfidf", "tfidf language="]
    print(tabulate(rows, head, tablefmt="github", floatfmt=".4f"))


def mteb(folder: Path) -> None:
    """Prints nDCG@10 of MTEB's BM25 in each language."""
    import bm25s
    from mteb.models.model_implementations.bm25 import BM25Tokenizer

    for language, (_, code) in LANGUAGES.items():
        corpus, queries, qrels = (
            pq.read_table(folder / f"{language}-{part}") for part in ("corpus", "queries", "qrels")
        )
        tokenizer = BM25Tokenizer(code)
        index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        index.index(tokenizer.fit_transform(corpus["text"].to_pylist()), show_progress=False)
        asked = tokenizer.transform(queries["text"].to_pylist())
        rows, scores = index.retrieve(asked, k=10, show_progress=False)
        relevant = np.array(corpus["_id"].to_pylist())[rows] == np.array(
            qrels["corpus-id"].to_pylist()
        ).reshape(-1, 1)
        gains = relevant * (scores > 0) / np.log2(np.arange(2, 12))
        print(language, f"{gains.sum(axis=1).mean():.4f}", flush=True)


if __name__ == "__main__":
    {"write": write, "run": run, "mteb": mteb}[sys.argv[1]](*map(Path, sys.argv[2:]))
