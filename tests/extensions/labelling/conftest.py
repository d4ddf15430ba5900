"""A small set to label: three queries over a few documents, pooled from two systems."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from harness.extensions.labelling.project import (
    Candidate,
    LabelDocument,
    LabelQuery,
    LabelSettings,
    PooledSystem,
    Project,
)

TEXTS = {
    "d1": "The ferry to Bastø leaves at seven.",
    "d2": "The dentist moved me to Friday.",
    "d3": "The ferry was late, and so was I.",
    "d4": "Friday is the day of the dentist, at nine.",
}
QUERIES = {
    "q1": "When does the ferry leave?",
    "q2": "When is the dentist?",
    "q3": "What is the name of the captain?",
}
POOL = [
    *(("q1", "d1", 1, 2), ("q1", "d3", 2, 1), ("q2", "d2", 1, 2)),
    *(("q2", "d4", 2, 1), ("q3", "d3", 1, None), ("q3", "d1", None, 1)),
]


def settings(*, depth: int, systems: str) -> LabelSettings:
    """Settings of a project with these pooled systems, a letter each."""
    return LabelSettings(
        version=1,
        depth=depth,
        seed=0,
        overlap=1.0,
        systems=[PooledSystem(name=s, retriever=s, params={}, plugins=[]) for s in systems],
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The set on the disk, with the top 2 of `a` and `b` in its pool and nothing judged."""
    made = Project(
        tmp_path / "labels",
        settings(depth=2, systems="ab"),
        [LabelDocument(id=id_, text=text) for id_, text in TEXTS.items()],
        [LabelQuery(id=id_, text=text) for id_, text in QUERIES.items()],
        [
            Candidate(
                query=query,
                document=document,
                ranks={s: r for s, r in (("a", a), ("b", b)) if r is not None},
            )
            for query, document, a, b in POOL
        ],
    )
    made.write()
    return made


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    """documents.jsonl and queries.txt of the same set, as a user has them."""
    documents, queries = tmp_path / "documents.jsonl", tmp_path / "queries.txt"
    lines = [orjson.dumps({"id": id_, "text": text}) for id_, text in TEXTS.items()]
    documents.write_bytes(b"\n".join(lines))
    queries.write_text("\n".join(QUERIES.values()), "utf-8")
    return documents, queries
