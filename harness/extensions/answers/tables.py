"""Text tables of answers: a row per system and baseline, by ability, and error attribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.io.records import convert
from harness.io.terminal import count_of, grid
from harness.records.answers import AnswersRecord, JudgementCounts, JudgeRecord
from harness.records.scores import MetricResult, ProtocolResult, RepeatVariance, ScoreReport
from harness.runs.folder.answers_folder import AnswersFolder, display_names
from harness.runs.folder.run_folder import read_scores_by_query
from harness.schema import Ability
from harness.scoring.judge_agreement import JudgeAgreement, Kappa, RateEstimate
from harness.scoring.scores import range_over_judges

_TEXT = ("exact_match", "token_f1", "containment")
_ANSWERABLE = {
    "correct_given_evidence": "correct given evidence",
    "correct_without_evidence": "correct without evidence",
    "reader_error": "reader error",
    "wrong_abstention": "wrong abstention",
    "partial_retrieval_error": "partial retrieval error",
    "retrieval_error": "retrieval error",
}
_BESIDE = {
    "accuracy_given_evidence": "accuracy given evidence",
    "accuracy_given_no_evidence": "accuracy given none",
    "retrieval_headroom": "retrieval headroom",
    "reader_headroom": "reader headroom",
    "correct_abstention": "correct abstention",
    "hallucinated": "hallucinated",
}


@dataclass(frozen=True)
class AnsweredTables:
    """A scored folder of answers."""

    folder: Path
    name: str
    """The name of the system or baseline, with the context size if the name is not unique."""
    record: AnswersRecord
    scores: ScoreReport

    @classmethod
    def read(cls, folders: Sequence[Path]) -> list[AnsweredTables]:
        """Reads scored folders. Raises UsageError for a folder without answers."""
        records = [AnswersFolder(folder).record for folder in folders]
        return [
            cls(folder, name, record, read_scores_by_query(folder)[0])
            for folder, name, record in zip(folders, display_names(records), records, strict=True)
        ]

    @property
    def results(self) -> dict[str, ProtocolResult]:
        """Results by protocol."""
        return {one.protocol: one for one in self.scores.protocols}

    def overall(self, protocol: str) -> Mapping[str, MetricResult]:
        """Returns a protocol's results over all questions; empty if it was not scored."""
        return self.results[protocol].overall if protocol in self.results else {}

    @property
    def judges(self) -> list[str]:
        """Protocols of the judges of these answers."""
        return [name for name in self.results if name.startswith("judge:")]


def leading(one: AnsweredTables) -> tuple[str, str]:
    """Returns the main protocol and metric: the last judge's, LoCoMo's, else token F1."""
    if one.judges:
        return one.judges[-1], "accuracy"
    official = "locomo-answers" in one.results
    return ("locomo-answers", "f1") if official else ("answers-text", "token_f1")


def overview(answered: Sequence[AnsweredTables]) -> str:
    """Formats a row per system with its context, cost and metrics over all questions; if some
    answers failed, adds a row of the answered questions."""
    judges = list(dict.fromkeys(name for one in answered for name in one.judges))
    official = any("locomo-answers" in one.results for one in answered)
    heads = ["", "context tokens", "USD", "n", *(name.replace("_", " ") for name in _TEXT)]
    heads += ["F1 (LoCoMo)"] if official else []
    heads += ["abstained", *(name.removeprefix("judge:") for name in judges)]
    ranges = [range_over_judges(one.scores.protocols) for one in answered]
    heads += ["over judges"] if any(ranges) else []
    rows = []
    for one, over in zip(answered, ranges, strict=True):
        text = one.overall("answers-text")
        tokens = one.record.mean_context_tokens
        usage = one.record.usage
        unknown = "unknown" if usage and usage.calls_without_usage else "-"
        usd = unknown if usage is None or usage.usd is None else f"{usage.usd:.4f}"
        shown = [text.get(name) for name in _TEXT]
        shown += [one.overall("locomo-answers").get("f1")] if official else []
        shown += [text.get("abstained")]
        accuracy = [one.overall(name).get("accuracy") for name in judges]
        abstained = text.get("abstained")
        row = [one.name, "-" if tokens is None else f"{tokens:,.0f}", usd]
        row.append("-" if abstained is None else str(abstained.n))
        row += [*map(_value, shown), *map(_between, accuracy)]
        if any(ranges):
            row.append(f"{over[0]:.3f} to {over[1]:.3f}" if over else "-")
        rows.append(row)
        if abstained is not None and abstained.answered_only is not None:
            only = [_ONLY, "", "", str(abstained.answered_only.n), *map(_value, map(_only, shown))]
            only += [*map(_between, map(_only, accuracy)), *([""] if any(ranges) else [])]
            rows.append(only)
    return grid(rows, heads)


def by_ability(answered: Sequence[AnsweredTables]) -> str:
    """Formats the main metric of each system by ability, with n."""
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
    for one, cells in zip(answered, found, strict=True):
        rows += _rows(one.name, [cells[part] for part in shown], _value)
    return f"{metric} of {protocol.removeprefix('judge:')}\n\n{grid(rows, ['', *shown])}"


