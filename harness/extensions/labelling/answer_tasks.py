"""Projects of answers: the same questions from every folder, without the systems' names.

The queries are the sampled questions; the documents are their answers, each text once: an answer
that two systems give in the same words is judged once for both. A failed answer is wrong, and not
shown to annotators."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.judging import Labels
from harness.extensions.labelling.consensus import read_consensus
from harness.extensions.labelling.project import (
    VERSION,
    Candidate,
    JudgedAnswers,
    LabelDocument,
    LabelQuery,
    LabelSettings,
    Project,
)
from harness.io.files import digest
from harness.records.answers import HumanLabelSource
from harness.runs.folder.answers_folder import AnswersFolder, require_texts

SAMPLE = 100
"""Default number of questions."""

_EMPTY = "(the answer is empty)"


def start_with_answers(
    folder: Path,
    answers: Sequence[AnswersFolder],
    dataset: Dataset,
    n: int | None = None,
    seed: int | None = None,
) -> tuple[Project, int]:
    """Creates a project of `n` random questions (default SAMPLE) that were asked in all of
    `answers`, with the answers that did not fail. Returns it, and the number of new questions.

    An existing project continues, and a larger `n` adds questions: earlier ones stay, so the sample
    is random at any size. Raises UsageError for answers or a seed that differ from the project's,
    for a dataset without texts, and if no question was asked in all folders.
    """
    require_texts(dataset)
    judged = [_judged_answers(one) for one in answers]
    new = not (folder / "label.json").is_file()
    old = Project.new(folder) if new else Project.read(folder)
    if not new and old.settings.answers != judged:
        raise UsageError(
            f"{folder}: was created with other answers; name another folder with --out"
        )
    if not new and seed not in (None, old.settings.seed):
        raise UsageError(
            f"--seed {seed}: {folder} was created with seed {old.settings.seed}; leave it out, or "
            "name another folder with --out"
        )
    wanted = (SAMPLE if new else len(old.queries)) if n is None else n
    if wanted < 1:
        raise UsageError(f"--sample must be 1 or more, not {wanted}")
    number = old.settings.seed if seed is None else seed
    texts = [_texts(one) for one in answers]
    ids = sorted(set.intersection(*(set(one) for one in texts)))
    if not ids:
        raise UsageError("these folders have no question in common")
    # The questions of a smaller sample come first.
    order = np.random.default_rng(number).permutation(len(ids)).tolist()
    drawn = [ids[at] for at in order[: max(wanted, len(old.queries))]]
    row = dataset.query_rows
    asked = [dataset.query(row[name]) for name in drawn]
    documents = {
        _id(text): LabelDocument(id=_id(text), text=text.strip() or _EMPTY)
        for of_folder in texts
        for query in drawn
        for text in of_folder[query]
    }
    project = Project(
        folder,
        LabelSettings(version=VERSION, depth=0, seed=number, overlap=1.0, answers=judged),
        list(documents.values()),
        [LabelQuery(id=one.id, text=one.text, answers=list(one.answers)) for one in asked],
        [one for query in drawn for one in _candidates(query, judged, texts)],
    )
    if len(drawn) > len(old.queries):
        project.write()
    return project, len(drawn) - len(old.queries)


def _candidates(
    query: str, judged: Sequence[JudgedAnswers], texts: Sequence[Mapping[str, list[str]]]
) -> list[Candidate]:
    """Returns the answers to a question, each text once, with the folders that have it."""
    ranks: dict[str, dict[str, int]] = {}
    for system, of_folder in zip(judged, texts, strict=True):
        for text in of_folder[query]:
            ranks.setdefault(_id(text), {})[system.folder] = 1
    return [
        Candidate(query=query, document=document, ranks=of_document)
        for document, of_document in ranks.items()
    ]


def labels_of_project(folder: Path, answers: AnswersFolder) -> tuple[Labels, HumanLabelSource]:
    """Reads the labels of a project's annotators, and their source.

    Agreed and adjudicated labels count; answers in open conflict have no label and are counted. The
    failed answers of the sample are labelled wrong, but only once all others in it are judged;
    before, they would be overrepresented. Raises UsageError for a project of other
    answers.
    """
    project = Project.read(folder)
    if _judged_answers(answers) not in project.settings.answers:
        raise UsageError(f"{folder}: contains judgements of other answers than {answers.path}")
    agreed = read_consensus(project)
    sampled = {query: texts for query, texts in _rows(answers).items() if query in project.query}
    pair_of = {
        (query, repeat): (query, _id(text))
        for query, texts in sampled.items()
        for repeat, text in texts
        if text is not None
    }
    labels = {
        answer: agreed.grades[pair] >= project.settings.relevance_level
        for answer, pair in pair_of.items()
        if pair in agreed.grades
    }
    if pair_of and not labels:
        raise UsageError(f"{folder}: no answer is judged without conflict yet")
    judged = {*agreed.grades, *((one.query, one.document) for one in agreed.open)}
    if judged.issuperset(pair_of.values()):
        all_answers = ((query, repeat) for query, texts in sampled.items() for repeat, _ in texts)
        labels.update((answer, False) for answer in all_answers if answer not in pair_of)
    source = HumanLabelSource(
        folder=folder.resolve().name,
        annotators=project.annotators(),
        conflicts=len(agreed.open),
    )
    return labels, source


def _judged_answers(answers: AnswersFolder) -> JudgedAnswers:
    return JudgedAnswers(
        folder=answers.path.resolve().name,
        system=answers.record.name,
        sha256=digest(answers.path / "answers.parquet"),
    )


def _rows(answers: AnswersFolder) -> dict[str, list[tuple[int, str | None]]]:
    """Returns the answers with their repetition numbers, by question; a failed one is None."""
    found: dict[str, list[tuple[int, str | None]]] = {}
    table = answers.table
    for query, repeat, text in zip(
        *(table[name].to_pylist() for name in ("query", "repeat", "answer")), strict=True
    ):
        found.setdefault(query, []).append((repeat, text))
    return found


def _texts(answers: AnswersFolder) -> dict[str, list[str]]:
    """Returns the answers that did not fail, by question."""
    return {
        query: [text for _, text in rows if text is not None]
        for query, rows in _rows(answers).items()
    }


def _id(text: str) -> str:
    """Returns the id of an answer, which depends only on its text, not on the system."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]
