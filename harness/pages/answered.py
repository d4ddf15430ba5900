"""Answers of a report: what readers made of a run, beside controls, and where it was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.files import digest
from harness.pages.material import Material, Texts
from harness.records.scores import MetricResult, ProtocolResult
from harness.runs.answering.folder import AnswersFolder, names_of
from harness.runs.answering.judging import reader_of
from harness.runs.answering.shown import CONTROLS, RETRIEVED
from harness.runs.folder.run_folder import RunFolder, read_scores
from harness.schema import Ability
from harness.scoring.answered.losses import CLASSES, held, names
from harness.scoring.scores import range_over_judges

_SLICES = ("all", *(str(ability) for ability in Ability))
_ARMS = ("own", "given", RETRIEVED, *CONTROLS)
_OF_TEXTS = ("exact_match", "token_f1", "containment", "declined")
_OF_LOSSES = (
    *CLASSES,
    *("right_if_all", "right_if_none", "retrieval_could_gain", "reader_could_gain"),
)


def answers_of(run: Path) -> list[AnswersFolder]:
    """The folders of answers beside a run that were made of these very rankings, and the controls
    that the same readers were asked with."""
    own, controls = [], []
    found = [
        AnswersFolder(path.parent) for path in sorted(run.parent.glob("*.answers/answers.json"))
    ]
    rankings = digest(RunFolder(run).rankings) if found else ""
    for one in found:
        of = one.record.get("run") or {}
        mine = (of.get("name"), of.get("rankings")) == (run.resolve().name, rankings)
        control = one.record["retriever"]["control"]
        if mine and (not control or one.record["settings"]["arm"] == "random"):
            own.append(one)
        elif control and one.record["settings"]["arm"] != "random":
            controls.append(one)
    asked = {_kind(one) for one in own}
    found = own + [one for one in controls if _kind(one) in asked]
    return sorted(found, key=lambda one: _ARMS.index(one.record["settings"]["arm"]))


def _kind(one: AnswersFolder) -> tuple[str, str]:
    """What must be equal for answers to stand beside each other: questions and reader."""
    return one.record["dataset"]["fingerprint"], reader_of(one.record)


def answered(folders: Sequence[AnswersFolder]) -> list[dict[str, Any]]:
    """A row a folder: what was shown and spent, and the cells of every protocol."""
    rows = []
    names = names_of([folder.record for folder in folders])
    for name, folder in zip(names, folders, strict=True):
        record, path = folder.record, folder.path / "scores.json"
        report = read_scores(folder.path) if path.is_file() else None
        protocols = report.protocols if report else []
        judges = (report.judges or {}) if report else {}
        rows.append(
            {
                "system": name,
                "control": record["retriever"]["control"],
                "reader": reader_of(record),
                "tokens": record.get("shown_tokens"),
                "usd": (record.get("used") or {}).get("usd"),
                "failed": record["queries"]["failed"],
                "blocks": [_block(one) for one in protocols],
                "over_judges": range_over_judges(protocols),
                "judges": [{"judge": one["judge"], **one["counts"]} for one in judges.values()],
            }
        )
    return rows


def _block(protocol: ProtocolResult) -> dict[str, Any]:
    wanted = {"accuracy", "f1", *_OF_TEXTS, *_OF_LOSSES}
    return {
        "protocol": protocol.protocol,
        "slices": {
            name: {
                metric: _cell(result)
                for metric, result in protocol.slices[name].metrics.items()
                if metric in wanted
            }
            for name in _SLICES
            if name in protocol.columns
        },
    }


def _cell(result: MetricResult) -> dict[str, float | None]:
    interval = result.interval
    ends = {"low": interval.low, "high": interval.high} if interval else {"low": None, "high": None}
    return {"value": result.value, "n": result.n, **ends}


def by_question(
    material: Material, folders: Sequence[AnswersFolder], asked: Any, texts: Texts
) -> list[dict[str, Any]]:
    """Of each folder, by question: the answer, how it was lost, what was shown, every verdict.

    Of several repetitions the first. A text is its number, -1 where there is none or none is shown.
    """
    place = {material.dataset.query_ids[row]: at for at, row in enumerate(asked)}
    found = []
    for folder in folders:
        table = folder.table
        rows = table.to_pylist()
        first = {row["query"]: at for at, row in enumerate(rows) if row["repeat"] == 0}
        answers, shown = [-1] * len(place), [None] * len(place)
        for query, at in first.items():
            if query in place:
                answers[place[query]] = texts.number(rows[at]["answer"])
                shown[place[query]] = rows[at]["documents"]
        control = folder.record["retriever"]["control"]
        found.append(
            {
                "answer": answers,
                "shown": [] if control else shown,
                "verdicts": [
                    _verdicts(material, folder, name, place, first, texts) for name in folder.judged
                ],
            }
        )
    return found


def _verdicts(
    material: Material,
    folder: AnswersFolder,
    name: str,
    place: Mapping[str, int],
    first: Mapping[str, int],
    texts: Texts,
) -> dict[str, Any]:
    """What one judge said of the first answer to each question, and so where it was lost; a reply
    that is no verdict in its own words."""
    record, judged = folder.judgements(name)
    right, reply = [None] * len(place), [-1] * len(place)
    values = np.full(folder.table.num_rows, np.nan)
    for row in judged.to_pylist():
        at = place.get(row["query"])
        if at is None or row["repeat"] or row["judgement"]:
            continue
        right[at] = row["right"]
        if row["right"] is None:
            reply[at] = texts.number(row["reply"])
        else:
            values[first[row["query"]]] = float(row["right"])
    lost: list[str | None] = [None] * len(place)
    of = held(material.dataset, folder.table)
    if of is not None:
        classes = names(of, values)
        for query, at in first.items():
            if query in place:
                lost[place[query]] = classes[at]
    return {"judge": record["judge"], "right": right, "reply": reply, "lost": lost}
