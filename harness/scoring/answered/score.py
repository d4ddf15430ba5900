"""Scores of answers: plain measures, LoCoMo's official F1, and each judge's verdicts.

Each is a block as a protocol of rankings makes one: cells by slice and metric with n, interval and
signature, and values by query. A question whose answer did not come is left out and counted; of
several repetitions the mean counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import harness
from harness.dataset.reader import Dataset
from harness.schema import Ability
from harness.scoring.answered import locomo
from harness.scoring.answered.error_attribution import (
    EvidenceCoverage,
    class_shares,
    evidence_coverage,
)
from harness.scoring.answered.texts import abstains
from harness.scoring.answers import METRICS, Text, best_of
from harness.scoring.arrays import Values
from harness.scoring.cells import Column, query_table
from harness.scoring.score import SCORE_VERSION, dataset_of_scores
from harness.scoring.signature import Signature, digest
from harness.scoring.slices import slices
from harness.scoring.uncertainty import add_intervals, add_means_over_categories
from harness.statistics.repeats import variance_components

UNIT = "answer"
TEXTS = ("exact_match", "token_f1", "containment")


@dataclass(frozen=True)
class Verdicts:
    """What one judge said: `right` by row of the answers' table, NaN where it said neither yes nor
    no; of several judgements of an answer the mean."""

    name: str
    version: int
    signature: str
    right: Values


@dataclass(frozen=True)
class _Block:
    """One block before its cells are made."""

    name: str
    version: int
    about: str
    columns: list[Column]


def score_answers(
    dataset: Dataset, answers: pa.Table, reader: str, judged: Sequence[Verdicts] = ()
) -> tuple[dict[str, Any], pa.Table]:
    """scores.json and scores.parquet of answers.

    `answers` has the columns of a folder of answers. `reader` says who was
    asked and what was shown, for the signatures: all that must agree for answers to be of one kind
    but the system.
    """
    known = {name: row for row, name in enumerate(dataset.query_ids)}
    rows = np.array([known[name] for name in answers["query"].to_pylist()], np.int64)
    texts: list[str | None] = answers["answer"].to_pylist()
    asked = np.zeros(dataset.n_queries, bool)
    asked[rows] = True
    came = np.zeros(dataset.n_queries, bool)
    came[rows[[text is not None for text in texts]]] = True
    masks = slices(dataset)
    blocks, tables = [], []
    for block in _blocks(dataset, rows, texts, judged, evidence_coverage(dataset, answers)):
        of_block = next((one.signature for one in judged if one.name == block.name), "")
        base = _signature(dataset, block, reader, of_block, came)
        found = _cells(dataset, block, masks, base, int((asked & ~came).sum()))
        if found["slices"]:
            blocks.append(found)
            tables.append(query_table(dataset, asked, block.name, UNIT, block.columns))
    ids = sorted(dataset.query_ids[row] for row in np.flatnonzero(asked))
    summary = {
        "score_version": SCORE_VERSION,
        "harness": harness.__version__,
        "dataset": dataset_of_scores(dataset),
        "reader": reader,
        "depth": 0,
        "queries": {
            "in_dataset": dataset.n_queries,
            "asked": int(asked.sum()),
            "scorable": {"n": len(ids), "digest": digest(ids)},
            "failed": int((asked & ~came).sum()),
        },
        "repeats": _repeats(dataset, rows, texts, judged),
        "protocols": blocks,
    }
    return summary, pa.concat_tables(tables, promote_options="default")


HALF_WIDTH = 0.02
"""The precision of which it is said what it would take."""


def _repeats(
    dataset: Dataset, rows: np.ndarray, texts: Sequence[str | None], judged: Sequence[Verdicts]
) -> dict[str, Any]:
    """Of answers that were asked several times: what varies between questions and what between
    repetitions, by judge, and for words (token_f1); empty where nothing was repeated."""
    if len(np.unique(rows)) == len(rows):
        return {}
    references: list[list[str]] = dataset.query_table["answers"].to_pylist()
    without = dataset.abilities == str(Ability.ABSTENTION)
    words = [
        np.nan
        if text is None or without[row]
        else best_of(METRICS["token_f1"], Text(text), [Text(one) for one in references[row]])
        for row, text in zip(rows.tolist(), texts, strict=True)
    ]
    found = {}
    for name, values in (
        ("answers-text", np.array(words)),
        *((one.name, one.right) for one in judged),
    ):
        order = np.argsort(rows, kind="stable")
        ids, starts = np.unique(rows[order], return_index=True)
        place = np.arange(len(rows)) - np.repeat(starts, np.diff([*starts, len(rows)]))
        table = np.full((len(ids), int(place.max()) + 1), np.nan)
        table[np.searchsorted(ids, rows[order]), place] = values[order]
        of = variance_components(table)
        if of is not None:
            found[name] = {
                "questions": of.questions,
                "repeats": of.repeats,
                "between": of.between,
                "within": of.within,
                "of_experiment": of.of_experiment,
                "half_width": HALF_WIDTH,
                "questions_needed": of.questions_needed(HALF_WIDTH),
                "repeats_needed": of.repeats_needed(HALF_WIDTH),
            }
    return found


def _blocks(
    dataset: Dataset,
    rows: np.ndarray,
    texts: Sequence[str | None],
    judged: Sequence[Verdicts],
    evidence: EvidenceCoverage | None,
) -> list[_Block]:
    references: list[list[str]] = dataset.query_table["answers"].to_pylist()
    without = dataset.abilities == str(Ability.ABSTENTION)
    n = dataset.n_queries
    found = {name: np.full(len(texts), np.nan) for name in (*TEXTS, "abstained")}
    for at, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
        if text is None:
            continue
        found["abstained"][at] = abstains(text)
        if without[row]:
            continue
        cut, known = Text(text), [Text(one) for one in references[row]]
        for name in TEXTS:
            found[name][at] = best_of(METRICS[name], cut, known)
    about = (
        "answers against the references, without a model; of questions that have none only whether "
        "the answer abstains"
    )
    columns = [_column(name, values, rows, n) for name, values in found.items()]
    blocks = [_Block("answers-text", 1, about, columns)]
    categories = dataset.categories
    if dataset.name == "locomo" and {*categories.tolist()} <= locomo.CATEGORIES.keys():
        values = np.array(
            [
                np.nan
                if text is None
                else locomo.f1(
                    text, (references[row] or [""])[0], locomo.CATEGORIES[str(categories[row])]
                )
                for row, text in zip(rows.tolist(), texts, strict=True)
            ]
        )
        about = "LoCoMo's F1 of stemmed words, by category (task_eval/evaluation.py)"
        blocks.append(_Block("locomo-answers", 1, about, [_column("f1", values, rows, n)]))
    for one in judged:
        about = f"whether an answer is right, by {one.signature}"
        accuracy = _column("accuracy", one.right, rows, n)
        columns = [accuracy]
        if evidence is not None:
            columns += [_column(*of, rows, n) for of in class_shares(evidence, one.right).items()]
        blocks.append(_Block(one.name, one.version, about, columns))
    return blocks


def _column(name: str, values: Values, rows: np.ndarray, n: int) -> Column:
    """The mean over repetitions of each question; NaN where there is none."""
    there = ~np.isnan(values)
    sums = np.bincount(rows[there], values[there], n)
    counts = np.bincount(rows[there], minlength=n)
    means = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return Column(name, means, np.ones(n, bool), None, None)


def _signature(
    dataset: Dataset, block: _Block, reader: str, judge: str, came: np.ndarray
) -> Signature:
    manifest = dataset.manifest
    ids = [dataset.query_ids[row] for row in np.flatnonzero(came)]
    return Signature(
        metric="",
        protocol=f"{block.name}/{block.version}",
        data=f"{manifest.name}#{manifest.fingerprint[:8]}",
        unit=UNIT,
        text=manifest.text,
        split=manifest.split,
        slice="",
        n=0,
        queries="all" if came.all() else digest(ids),
        ties="order",
        depth=0,
        missing="skip",
        v=harness.__version__,
        reader=reader,
        judge=judge,
    )


def _cells(
    dataset: Dataset, block: _Block, masks: Mapping[str, np.ndarray], base: Signature, failed: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, mask in masks.items():
        cells = {}
        for column in block.columns:
            cell = column.cell(mask)
            if cell is None:
                continue
            signed = replace(base, metric=str(column.metric), slice=name, n=cell["n"])
            cells[str(column.metric)] = {**cell, "signature": str(signed)}
        if cells:
            found[name] = {"n": max(cell["n"] for cell in cells.values()), "metrics": cells}
    inner = {name: part["metrics"] for name, part in found.items()}
    add_intervals(dataset, block.columns, masks, inner)
    add_means_over_categories(inner)
    return {
        "protocol": block.name,
        "version": block.version,
        "about": block.about,
        "unit": UNIT,
        "ties": "order",
        "left_out": {"no answer came": failed} if failed else {},
        "touched_by_depth": [],
        "slices": found,
    }
