"""What holds of every exported set, whoever judged what: projects and judgements at random."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.consensus import Policy, apply_policy, read_consensus
from harness.extensions.labelling.export import export
from harness.extensions.labelling.generate.leakage import read_set
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    Candidate,
    LabelDocument,
    LabelQuery,
    LabelSettings,
    Project,
    QueryOrigin,
)
from harness.extensions.labelling.session import AnnotationSession
from harness.extensions.labelling.status import judging_progress, status


def generated_project(folder: Path, rng: random.Random) -> Project:
    """Three generated queries over six documents, some with the same text."""
    documents = [LabelDocument(id=f"d{i}", text=f"text {rng.randrange(4)}") for i in range(6)]
    project = Project(
        folder,
        LabelSettings(version=1, depth=0, seed=0, overlap=1.0, relevance_level=2),
        documents,
        [
            LabelQuery(
                id=f"q{i}", text=f"query {i}", generated=QueryOrigin(method="model", documents=[])
            )
            for i in range(3)
        ],
        [
            Candidate(query=f"q{i}", document=document, proposal="construction")
            for i in range(3)
            for document in dict.fromkeys([f"d{i}", f"d{rng.randrange(6)}"])
        ],
    )
    project.pool = project.with_copies()
    project.write()
    grades = [Annotation(query=f"q{i}", document=f"d{i}", grade=3) for i in range(3)]
    project.annotation_log(CONSTRUCTION).append(*grades)
    return Project.read(folder)


def judge_some(session: AnnotationSession, rng: random.Random) -> None:
    for item in session.items:
        draw = rng.random()
        line = Annotation(query=item.query, document=item.document, grade=rng.randrange(4))
        if draw < 0.1:
            line = Annotation(query=item.query, rejected=True)
        elif draw < 0.2:
            line = Annotation(query=item.query, unanswerable=True)
        if draw < 0.9:
            session.annotate(line)


@pytest.mark.parametrize("seed", range(12))
def test_only_reviewed_queries_are_exported_and_copies_agree(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    project = generated_project(tmp_path / "set", rng)
    for name in ("ann", "bob")[: rng.randrange(3)]:
        judge_some(AnnotationSession(project.folder, name), rng)
    people = project.annotations().values()
    progress = status(project.folder).progress
    assert people or progress.unfinished == 3
    policy: Policy = rng.choice(("lower", "higher"))
    decided = judging_progress(project, apply_policy(project, read_consensus(project), policy))
    if len(decided.unfinished) + len(decided.rejected) == 3:
        with pytest.raises(UsageError, match="no query is finished"):
            export(project.folder, tmp_path / "out", conflicts=policy)
        return
    made = export(project.folder, tmp_path / "out", conflicts=policy)
    assert made.counts.unreviewed == 0
    labelled = read_set(tmp_path / "out")
    for query in labelled.queries:
        assert not any(own.rejected.get(query.id) for own in people)
        marked = any(own.unanswerable.get(query.id) for own in people)
        for document in project.to_judge[query.id]:
            assert marked or any((query.id, document) in own.grades for own in people)
        texts = {labelled.documents[row].text for row in query.relevant}
        same = [row for row, one in enumerate(labelled.documents) if one.text in texts]
        assert sorted(query.relevant) == same
