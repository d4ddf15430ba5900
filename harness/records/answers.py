"""Records of a folder of answers, of a judge's verdicts, and of what an endpoint replies."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from harness.io.checksums import ChecksummedRecord
from harness.io.records import Record
from harness.records.run import DatasetRef

Baseline = Literal["none", "newest", "random", "evidence"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
"""Contexts of a reader that no system retrieved."""

ANSWERABLE = (
    "correct_given_evidence",
    "correct_without_evidence",
    "reader_error",
    "wrong_abstention",
    "partial_retrieval_error",
    "retrieval_error",
)
UNANSWERABLE = ("correct_abstention", "hallucinated")
CLASSES = (*ANSWERABLE, *UNANSWERABLE)
"""What became of an answer, by the error attribution."""
Condition = Literal["retrieved", "none", "newest", "random", "evidence", "own", "imported"]
"""Where the context of an answer comes from: a run, a baseline in its place, or a system that
answers itself (`own` from a run, `imported` from a file)."""


class AnswerSettings(Record, omit_defaults=False):
    """Everything that could change an answer: the context, the reader and the model.

    `condition`: `retrieved` by the run, a baseline in its place, the system's `own` answers, or
    `imported` ones. `reasoning`: the rule that removes a model's reasoning from its replies.
    """

    condition: Condition
    reader: str
    model: str
    k: int | None = None
    budget: int | None = None
    window: int | None = None
    tokenizer: str | None = None
    endpoint: str | None = None
    temperature: float | None = None
    repeat: int = 1
    seed: int = 0
    reasoning: str | None = None


class RunReference(Record):
    """The run that supplied the results: its name, and the sha256 of its rankings."""

    name: str
    rankings_sha256: str


class AnswerCounts(Record):
    """Numbers of questions, of answers to them (repetitions count), and of failed answers, with
    their most common reasons."""

    asked: int
    answers: int
    failed: int
    reasons: dict[str, int] = msgspec.field(default_factory=dict)


class CallUsage(Record):
    """Usage of a model's API: `calls` as billed (equal ones once, each resend again).

    `new_calls` were not in the response cache. `usd` is None if any call reported no usage, or no
    price is known.
    """

    calls: int
    new_calls: int
    prompt_tokens: int
    completion_tokens: int
    calls_without_usage: int = 0
    usd: float | None = None


class ImportedAnswersFile(Record):
    """The file that answers were imported from."""

    file: str
    sha256: str
    format: str
    repeats: str
    notes: list[str] = msgspec.field(default_factory=list)


class AnswersRecord(ChecksummedRecord):
    """answers.json: who answered which questions, from what context, at what cost.

    `name`: of the system or the baseline. `response_models`: the models that answered, as the
    endpoint names them. `mean_context_tokens` is in `words+marks/2`.
    """

    answers_version: int
    finished: str
    dataset: DatasetRef
    name: str
    settings: AnswerSettings
    queries: AnswerCounts
    versions: dict[str, str]
    baseline: bool = False
    run: RunReference | None = None
    response_models: list[str] = msgspec.field(default_factory=list)
    mean_context_tokens: float | None = None
    usage: CallUsage | None = None
    imported: ImportedAnswersFile | None = None


class ConditionEstimate(Record, omit_defaults=False):
    """`harness answer --dry-run`: calls of one condition, those that are not cached, the mean size
    of its contexts, and the highest cost; null for a model without a price."""

    condition: Condition
    calls: int
    new_calls: int
    mean_context_tokens: float
    max_usd: float | None


class JudgeIdentity(Record, omit_defaults=False):
    """A judge. `name` is the protocol of its scores; `repeat` counts its judgements per answer."""

    name: str
    version: int
    signature: str
    model: str
    endpoint: str | None = None
    repeat: int = 1


class JudgementCounts(Record):
    """Numbers of judgements, of replies without a clear verdict, and of failed calls."""

    judgements: int
    undecided: int
    failed: int


class HumanLabelSource(Record):
    """Where human labels come from: a file, or the folder of a labelling project."""

    file: str = ""
    sha256: str = ""
    folder: str = ""
    annotators: list[str] = msgspec.field(default_factory=list)
    conflicts: int = 0


class JudgeRecord(ChecksummedRecord):
    """judge.json: who judged which answers, and how often without a verdict."""

    judge: JudgeIdentity
    counts: JudgementCounts
    answers_sha256: str
    finished: str
    versions: dict[str, str]
    response_models: list[str] = msgspec.field(default_factory=list)
    usage: CallUsage | None = None
    imported: ImportedAnswersFile | None = None
    human_labels: HumanLabelSource | None = None


class HumanLabel(Record, forbid_unknown_fields=False):
    """A line of human labels; `correct` is null for an answer that was not judged."""

    question_id: str | int
    correct: bool | None
    repeat: int = 0


class ClientUsage(Record):
    """Calls and tokens that an endpoint counted for this process."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    calls_without_usage: int = 0
    usd: float | None = None


# -- Replies of an OpenAI-compatible endpoint; its values are checked where they are read ----------


class ResponseMessage(Record, forbid_unknown_fields=False):
    """The message of a choice."""

    content: object = None
    refusal: object = None


class Choice(Record, forbid_unknown_fields=False):
    """A choice of a chat completion."""

    message: ResponseMessage
    finish_reason: object = None


class TokenUsage(Record, forbid_unknown_fields=False):
    """The token counts of a chat completion."""

    prompt_tokens: object = None
    completion_tokens: object = None


class ChatCompletion(Record, forbid_unknown_fields=False):
    """A chat completion, with the fields that are read."""

    choices: list[Choice]
    model: object = None
    usage: TokenUsage | None = None


def reader_of(record: AnswersRecord) -> str:
    """Names reader and model for signatures, as in `plain/1(gpt-4o)`.

    Systems that answer themselves share one name: what differs between them is the system.
    """
    settings = record.settings
    if settings.condition in ("imported", "own"):
        return "its own"
    name = f"{settings.reader}({settings.model})"
    if settings.temperature is not None:
        name += f",temperature:{settings.temperature:g}"
    if settings.repeat > 1:
        name += f",repeat:{settings.repeat}"
    if settings.reasoning is not None:
        name += f",reasoning:{settings.reasoning}"
    return name
