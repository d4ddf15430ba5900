"""Answers as tables of text: a line a system and control, by ability, and where it was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records.scores import MetricResult, ProtocolResult, ScoreReport
from harness.runs.answering.folder import AnswersFolder, names_of
from harness.runs.folder.run_folder import read_scores
from harness.schema import Ability
from harness.scoring.grid import grid
from harness.scoring.scores import range_over_judges

_TEXT = ("exact_match", "token_f1", "containment")
_ANSWERABLE = {
    "right_with": "right, all shown",
    "right_without": "right without",
    "lost_reader": "wrong, all shown",
    "declined_wrongly": "declined, all shown",
    "lost_part": "wrong, part shown",
    "lost_none": "wrong, none shown",
}
_BESIDE = {
    "right_if_all": "right if all shown",
    "right_if_none": "right if none shown",
    "retrieval_could_gain": "retrieval could add",
    "reader_could_gain": "a reader could add",
    "declined_rightly": "no answer: declined",
    "made_up": "no answer: made up",
}


@dataclass(frozen=True)
class Answered:
    """A folder of answers that was scored."""

    folder: Path
    name: str
    """The system, or what the control is called; with what it was shown where two have one name."""
    record: Mapping[str, Any]
    scores: ScoreReport

    @classmethod
    def read(cls, folders: Sequence[Path]) -> list[Answered]:
        """Raises UsageError for what is no folder of answers."""
        records = [AnswersFolder(folder).record for folder in folders]
        return [
            cls(folder, name, record, read_scores(folder))
            for folder, name, record in zip(folders, names_of(records), records, strict=True)
        ]

    @property
    def results(self) -> dict[str, ProtocolResult]:
        """Its results, by protocol."""
        return {one.protocol: one for one in self.scores.protocols}

    def overall(self, protocol: str) -> Mapping[str, MetricResult]:
        """The results of a protocol over all questions; empty where it was not scored."""
        return self.results[protocol].overall if protocol in self.results else {}

    @property
    def judges(self) -> list[str]:
        """Protocols of the judges that judged it."""
        return [name for name in self.results if name.startswith("judge:")]


def leading(one: Answered) -> tuple[str, str]:
    """The protocol and metric that answers are read by: the last judge's, LoCoMo's, else F1."""
    if one.judges:
        return one.judges[-1], "accuracy"
    return (
        ("locomo-answers", "f1")
        if "locomo-answers" in one.results
        else ("answers-text", "token_f1")
    )


def overview(answered: Sequence[Answered]) -> str:
    """A line a system: what it was shown and what came, over all questions."""
    judges = list(dict.fromkeys(name for one in answered for name in one.judges))
    official = any("locomo-answers" in one.results for one in answered)
    heads = ["", "tokens shown", "USD", "n", *(name.replace("_", " ") for name in _TEXT)]
    heads += ["F1 (LoCoMo)"] if official else []
    heads += ["declined", *(name.removeprefix("judge:") for name in judges)]
    ranges = [range_over_judges(one.scores.protocols) for one in answered]
    heads += ["over judges"] if any(ranges) else []
    rows = []
    for one, over in zip(answered, ranges, strict=True):
        text = one.overall("answers-text")
        said = one.record.get("shown_tokens")
        usd = (one.record.get("used") or {}).get("usd")
        row = [one.name, "-" if said is None else f"{said:,.0f}"]
        row.append("-" if usd is None else f"{usd:.4f}")
        row += [str(text["declined"].n) if "declined" in text else "-"]
        row += [_value(text.get(name)) for name in _TEXT]
        if official:
            row.append(_value(one.overall("locomo-answers").get("f1")))
        row.append(_value(text.get("declined")))
        for name in judges:
            row.append(_between(one.overall(name).get("accuracy")))
        if any(ranges):
            row.append(f"{over[0]:.3f} to {over[1]:.3f}" if over else "-")
        rows.append(row)
    return grid(rows, heads)


def by_ability(answered: Sequence[Answered]) -> str:
    """The leading number of each system by ability, with n once."""
    protocol, metric = leading(answered[0])
    parts = ["all", *map(str, Ability)]
    found = [
        {
            part: one.results[protocol].find(metric, part) if protocol in one.results else None
            for part in parts
        }
        for one in answered
    ]
    shown = [part for part in parts if any(cells[part] for cells in found)]
    if not shown:
        return ""
    rows = [["n", *(str(max(r.n for c in found if (r := c[part]))) for part in shown)]]
    rows += [
        [one.name, *(_value(cells[part]) for part in shown)]
        for one, cells in zip(answered, found, strict=True)
    ]
    return f"{metric} of {protocol.removeprefix('judge:')}\n\n{grid(rows, ['', *shown])}"


def losses(answered: Sequence[Answered]) -> str:
    """Where each system's questions were won and lost, by the last judge of each; empty where
    nobody judged, or nobody says what was shown."""
    where, beside = [], []
    for one in answered:
        cells = one.overall(one.judges[-1]) if one.judges else {}
        if "right_with" in cells or "made_up" in cells:
            where.append([one.name, *(_value(cells.get(name)) for name in _ANSWERABLE)])
            beside.append([one.name, *(_between(cells.get(name)) for name in _BESIDE)])
    if not where:
        return ""
    return (
        "where questions that have an answer went, by how much of their evidence was shown\n\n"
        f"{grid(where, ['', *_ANSWERABLE.values()])}\n\n"
        "accuracy by what was shown, the most that either could add, and questions without an "
        f"answer\n\n{grid(beside, ['', *_BESIDE.values()])}"
    )


def judged(answered: Sequence[Answered]) -> str:
    """Who judged, and what of it was no verdict; empty where nobody did."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in answered:
        for about in (one.scores.judges or {}).values():
            found.setdefault(about["signature"], []).append(about["counts"])
    lines = []
    for who, counts in found.items():
        total = sum(one["judgements"] for one in counts)
        line = f"judge {who}: {total:,} judgements"
        if neither := sum(one["neither"] for one in counts):
            line += f", {neither:,} replies neither yes nor no, in no mean"
        if failed := sum(one["failed"] for one in counts):
            line += f", {failed:,} did not come"
        lines.append(line)
    return "\n".join([*lines, *(line for one in answered for line in _beside_people(one))])


