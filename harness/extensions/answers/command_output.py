"""What `harness answer` and `harness judge` print with `--json`."""

from __future__ import annotations

from harness.io.records import Output, OutputPart
from harness.records.answers import AnswersRecord, ConditionEstimate
from harness.records.scores import ScoreReport


class AnswersResult(OutputPart):
    """A folder of answers: answers.json and scores.json."""

    folder: str
    answers: AnswersRecord
    scores: ScoreReport


class AnswerOutput(Output, tag="harness.answer/1"):
    """Output of harness answer."""

    results: list[AnswersResult]


class JudgeOutput(Output, tag="harness.judge/1"):
    """Output of harness judge."""

    results: list[AnswersResult]


class AnswerPlanOutput(Output, tag="harness.answer-plan/1"):
    """Output of harness answer --dry-run."""

    conditions: list[ConditionEstimate]
