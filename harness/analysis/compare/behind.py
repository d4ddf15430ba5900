"""Differences between judged answers, by the judge and by human labels of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.scored_run import Block, ScoredRun
from harness.io.terminal import count_of
from harness.runs.folder.answers_folder import AnswersFolder
from harness.scoring.arrays import Flags
from harness.scoring.score_columns import name_clusters
from harness.stats.judged import JudgedRate, prediction_powered_difference

ACCURACY = "accuracy"
HUMAN = ("human", "answer")


@dataclass(frozen=True)
class Behind:
    """Run `b` minus run `a` (indices of the group's runs) over judged questions that both answered.

    `failed` counts the questions that one of them failed on: failed answers are always wrong, and
    carry no information about the judge's errors. `judged` is the judge's difference, `with_people`
    that of `harness.stats.judged`.
    """

    a: int
    b: int
    failed: int
    judged: float
    with_people: JudgedRate


def behind(
    runs: Sequence[ScoredRun],
    block: Block,
    pairs: Sequence[tuple[int, int]],
    clusters: Sequence[str] | None,
) -> tuple[Behind, ...]:
    """All pairs of runs with answers judged by a judge and by people; none for other protocols.

    `clusters` are of the first run's rows, None where questions are independent.
    """
    judge = block[0]
    if not judge.startswith("judge:"):
        return ()
    found = []
    order = runs[0].rows(block).queries
    for a, b in pairs:
        if any(HUMAN not in runs[at].blocks for at in (a, b)):
            continue
        judged, people = (
            runs[b].rows(of).values(ACCURACY, order) - runs[a].rows(of).values(ACCURACY, order)
            for of in (block, HUMAN)
        )
        answered = _answered(runs[a], order) & _answered(runs[b], order)
        judged[~answered] = people[~answered] = np.nan
        if np.isnan(judged).all():
            continue
        with_people = prediction_powered_difference(judged, people, clusters)
        found.append(
            Behind(
                a,
                b,
                int(np.count_nonzero(~answered)),
                float(np.nanmean(judged)),
                replace(with_people, note=name_clusters(with_people.note, "haystacks")),
            )
        )
    return tuple(found)


def render_behind(found: Sequence[Behind], letters: Sequence[str], draw: Callable[..., str]) -> str:
    """Formats a line per pair with `draw` (rows, headers); empty without human labels."""
    if not found:
        return ""
    rows = [
        [
            f"{letters[one.b]} - {letters[one.a]}",
            f"{one.judged:+.4f}",
            _interval(one.with_people),
            str(one.with_people.people),
            "; ".join(dict.fromkeys(filter(None, _notes(one)))),
        ]
        for one in found
    ]
    heads = ["pair", "judge", "judge and people", "labelled", "note"]
    return (
        f"Difference in accuracy (slice=all), corrected by human labels:\n\n{draw(rows, heads)}"
        "\n\njudge and people: the judge's difference, corrected by its errors in a random sample "
        "where people labelled the answers of both.\n"
        "This makes no assumption about the judge's errors."
    )


def _notes(one: Behind) -> Iterator[str]:
    if one.failed:
        yield f"{count_of(one.failed, 'questions')} excluded: one of the two failed"
    yield one.with_people.note


def _answered(run: ScoredRun, queries: Sequence[str]) -> Flags:
    """Whether all answers to each question succeeded."""
    if not run.scores.queries.failed:
        return np.ones(len(queries), bool)
    table = AnswersFolder(run.folder).table
    failed = {*table.filter(table["answer"].is_null())["query"].to_pylist()}
    return np.array([query not in failed for query in queries])


def _interval(rate: JudgedRate) -> str:
    if rate.value is None:
        return "-"
    if rate.low is None:
        return f"{rate.value:+.4f}"
    return f"{rate.value:+.4f} [{rate.low:+.4f}, {rate.high:+.4f}]"