def _beside_people(one: Answered) -> Iterator[str]:
    """What is known of each judge from the answers that people judged too."""
    for judge, beside in (one.scores.people or {}).items():
        kappa = _within(beside["kappa"])
        yield (
            f"{judge.removeprefix('judge:')} agrees with people on {one.name}: kappa {kappa} of "
            f"{beside['n']}, sensitivity {_share(beside['sensitivity'])}, specificity "
            f"{_share(beside['specificity'])}"
        )
        corrected, powered = beside["corrected"], beside["with_people"]
        for words, rate in (("corrected for that", corrected), ("judge and people", powered)):
            note = f" ({rate['note']})" if rate["note"] else ""
            yield f"  accuracy, {words}: {_within(rate)}{note}"


def repeated(answered: Sequence[Answered]) -> str:
    """What repetitions show, by the leading protocol of each system; empty without any."""
    lines = []
    for one in answered:
        found = (one.scores.repeats or {}).get(leading(one)[0])
        if found is None:
            continue
        more = found.repeats_needed
        repeats = "no number of repetitions would do" if more is None else f"or {more} repetitions"
        lines.append(
            f"{one.name}: sd {found.between**0.5:.3f} between questions, "
            f"{found.within**0.5:.3f} between repetitions of one; all "
            f"{found.questions} again vary by {found.of_experiment:.4f}; "
            f"±{found.half_width:g} needs {found.questions_needed:,} independent questions, "
            f"{repeats}"
        )
    return "\n".join(lines)


def _within(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "-"
    if found["low"] is None:
        return f"{found['value']:.3f}"
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _value(result: MetricResult | None) -> str:
    return "-" if result is None or result.value is None else f"{result.value:.4f}"


def _between(result: MetricResult | None) -> str:
    """`0.8125 [0.750, 0.861] of 96`."""
    if result is None or result.value is None:
        return "-"
    interval = result.interval
    within = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
    return f"{result.value:.4f}{within} of {result.n}"
