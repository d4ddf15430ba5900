"""Answers for people to judge: the same questions of every folder, and not a word of whose.

A project of answers has the sampled questions as its queries, and as documents what was answered to
them, each text once: what two systems answer in the same words is judged once for both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import digest
from harness.labelling.consensus import of_project
from harness.labelling.folder import Project, Record
from harness.labelling.records import RELEVANT, Candidate
from harness.runs.answering.folder import AnswersFolder, require_texts
from harness.runs.answering.human_labels import Labels
from harness.runs.answering.records import HumanLabelSource

SAMPLE = 100
"""Questions, where nobody says how many."""

_EMPTY = "(the answer is empty)"


def start_with_answers(
    folder: Path,
    answers: Sequence[AnswersFolder],
    dataset: Dataset,
    n: int | None = None,
    seed: int | None = None,
) -> tuple[Project, int]:
    """A project of `n` questions (SAMPLE) that have an answer in every one of `answers`, drawn at
    random, and what was answered to them. Returns it, and how many questions are new.

    On a folder that holds one it goes on, and a larger `n` adds questions: those that were drawn
    stay, so that the sample is random at any size. Raises UsageError for other answers or another
    seed than it was begun with, for a dataset without texts, and where no question has an answer in
    all.
    """
    require_texts(dataset)
    about = [_about(one) for one in answers]
    new = not (folder / "label.json").is_file()
    old = Project(folder, {}, [], [], []) if new else Project.read(folder)
    if not new and old.settings.get("answers") != about:
        raise UsageError(
            f"{folder}: was not begun with these answers as they are now; name another folder with "
            "--out"
        )
    if not new and seed not in (None, old.seed):
        raise UsageError(
            f"--seed {seed}: {folder} was begun with seed {old.seed}; leave it out, or name "
            "another folder with --out"
        )
    wanted = (SAMPLE if new else len(old.queries)) if n is None else n
    if wanted < 1:
        raise UsageError(f"--sample must be 1 or more, not {wanted}")
    number = old.seed if seed is None else seed
    given = [_texts(one) for one in answers]
    chosen = _drawn(given, max(wanted, len(old.queries)), number)
    texts = [text for of_folder in given for name in chosen for text in of_folder[name]]
    documents = {_id(text): _document(text) for text in texts}
    project = Project(
        folder,
        {"seed": number, "overlap": 1.0, "relevant_from": RELEVANT, "answers": about},
        list(documents.values()),
        _queries(dataset, chosen),
        [one for name in chosen for one in _candidates(name, about, given)],
    )
    if len(chosen) > len(old.queries):
        project.write()
    return project, len(chosen) - len(old.queries)


def _drawn(given: Sequence[Mapping[str, list[str]]], n: int, seed: int) -> list[str]:
    """At most `n` of the questions that all answered; those of a smaller `n` come first."""
    ids = sorted(set.intersection(*(set(one) for one in given)))
    if not ids:
        raise UsageError("no question has an answer in all of these folders")
    return [ids[at] for at in np.random.default_rng(seed).permutation(len(ids))[:n].tolist()]


def _queries(dataset: Dataset, names: Sequence[str]) -> list[Record]:
    row = {name: at for at, name in enumerate(dataset.query_ids)}
    found = [dataset.query(row[name]) for name in names]
    return [{"id": one.id, "text": one.text, "answers": list(one.answers)} for one in found]


def _document(text: str) -> Record:
    return {"id": _id(text), "text": text.strip() or _EMPTY}


def _candidates(
    query: str, about: Sequence[Record], given: Sequence[Mapping[str, list[str]]]
) -> list[Candidate]:
    """What was answered to a question, each text once, with who gave it."""
    ranks: dict[str, dict[str, int]] = {}
    for system, texts in zip(about, given, strict=True):
        for text in texts[query]:
            ranks.setdefault(_id(text), {})[system["folder"]] = 1
    return [Candidate(query, document, of_systems) for document, of_systems in ranks.items()]


def labels_of_project(folder: Path, answers: AnswersFolder) -> tuple[Labels, HumanLabelSource]:
    """Reads the labels of a project's annotators, and where they come from.

    Agreed and adjudicated labels count; answers in open conflict have none, and are counted. Raises
    UsageError for a project of other answers.
    """
    project = Project.read(folder)
    if _about(answers) not in project.settings.get("answers", []):
        raise UsageError(
            f"{folder}: people judged there, but not the answers of {answers.path} as they are now"
        )
    agreed = of_project(project)
    labels = {
        (query, repeat): agreed.grades[query, _id(text)] >= project.relevant_from
        for query, texts in _rows(answers).items()
        for repeat, text in texts
        if (query, _id(text)) in agreed.grades
    }
    if not labels:
        raise UsageError(f"{folder}: nobody judged an answer yet, or all are in conflict")
    source = HumanLabelSource(
        folder=folder.resolve().name,
        annotators=project.annotators(),
        conflicts=len(agreed.open),
    )
    return labels, source


def _about(answers: AnswersFolder) -> Record:
    system = answers.record.name
    sha256 = digest(answers.path / "answers.parquet")
    return {"folder": answers.path.resolve().name, "system": system, "sha256": sha256}


def _rows(answers: AnswersFolder) -> dict[str, list[tuple[int, str]]]:
    """Answers that came, with the number of the repetition, by question."""
    found: dict[str, list[tuple[int, str]]] = {}
    table = answers.table
    for query, repeat, text in zip(
        *(table[name].to_pylist() for name in ("query", "repeat", "answer")), strict=True
    ):
        if text is not None:
            found.setdefault(query, []).append((repeat, text))
    return found


def _texts(answers: AnswersFolder) -> dict[str, list[str]]:
    return {query: [text for _, text in rows] for query, rows in _rows(answers).items()}


def _id(text: str) -> str:
    """Of an answer: the same for the same words, and nothing of who gave it."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]
