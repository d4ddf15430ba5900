"""The status of a project as text."""

from __future__ import annotations

import textwrap
from typing import Any

from harness.scoring.grid import grid

_NONE = "-"


def render_status(found: dict[str, Any]) -> str:
    """What `harness label status` prints."""
    parts = [_head(found), _annotators(found)]
    parts += [_agreement(found), _conflicts(found)]
    if found["of"] == "answer":
        done = found["annotators"] and f"what was judged is taken in with `{found['then']}`"
        return "\n\n".join(part for part in (*parts, done) if part)
    parts += [_finished(found), *_scores(found)]
    return "\n\n".join(part for part in parts if part)


def _head(found: dict[str, Any]) -> str:
    if found["of"] == "answer":
        answers = f"{_n(found['candidates'], 'answer')} of {', '.join(found['systems'])}"
        return f"{found['folder']}: {_n(found['queries'], 'question')}, {answers}"
    lines = [
        f"{found['folder']}: {_n(found['queries'], 'query', 'queries')}, "
        f"{_n(found['candidates'], 'candidate')}, {_n(found['documents'], 'document')}"
    ]
    if found["systems"]:
        lines.append(f"pooled to depth {found['k']}: {', '.join(found['systems'])}")
    if len(found["systems"]) == 1:
        lines.append("only one system is pooled, so the key favours it")
    if found["without_candidates"]:
        lines.append(f"{found['without_candidates']} queries have no candidate")
    if found["overlap"] < 1:
        lines.append(f"{found['shared_queries']} of the queries are judged by everybody")
    if found["constructed"]:
        lines.append(f"{found['constructed']} grades are by construction")
    return "\n".join(lines)


def _annotators(found: dict[str, Any]) -> str:
    if not found["annotators"]:
        return f"nobody has judged yet: harness label open {found['folder']} --annotator NAME"
    rows = [
        [
            one["name"],
            one["grades"],
            one["left"],
            f"{one['queries'] - one['queries_left']} of {one['queries']}",
            one["unanswerable"],
            one["abilities"],
        ]
        for one in found["annotators"]
    ]
    headers = ["annotator", "grades", "left", "queries done", "cannot be answered", "abilities"]
    if found["of"] == "answer":
        rows, headers = [row[:4] for row in rows], [*headers[:3], "questions done"]
    return grid(rows, headers)


def _agreement(found: dict[str, Any]) -> str:
    if not found["agreement"]:
        return "agreement: not measurable, as fewer than two annotators have judged"
    rows = [
        [
            one["of"],
            one["measure"],
            " ".join(one["between"]) if len(one["between"]) == 2 else "all",
            _value(one["value"]),
            _span(one),
            one["n"],
            one["queries"],
            one["note"],
        ]
        for one in found["agreement"]
    ]
    headers = ["agreement on", "measure", "between", "value", "95% interval", "n", "queries", ""]
    table = grid(rows, headers)
    return (
        f"{table}\nn is what two annotators or more judged. For grades look at alpha, ordinal: "
        "from 0.80 on it is\ncalled reliable, from 0.667 on tentative (Krippendorff, 2004)"
    )


def _conflicts(found: dict[str, Any]) -> str:
    kinds, settled = found["conflicts"]["open"], found["conflicts"]["settled"]
    n = sum(kinds.values())
    if not n and not settled:
        return ""
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if not n:
        return f"conflicts: none open, {settled} settled"
    return (
        f"conflicts: {n} open ({said}), {settled} settled\n"
        f"  settle them with `harness label resolve {found['folder']}`"
    )


def _finished(found: dict[str, Any]) -> str:
    done = found["finished"]
    given = done["unanswerable_unconfirmed"]
    given = f" ({given} as given, judged by nobody)" if given else ""
    return _paragraph(
        f"queries: {done['scorable']} judged to the end with something relevant, "
        f"{done['without_relevant']} with nothing relevant, {done['unanswerable']} cannot be "
        f"answered{given}, {done['left']} not judged to the end, or in conflict over whether they "
        "can be answered"
    )


def _scores(found: dict[str, Any]) -> list[str]:
    scores = found["scores"]
    if scores is None:
        return []
    metric, wanted = scores["metric"], f"±{scores['precision']:g}"
    if not scores["n"]:
        return [
            f"{metric}: cannot be told yet, no query is judged to the end with something relevant"
        ]
    rows = [
        [
            one["system"],
            one["n"],
            _value(one["value"]),
            _span(one),
            _NONE if one["half_width"] is None else f"±{one['half_width']:.3f}",
            _value(one["judged"]),
            _NONE if one["needed"] is None else one["needed"],
        ]
        for one in scores["systems"]
    ]
    cut = metric.partition("@")[2]
    headers = [
        *("system", "n", metric, "95% interval", "half-width"),
        *(f"judged@{cut} of all", f"{scores['systems'][0]['needed_of']} for {wanted}"),
    ]
    parts = [grid(rows, headers)]
    notes = {one["note"] for one in scores["systems"] if one["note"]}
    how = {one["how"] for one in scores["systems"] if one["method"] != "none"}
    if how or notes:
        rough = f"; rough: {'; '.join(sorted(notes))}" if notes else ""
        parts[0] += f"\nintervals: {', '.join(sorted(how)) or 'none'}{rough}"
    if scores["open_grades_taken_lower"]:
        n = scores["open_grades_taken_lower"]
        parts[0] += f"\nuntil they are settled, {n} conflicts count as the lower grade here"
    return [*parts, _needed(found, wanted), _differences(scores)]


def _needed(found: dict[str, Any], wanted: str) -> str:
    scores, needed = found["scores"], found["scores"]["needed"]
    if needed is None:
        notes = sorted({one["note"] for one in scores["systems"] if one["note"]})
        why = f" ({'; '.join(notes)})" if notes else ""
        return (
            f"how many judgements {wanted} needs cannot be told yet: n = {scores['n']} shows no "
            f"spread between independent {scores['systems'][0]['needed_of']}{why}"
        )
    if not needed["more_scored"]:
        return f"{wanted} is reached by every system"
    takes = f"about {needed['queries']} scored queries"
    if needed["clustered"]:
        takes = (
            f"about {needed['units']} haystacks like these {needed['units_now']}, with "
            f"{needed['queries']} scored queries"
        )
    new = needed["new_queries"]
    beyond = f", {new} of them not in the project yet" if new else ""
    return _paragraph(
        f"{wanted} for every system takes {takes}, {needed['more_scored']} more. As "
        f"{scores['scorable_share']:.0%} of the judged queries can be scored, that is about "
        f"{needed['more_judged']} more to judge{beyond}: {needed['judgements']} judgements by one "
        f"annotator, at {needed['candidates_a_query']:.1f} candidates a query. By the t formula "
        "for the size of a sample, from the spread of the queries so far."
    )


def _differences(scores: dict[str, Any]) -> str:
    if not scores["differences"]:
        return ""
    rows = [
        [one["a"], one["b"], one["n"], _value(one["detectable"])] for one in scores["differences"]
    ]
    headers = ["system", "against", "n", f"smallest difference in {scores['metric']}"]
    table = grid(rows, headers)
    return f"{table}\nthat these queries show with 80% power (paired, 95% level)"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 100)


def _span(one: dict[str, Any]) -> str:
    return _NONE if one["low"] is None else f"{one['low']:.3f} to {one['high']:.3f}"


def _value(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _n(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
