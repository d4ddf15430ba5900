"""A record for each kind of output, except those that stand beside a command or its records.

Commands import this module only where they print JSON. What the numeric packages compute is typed
loosely here: their types would load these packages for every command.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from harness.analysis.board.records import Leaderboard
from harness.analysis.claims import Claim
from harness.records.answers import AnswersRecord, ConditionEstimate
from harness.records.output import Output, OutputPart
from harness.records.run import RunRecord
from harness.records.scores import MetricResult, ScoredDataset, ScoreReport, SemanticResult

# -- runs ------------------------------------------------------------------------------------------


class RunOutput(Output, tag="harness.run/1"):
    """harness run, harness score: run.json and scores.json of one run."""

    folder: str
    run: RunRecord
    scores: ScoreReport


class RunRow(OutputPart):
    """A run in a list. `metric` is its main one, empty where it was not scored.

    Where queries failed, `answered_only` is the mean over the `answered` ones. `why` says what is
    the matter with a broken run.
    """

    folder: str
    id: str
    name: str
    system: str
    dataset: str
    granularity: str
    state: Literal["done", "running", "stopped", "failed", "broken"]
    when: str
    queries: int
    done: int
    failed: int
    metric: str
    value: float | None
    low: float | None
    high: float | None
    answered_only: float | None
    answered: int | None
    commit: str
    reason: str


class RunsOutput(Output, tag="harness.runs/1"):
    """harness runs."""

    runs: list[RunRow]


class RunDetails(RunRow):
    """A run with its run.json, and the folders of its previous versions."""

    record: RunRecord
    previous: list[str]


class RunsShowOutput(Output, tag="harness.runs-show/1"):
    """harness runs show."""

    run: RunDetails


class RunsDoneOutput(Output, tag="harness.runs-done/1"):
    """harness runs name, archive, unarchive, remove, clear."""

    done: list[dict[str, str]]


class ExportOutput(Output, tag="harness.export/1"):
    """harness export."""

    file: str


# -- scores ----------------------------------------------------------------------------------------


class ScoreQrelsOutput(Output, tag="harness.score-qrels/1"):
    """harness score --qrels."""

    n: int
    means: dict[str, float | None]


class ScoreExpectedOutput(Output, tag="harness.score-expected/1"):
    """harness score --expected; `semantic` as in scores.json."""

    semantic: SemanticResult


class ExplainOutput(Output, tag="harness.explain/1"):
    """harness explain: the parts of a signature, the metric's formula, the protocol's rules."""

    metric: str
    protocol: str
    data: str
    level: str
    text: str
    split: str
    slice: str
    n: str
    queries: str
    ties: str
    depth: str
    missing: str
    v: str
    match: str | UnsetType = UNSET
    reader: str | UnsetType = UNSET
    judge: str | UnsetType = UNSET
    formula: str
    rules: str


# -- analysis --------------------------------------------------------------------------------------


class CompareOutput(Output, tag="harness.compare/1"):
    """harness compare; `queries` with --queries."""

    runs: list[str]
    differences: list[Any]
    groups: list[Any]
    options: dict[str, Any]
    queries: dict[str, Any] | UnsetType = UNSET


class CompareUnpairedOutput(Output, tag="harness.compare-unpaired/1"):
    """harness compare --unpaired."""

    reason: str
    rows: list[Any]


class PerformedCheck(OutputPart):
    """One check, and what it found."""

    what: str
    ok: bool
    message: str


class VerifyOutput(Output, tag="harness.verify/1"):
    """harness verify; `not_recomputed` counts numbers by kind, `from_table` those that were
    recomputed from scores.parquet only."""

    run: str
    agrees: bool
    numbers: int
    recomputed: int
    from_table: int
    compared: dict[str, int]
    checks: list[PerformedCheck]
    differences: list[Any]
    not_recomputed: dict[str, int]


class AnalyzeOutput(Output, tag="harness.analyze/1"):
    """harness analyze; `errata` has the numbers by both sets of judgements."""

    run: str
    system: str
    dataset: ScoredDataset
    k: int
    depth: int
    depth_message: str
    scored: int
    excluded: dict[str, int]
    pieces: dict[str, int]
    results: dict[str, dict[str, MetricResult]]
    queries: list[Any]
    similarity: float | None
    errata: Any
    missed: int
    causes: dict[str, dict[str, int]]
    places: dict[str, dict[str, int]]


class ReportOutput(Output, tag="harness.report/1"):
    """harness report."""

    page: str


class LeaderboardOutput(Output, tag="harness.leaderboard/1"):
    """harness leaderboard; `leaderboard` is leaderboard.json."""

    leaderboard: Leaderboard
    without_scores: list[str]


class BoardPublishOutput(Output, tag="harness.board-publish/1"):
    """harness board publish; `boards` and `runs` are counts."""

    folder: str
    boards: int
    runs: int
    without_scores: list[str]


class GateCheck(OutputPart):
    """A rule of a gate; `message` is what was found, `signature` that of the number."""

    rule: str
    passed: bool
    message: str
    signature: str
    open: bool
    outcome: str


class GateOutput(Output, tag="harness.gate/1"):
    """harness gate."""

    passed: bool
    checks: list[GateCheck]


class SweepOutput(Output, tag="harness.sweep/1"):
    """harness sweep; `indexed` counts indexes, null where every run made its own."""

    tried: list[Any]
    chosen: list[Any]
    tuned_on_test: bool
    development: str
    indexed: int | None


class ClaimsOutput(Output, tag="harness.claims/1"):
    """harness claims; `claims` as in claims.toml."""

    claims: list[Claim]


# -- datasets and retrievers -----------------------------------------------------------------------


class DatasetsInfoOutput(Output, tag="harness.datasets-info/1"):
    """harness datasets info, prepare: the manifest, or what is known before it is prepared."""

    dataset: dict[str, Any]


class DatasetsVerifyOutput(Output, tag="harness.datasets-verify/1"):
    """harness datasets verify."""

    findings: list[PerformedCheck]


class DatasetsExportOutput(Output, tag="harness.datasets-export/1"):
    """harness datasets export."""

    files: list[str]


class Example(OutputPart):
    """An example that comes with the harness."""

    name: str
    about: str
    path: str


class ExamplesOutput(Output, tag="harness.examples/1"):
    """harness examples."""

    examples: list[Example]


class ConformanceCheck(OutputPart):
    """A check of a retriever; `state` is pass, FAIL or note."""

    name: str
    state: str
    message: str
    seconds: float


class CheckOutput(Output, tag="harness.check/1"):
    """harness check."""

    retriever: str
    checks: list[ConformanceCheck]


class CachedModel(OutputPart):
    """The cached vectors of one model."""

    model: str
    revision: str
    dtype: str
    dimension: int
    vectors: int
    bytes: int
    path: str
    damaged: str | None


class CachedIndexRow(OutputPart):
    """A cached index; `used` is a time in seconds since 1970."""

    name: str
    retriever: str
    params: dict[str, Any]
    documents: int
    bytes: int
    used: float
    damaged: str


class CacheOutput(Output, tag="harness.cache/1"):
    """harness cache; `replies` counts those of each model."""

    models: list[CachedModel]
    indexes: list[CachedIndexRow]
    replies: dict[str, int]


class CompletionOutput(Output, tag="harness.completion/1"):
    """harness completion."""

    shell: str
    script: str


# -- answers ---------------------------------------------------------------------------------------


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


# -- pages and online tests ------------------------------------------------------------------------


class ServeOutput(Output, tag="harness.serve/1"):
    """harness serve."""

    address: str


class ABTestOutput(Output, tag="harness.abtest/1"):
    """harness abtest: a report for each event log, whose path is `log`."""

    reports: list[dict[str, Any]]


class SuiteRun(OutputPart):
    """A run of a suite: `failure` says why it failed, `empty` in which haystacks nothing was found.

    `record` is its run.json, `report` its scores.json.
    """

    dataset: str
    retriever: str
    folder: str | None
    report: ScoreReport | None
    record: RunRecord | None
    failure: str
    empty: str


class RunListOutput(Output, tag="harness.run-list/1"):
    """harness run of several; `night` is summary.json of a nightly list."""

    runs: list[SuiteRun]
    night: Any
