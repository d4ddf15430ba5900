"""A retrieve function on cases: called once a case, timed, and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.scoring.metrics import Metric
from harness.testing.answers import Answer, asking, read_answer
from harness.testing.cases import read_cases
from harness.testing.report import Report
from harness.testing.thresholds import metric_of

DEFAULT = ("recall@{k}", "ndcg@{k}", "mrr@{k}")


def evaluate(
    retrieve: Callable[..., Any],
    cases: Iterable[Any],
    k: int = 10,
    metrics: str | Sequence[str] | None = None,
) -> Report:
    """Ask `retrieve` every case, and score what it returns; `print(report)` is one line.

    `retrieve(query)` or `retrieve(query, k)` returns ids, best first, or (id, score) pairs.
    `cases` are (query, relevant) pairs, or mappings with `query`, `relevant`, `ability`, `id`;
    `relevant` is a set or list of ids, or `{id: grade}`, and empty for a question that has no
    answer: those are in no mean, and what is returned for them is false evidence. `metrics` are
    those that the report prints (recall, nDCG and MRR at k); it can be asked for any other up to k.
    Values are `harness.evaluate`'s, so trec_eval's, with the ranking in the order as returned.

    A case for which `retrieve` raises is failed: it is in no mean, is counted in the report, and
    makes `assert_quality` fail. Results that repeat an id, and those beyond k, are left out and
    counted. Raises UsageError, naming the case, for cases and results of another shape.
    """
    __tracebackhide__ = True
    try:
        return _evaluate(retrieve, cases, k, metrics)
    except HarnessError as error:
        # Nothing above this line is the caller's: the message says it all.
        raise error.with_traceback(None) from None


def _evaluate(
    retrieve: Callable[..., Any],
    cases: Iterable[Any],
    k: int,
    metrics: str | Sequence[str] | None,
) -> Report:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be a whole number, 1 or more, not {k!r}")
    wanted = metrics.split(",") if isinstance(metrics, str) else metrics
    names = [metric_of(name) for name in wanted or [name.format(k=k) for name in DEFAULT]]
    for name in names:
        if (Metric.parse(name).k or 1) > k:
            raise UsageError(f"{name} needs rankings that are deeper than k = {k}; give a larger k")
    ask = asking(retrieve, k)
    read = read_cases(cases)
    answers: list[Answer | None] = []
    failed: dict[str, str] = {}
    seconds: list[float] = []
    for case in read:
        began = perf_counter()
        try:
            returned = ask(case.query)
            if not isinstance(returned, str | list | tuple) and hasattr(returned, "__next__"):
                returned = list(returned)  # a generator does its work, and fails, only here
            seconds.append(perf_counter() - began)
        except Exception as error:  # whatever the caller's code raises: it is shown and counted
            seconds.append(perf_counter() - began)
            failed[case.id] = " ".join(f"{type(error).__name__}: {error}".split())
            answers.append(None)
        else:
            answers.append(read_answer(case, returned, k))
    return Report(read, tuple(answers), tuple(seconds), failed, k, tuple(dict.fromkeys(names)))
