"""The kinds of output of our extensions' commands, which import this where they print JSON."""

from __future__ import annotations

from typing import Any

from harness.analysis.claims import Claim
from harness.io.records import Output, OutputPart
from harness.records.answers import AnswersRecord, ConditionEstimate
from harness.records.scores import ScoreReport, SemanticResult


class ScoreExpectedOutput(Output, tag="harness.score-expected/1"):
    """harness score --expected; `semantic` as in scores.json."""

    semantic: SemanticResult


class BoardPublishOutput(Output, tag="harness.board-publish/1"):
    """harness board publish; `boards` and `runs` are counts."""

    folder: str
    boards: int
    runs: int
    without_scores: list[str]


class ClaimsOutput(Output, tag="harness.claims/1"):
    """harness claims; `claims` as in claims.toml."""

    claims: list[Claim]


class AnswersResult(OutputPart):
    """A folder of answers: answers.json and scores.json."""

    folder: str
    answers: AnswersRecord
    scores: ScoreReport


class AnswerOutput(Output, tag="harness.answer/1"):
    """harness answer."""

    results: list[AnswersResult]


class JudgeOutput(Output, tag="harness.judge/1"):
    """harness judge."""

    results: list[AnswersResult]


class AnswerPlanOutput(Output, tag="harness.answer-plan/1"):
    """harness answer --dry-run."""

    conditions: list[ConditionEstimate]


class ServeOutput(Output, tag="harness.serve/1"):
    """harness serve."""

    address: str


class ABTestOutput(Output, tag="harness.abtest/1"):
    """harness abtest: a report for each event log; `log` is its path."""

    reports: list[dict[str, Any]]
