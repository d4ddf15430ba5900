"""The status of a project as text."""

from __future__ import annotations

import textwrap

from harness.labelling.reports import (
    AgreementMeasure,
    RequiredSample,
    ScoreStatus,
    StatusReport,
    SystemStatus,
)
from harness.scoring.grid import grid

_NONE = "-"


def render_status(found: StatusReport) -> str:
    """Returns what `harness label status` prints."""
    parts = [_head(found), _annotators(found), _agreement(found), _conflicts(found)]
    if found.target == "answer":
        if found.annotators:
            parts.append(f"take the judgements in with `{found.next_command}`")
    else:
        parts += [_progress(found), *_scores(found)]
    return "\n\n".join(part for part in parts if part)


def _head(found: StatusReport) -> str:
    if found.target == "answer":
        answers = f"{_n(found.candidates, 'answer')} of {', '.join(found.systems)}"
        return f"{found.folder}: {_n(found.queries, 'question')}, {answers}"
    lines = [
        f"{found.folder}: {_n(found.queries, 'query', 'queries')}, "
        f"{_n(found.candidates, 'candidate')}, {_n(found.documents, 'document')}"
    ]
    if found.systems:
        lines.append(f"pooled to depth {found.depth}: {', '.join(found.systems)}")
    if len(found.systems) == 1:
        lines.append("only one system is pooled, so the qrels favour it")
    if found.without_candidates:
        lines.append(f"{found.without_candidates} queries have no candidate")
    if found.overlap < 1:
        lines.append(f"{found.shared_queries} of the queries are judged by everybody")
    if found.by_construction:
        lines.append(f"{found.by_construction} grades are by construction")
    return "\n".join(lines)


def _annotators(found: StatusReport) -> str:
    if not found.annotators:
        return f"nobody has judged yet: harness label open {found.folder} --annotator NAME"
    rows = [
        [
            one.name,
            one.grades,
            one.remaining,
            f"{one.queries - one.queries_remaining} of {one.queries}",
            one.unanswerable,
            one.abilities,
        ]
        for one in found.annotators
    ]
    headers = ["annotator", "grades", "left", "queries done", "cannot be answered", "abilities"]
    if found.target == "answer":
        rows, headers = [row[:4] for row in rows], [*headers[:3], "questions done"]
    return grid(rows, headers)


def _agreement(found: StatusReport) -> str:
    if not found.agreement:
        return "agreement: not measurable, as fewer than two annotators have judged"
    rows = [
        [
            one.variable,
            one.measure,
            " ".join(one.annotators) if len(one.annotators) == 2 else "all",
            _value(one.value),
            _interval(one),
            one.n,
            one.queries,
            one.note,
        ]
        for one in found.agreement
    ]
    headers = ["agreement on", "measure", "between", "value", "95% interval", "n", "queries", ""]
    table = grid(rows, headers)
    return (
        f"{table}\nn is what two annotators or more judged. For grades look at alpha, ordinal: "
        "from 0.80 on it is\ncalled reliable, from 0.667 on tentative (Krippendorff, 2004)"
    )


def _conflicts(found: StatusReport) -> str:
    kinds, resolved = found.conflicts.open, found.conflicts.resolved
    n = sum(kinds.values())
    if not n and not resolved:
        return ""
    if not n:
        return f"conflicts: none open, {resolved} resolved"
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return (
        f"conflicts: {n} open ({counts}), {resolved} resolved\n"
        f"  resolve them with `harness label adjudicate {found.folder}`"
    )


def _progress(found: StatusReport) -> str:
    done = found.progress
    n = done.unanswerable_unconfirmed
    given = f" ({n} as given, judged by nobody)" if n else ""
    return _paragraph(
        f"queries: {done.scorable} finished with a relevant document, {done.without_relevant} "
        f"finished without one, {done.unanswerable} cannot be answered{given}, {done.unfinished} "
        "unfinished, or in conflict over whether they can be answered"
    )


def _scores(found: StatusReport) -> list[str]:
    scores = found.scores
    if scores is None:
        return []
    metric, wanted = scores.metric, f"±{scores.target_half_width:g}"
    if not scores.n:
        return [f"{metric}: cannot be estimated yet, no query is finished with a relevant document"]
    rows = [
        [
            one.system,
            one.n,
            _value(one.value),
            _interval(one),
            _NONE if one.half_width is None else f"±{one.half_width:.3f}",
            _value(one.judged),
            _NONE if one.required is None else one.required,
        ]
        for one in scores.systems
    ]
    cutoff = metric.partition("@")[2]
    headers = [
        *("system", "n", metric, "95% interval", "half-width"),
        *(f"judged@{cutoff} of all", f"{_clusters(scores)} for {wanted}"),
    ]
    table = grid(rows, headers)
    notes = _notes(scores)
    methods = sorted({one.description for one in scores.systems if one.method != "none"})
    if methods or notes:
        approximate = f"; approximate: {notes}" if notes else ""
        table += f"\nintervals: {', '.join(methods) or 'none'}{approximate}"
    if n := found.open_grade_conflicts:
        table += f"\n{n} open conflicts count as the lower grade here"
    return [table, _required(scores, found.required, wanted), _differences(scores)]


def _required(scores: ScoreStatus, required: RequiredSample | None, wanted: str) -> str:
    if required is None:
        notes = _notes(scores)
        why = f" ({notes})" if notes else ""
        return (
            f"how many judgements {wanted} needs cannot be estimated yet: n = {scores.n} shows no "
            f"spread between independent {_clusters(scores)}{why}"
        )
    if not required.additional_scored:
        return f"{wanted} is reached by every system"
    takes = f"about {required.queries} scored queries"
    first = scores.systems[0]
    if first.clustered:
        takes = (
            f"about {required.clusters} haystacks like these {first.clusters}, with "
            f"{required.queries} scored queries"
        )
    new = required.new_queries
    beyond = f", {new} of them not in the project yet" if new else ""
    return _paragraph(
        f"{wanted} for every system takes {takes}, {required.additional_scored} more. As "
        f"{scores.scorable_share:.0%} of the judged queries can be scored, that is about "
        f"{required.additional_judged} more to judge{beyond}: {required.judgements} judgements by "
        f"one annotator, at {required.candidates_per_query:.1f} candidates per query. By the t "
        "formula for the size of a sample, from the spread of the queries so far."
    )


def _differences(scores: ScoreStatus) -> str:
    if not scores.differences:
        return ""
    rows = [[one.a, one.b, one.n, _value(one.minimum_detectable)] for one in scores.differences]
    table = grid(rows, ["system", "against", "n", f"smallest difference in {scores.metric}"])
    return f"{table}\nthat these queries show with 80% power (paired, 95% level)"


def _clusters(scores: ScoreStatus) -> str:
    return "haystacks" if scores.systems[0].clustered else "queries"


def _notes(scores: ScoreStatus) -> str:
    return "; ".join(sorted({one.note for one in scores.systems if one.note}))


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 100)


def _interval(one: AgreementMeasure | SystemStatus) -> str:
    return _NONE if one.low is None else f"{one.low:.3f} to {one.high:.3f}"


def _value(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _n(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
