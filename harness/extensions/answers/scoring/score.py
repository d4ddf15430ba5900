"""Scores answers: text metrics, LoCoMo's official F1, and each judge's verdicts.

Each is a ProtocolResult, like those of rankings: results by slice and metric with n, interval
and signature, and values by query. A failed answer counts 0 in every mean, and `answered_only` is
the mean over the questions without one; repetitions of a question are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import harness
from harness.datasets.reader import Dataset
from harness.extensions.answers.scoring import locomo
from harness.extensions.answers.scoring.error_attribution import (
    abstains,
    class_shares,
    evidence_coverage,
    question_rows,
)
from harness.extensions.answers.scoring.text_metrics import METRICS, Text, best_of
from harness.records.scores import (
    ProtocolResult,
    RepeatVariance,
    ScorableQueries,
    ScoredQueries,
    ScoreReport,
    SliceResult,
)
from harness.schema import Ability
from harness.scoring.arrays import Values
from harness.scoring.score import scored_dataset
from harness.scoring.score_columns import (
    Column,
    query_clusters,
    query_table,
    slice_results,
    slices,
    with_intervals,
    with_macro_category,
)
from harness.scoring.signatures import Signature, digest
from harness.stats.repeats import variance_components

LEVEL = "answer"
TEXTS = ("exact_match", "token_f1", "containment")


@dataclass(frozen=True)
class JudgeVerdicts:
    """The verdicts of one judge: `right` by row of the answers' table, 0 for a failed answer, NaN
    for an undecided reply, and the mean of several judgements of one answer."""

    name: str
    version: int
    signature: str
    right: Values


def score_answers(
    dataset: Dataset, answers: pa.Table, reader: str, judged: Sequence[JudgeVerdicts] = ()
) -> tuple[ScoreReport, pa.Table]:
    """Returns scores.json and scores.parquet of answers.

    `answers` has the columns of a folder of answers. `reader` describes the reader and its context,
    for the signatures: everything except the system that comparable answers have in common.
    """
    rows = question_rows(dataset, answers)
    texts: list[str | None] = answers["answer"].to_pylist()
    asked = np.zeros(dataset.n_queries, bool)
    asked[rows] = True
    failed = np.zeros(dataset.n_queries, bool)
    failed[rows[[text is None for text in texts]]] = True
    ids = [dataset.query_ids[row] for row in np.flatnonzero(asked)]
    manifest = dataset.manifest
    shared = Signature(
        metric="",
        protocol="",
        data=f"{manifest.name}#{manifest.fingerprint[:8]}",
        level=LEVEL,
        text=manifest.text,
        split=manifest.split,
        slice="",
        n=0,
        queries="all" if asked.all() else digest(ids),
        ties="order",
        depth=0,
        missing="zero",
        v=harness.__version__,
        reader=reader,
    )
    masks, by_words = slices(dataset), _by_words(dataset, rows, texts)
    results, tables = [], []

    def add(name: str, about: str, values: Mapping[str, Values], version: int, judge: str) -> None:
        columns = [_column(metric, one, rows, len(asked)) for metric, one in values.items()]
        found = slice_results(columns, masks, failed)
        found = with_macro_category(with_intervals(dataset, columns, masks, found))
        signature = replace(shared, protocol=f"{name}/{version}", judge=judge)
        result = ProtocolResult(
            protocol=name,
            version=version,
            description=about,
            level=LEVEL,
            ties="order",
            signature=signature.template,
        ).with_slices({part: SliceResult.of(one) for part, one in found.items()})
        if result.columns:
            results.append(result)
            tables.append(query_table(dataset, asked, name, LEVEL, columns))

    about = (
        "answers against the references, without a model; of questions that have none only whether "
        "the answer abstains"
    )
    add("answers-text", about, by_words, 1, "")
    if dataset.name == "locomo" and {*dataset.categories.tolist()} <= locomo.CATEGORIES.keys():
        about = "LoCoMo's F1 of stemmed words, by category (task_eval/evaluation.py)"
        add("locomo-answers", about, {"f1": _locomo_f1(dataset, rows, texts)}, 1, "")
    evidence = evidence_coverage(dataset, answers)
    for one in judged:
        values = {"accuracy": one.right}
        values |= {} if evidence is None else class_shares(evidence, one.right)
        about = f"whether an answer is right, by {one.signature}"
        add(one.name, about, values, one.version, one.signature)
    report = ScoreReport(
        harness=harness.__version__,
        dataset=scored_dataset(dataset),
        reader=reader,
        depth=0,
        missing="zero",
        queries=ScoredQueries(
            in_dataset=dataset.n_queries,
            asked=int(asked.sum()),
            scorable=ScorableQueries(n=len(ids), digest=digest(sorted(ids))),
            failed=int(failed.sum()),
        ),
        repeats=_repeats(
            rows,
            {"answers-text": by_words["token_f1"]} | {one.name: one.right for one in judged},
            query_clusters(dataset),
        ),
        protocols=results,
    )
    return report, pa.concat_tables(tables, promote_options="default")


HALF_WIDTH = 0.02
"""Half-width of the interval for which the required sample size is reported."""


def _repeats(
    rows: np.ndarray, by_protocol: Mapping[str, Values], haystacks: npt.NDArray[np.int32] | None
) -> dict[str, RepeatVariance]:
    """Returns the variance between questions and between repetitions of a question, by judge and
    for text metrics (token_f1); empty if no question was repeated."""
    if len(np.unique(rows)) == len(rows):
        return {}
    found = {}
    for name, values in by_protocol.items():
        order = np.argsort(rows, kind="stable")
        ids, starts = np.unique(rows[order], return_index=True)
        place = np.arange(len(rows)) - np.repeat(starts, np.diff([*starts, len(rows)]))
        table = np.full((len(ids), int(place.max()) + 1), np.nan)
        table[np.searchsorted(ids, rows[order]), place] = values[order]
        if of := variance_components(table, None if haystacks is None else haystacks[ids]):
            needed = of.clusters_needed(HALF_WIDTH)
            found[name] = RepeatVariance(
                questions=of.questions,
                repeats=of.repeats,
                between=of.between,
                within=of.within,
                of_experiment=of.of_experiment,
                half_width=HALF_WIDTH,
                questions_needed=needed and math.ceil(needed * of.questions / len(of.units.sums)),
                repeats_needed=of.repeats_needed(HALF_WIDTH),
                haystacks_needed=needed if of.units.clustered else None,
            )
    return found


def _by_words(dataset: Dataset, rows: np.ndarray, texts: Sequence[str | None]) -> dict[str, Values]:
    """Computes the text metrics of each answer; NaN for an unanswerable question."""
    references: list[list[str]] = dataset.query_table["answers"].to_pylist()
    without = dataset.abilities == str(Ability.ABSTENTION)
    found = {name: np.full(len(texts), np.nan) for name in (*TEXTS, "abstained")}
    for at, (row, text) in enumerate(zip(rows.tolist(), texts, strict=True)):
        found["abstained"][at] = text is not None and abstains(text)
        if without[row]:
            continue
        # A failed answer scores like the empty text: 0, or NaN without a reference.
        cut, known = Text(text or ""), [Text(one) for one in references[row]]
        for name in TEXTS:
            found[name][at] = best_of(METRICS[name], cut, known)
    return found


def _locomo_f1(dataset: Dataset, rows: np.ndarray, texts: Sequence[str | None]) -> Values:
    references: list[list[str]] = dataset.query_table["answers"].to_pylist()
    categories = [locomo.CATEGORIES[str(one)] for one in dataset.categories]
    return np.array(
        [
            0.0 if text is None else locomo.f1(text, (references[row] or [""])[0], categories[row])
            for row, text in zip(rows.tolist(), texts, strict=True)
        ]
    )


def _column(name: str, values: Values, rows: np.ndarray, n: int) -> Column:
    """Averages the repetitions of each question; NaN for a question without values."""
    there = ~np.isnan(values)
    sums = np.bincount(rows[there], values[there], n)
    counts = np.bincount(rows[there], minlength=n)
    means = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return Column(name, means, np.ones(n, bool), None, None)