def error_attribution(answered: Sequence[AnsweredTables]) -> str:
    """Formats the error attribution of each system, by its last judge; empty without a judge or a
    known context."""
    where: list[list[str]] = []
    beside: list[list[str]] = []
    for one in answered:
        cells = one.overall(one.judges[-1]) if one.judges else {}
        if "correct_given_evidence" in cells or "hallucinated" in cells:
            where += _rows(one.name, [cells.get(name) for name in _ANSWERABLE], _value)
            beside += _rows(one.name, [cells.get(name) for name in _BESIDE], _between)
    if not where:
        return ""
    return (
        "error attribution: shares of answerable questions, by the evidence in the context\n\n"
        f"{grid(where, ['', *_ANSWERABLE.values()])}\n\n"
        "accuracy by evidence in the context, headroom, and unanswerable questions\n\n"
        f"{grid(beside, ['', *_BESIDE.values()])}"
    )


def interval_note(answered: Sequence[AnsweredTables]) -> str:
    """Explains the interval of a mean of 0 or 1 over haystacks; empty if none is printed."""
    for one in answered:
        for name in one.judges:
            for metric in ("accuracy", *_BESIDE):
                result = one.overall(name).get(metric)
                interval = result and result.interval
                if not result or not interval or interval.cluster_by != "haystacks":
                    continue
                if result.value in (0.0, 1.0):
                    return (
                        f"{_between(result)}: all {interval.clusters} haystacks have the same "
                        "value, so the data do not show how similar the questions of one haystack "
                        "are. The interval counts each haystack as one question, and is wide."
                    )
    return ""


def judged(answered: Sequence[AnsweredTables]) -> str:
    """Formats the judges, with undecided and failed judgements and human agreement."""
    found: dict[str, list[JudgementCounts]] = {}
    for one in answered:
        for values in (one.scores.judges or {}).values():
            record = convert(values, JudgeRecord, str(one.folder))
            found.setdefault(record.judge.signature, []).append(record.counts)
    lines = []
    for who, counts in found.items():
        total = sum(one.judgements for one in counts)
        line = f"judge {who}: {total:,} judgements"
        if undecided := sum(one.undecided for one in counts):
            line += f", {undecided:,} undecided replies excluded"
        if failed := sum(one.failed for one in counts):
            line += f", {failed:,} failed"
        lines.append(line)
    return "\n".join([*lines, *(line for one in answered for line in _human_agreement(one))])


def _human_agreement(one: AnsweredTables) -> Iterator[str]:
    """Formats the agreement of each judge with human labels of the same answers."""
    for judge, values in (one.scores.judge_agreement or {}).items():
        found = convert(values, JudgeAgreement, str(one.folder))
        yield (
            f"{judge.removeprefix('judge:')} against human labels on {one.name}: kappa "
            f"{_within(found.kappa)} (n={found.n}), sensitivity {_share(found.sensitivity)}, "
            f"specificity {_share(found.specificity)}"
        )
        for label, rate in (
            ("corrected for judge errors", found.corrected),
            ("prediction-powered", found.prediction_powered),
        ):
            yield f"  accuracy, {label}: {_within(rate)}"


def repeated(answered: Sequence[AnsweredTables]) -> str:
    """Formats the variance of repetitions, by the main protocol of each system; empty without."""
    lines = []
    for one in answered:
        if found := (one.scores.repeats or {}).get(leading(one)[0]):
            lines.append(
                f"{one.name}: sd {found.between**0.5:.3f} between questions, "
                f"{found.within**0.5:.3f} between repetitions of one; all "
                f"{found.questions} again vary by {found.of_experiment:.4f}; {_needed(found)}"
            )
    return "\n".join(lines)


def _needed(found: RepeatVariance) -> str:
    wanted, more, haystacks = found.half_width, found.repeats_needed, found.haystacks_needed
    if found.questions_needed is None:
        return f"no estimate for ±{wanted:g}: no spread between questions, or a single haystack"
    among = f" (in {haystacks:,} haystacks like these)" if haystacks else ""
    repeats = f"or {count_of(more, 'repetitions')}" if more else "more repetitions do not suffice"
    return f"±{wanted:g} needs {found.questions_needed:,} questions{among}, {repeats}"


def _within(found: Kappa | RateEstimate) -> str:
    value = "-" if found.value is None else f"{found.value:.3f}"
    between = "" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"{value}{between} ({found.note})" if found.note else f"{value}{between}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


_ONLY = "answered only"


def _rows(
    name: str, results: Sequence[MetricResult | None], show: Callable[[MetricResult | None], str]
) -> list[list[str]]:
    """Returns the row of a system, followed by that of its answered questions if some
    failed."""
    rows = [[name, *map(show, results)]]
    if any(map(_only, results)):
        rows.append([_ONLY, *map(show, map(_only, results))])
    return rows


def _only(result: MetricResult | None) -> MetricResult | None:
    """Returns the mean over the answered questions; None if no answer failed."""
    if result is None or result.answered_only is None:
        return None
    return MetricResult(value=result.answered_only.value, n=result.answered_only.n)


def _value(result: MetricResult | None) -> str:
    return "-" if result is None or result.value is None else f"{result.value:.4f}"


def _between(result: MetricResult | None) -> str:
    """Formats as `0.8125 [0.750, 0.861] of 96`."""
    if result is None or result.value is None:
        return "-"
    interval = result.interval
    within = f" [{interval.low:.3f}, {interval.high:.3f}]" if interval else ""
    return f"{result.value:.4f}{within} of {result.n}"
