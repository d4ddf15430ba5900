"""Asks a reader model every question of a run, with the run's results and with baselines."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

import harness
from harness.datasets.reader import Dataset
from harness.datasets.registry import home
from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.client import ModelClient, ModelResponse, RequestOptions
from harness.extensions.answers.answering.context import (
    RETRIEVED,
    Context,
    ContextBuilder,
    ContextLimits,
)
from harness.extensions.answers.answering.replies import (
    REASONING,
    Call,
    ChatReply,
    has_reasoning,
    without_reasoning,
)
from harness.extensions.answers.answering.templates import (
    Prompt,
    Reader,
)
from harness.io.files import digest
from harness.io.progress import progress
from harness.io.records import to_plain
from harness.records.answers import (
    BASELINES,
    AnswerCounts,
    AnswerSettings,
    AnswersRecord,
    Baseline,
    RunReference,
)
from harness.runs.folder.answers_folder import (
    ANSWERS,
    ANSWERS_VERSION,
    file_name,
    require_texts,
    write_answers,
)
from harness.runs.folder.run_folder import RunFolder, dataset_ref, folder_name
from harness.scoring.signatures import digest as digest_of_ids
from harness.scoring.tokens import TOKENIZER

_log = logging.getLogger(__name__)

BASELINE_NAMES: dict[str, str] = {
    "none": "no context",
    "newest": "newest documents",
    "random": "random documents",
    "evidence": "evidence only",
}
"""Display names of baselines in tables."""


@dataclass(frozen=True)
class AnswerPlan:
    """Conditions and settings: the run's results and `baselines`, `repeat` calls per question."""

    limits: ContextLimits = field(default_factory=ContextLimits)
    baselines: tuple[Baseline, ...] = ()
    repeat: int = 1
    seed: int = 0
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise UsageError(f"--repeat must be 1 or more, not {self.repeat}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"--temperature must be from 0 to 2, not {self.temperature:g}")


@dataclass(frozen=True)
class ConditionCalls:
    """The contexts, prompts and calls of one condition: the run, or a baseline."""

    condition: Baseline | Literal["retrieved"]
    contexts: list[Context]
    prompts: list[Prompt]
    calls: list[Call]


@dataclass(frozen=True)
class AnswerJob:
    """A run, its dataset, and the reader, endpoint and plan to answer its questions with."""

    run: Path
    dataset: Dataset
    reader: Reader
    options: RequestOptions
    plan: AnswerPlan

    def conditions(self) -> Iterator[ConditionCalls]:
        """Yields the calls for the run, then for each baseline. Raises UsageError for a dataset
        without texts and for an unsupported baseline."""
        require_texts(self.dataset)
        builder = ContextBuilder(self.dataset, self.plan.limits)
        retrieved = builder.retrieved(self.run)
        if not retrieved:
            raise UsageError(f"{self.run}: no question was answered without an error")
        for name in self.plan.baselines:  # fails before any call is paid for
            builder.baseline(name, [])
        for condition in (RETRIEVED, *self.plan.baselines):
            contexts = retrieved
            if condition != RETRIEVED:
                contexts = builder.baseline(condition, retrieved, self.plan.seed)
            prompts = [*self.reader.prompts(contexts)]
            by_query = {context.query: context for context in contexts}
            calls = [
                self._call(prompt, number)
                for prompt in prompts
                for number in range(self.plan.repeat)
            ]
            in_order = [by_query[prompt.query] for prompt in prompts]
            yield ConditionCalls(condition, in_order, prompts, calls)

    def _call(self, prompt: Prompt, repeat: int) -> Call:
        """Builds a call; each repetition has its own seed."""
        params = dict(prompt.params)
        if self.plan.temperature is not None:
            params["temperature"] = self.plan.temperature
        if self.plan.repeat > 1:
            params["seed"] = self.plan.seed + repeat
        return Call(self.options.model, prompt.messages, params, repeat)


def answer(job: AnswerJob, out: Path) -> list[Path]:
    """Asks all questions, and writes a folder of answers for the run and for each baseline.

    Replies are cached as they arrive; running an interrupted command again resumes it. A baseline
    without any answer is skipped. Raises UsageError and RunError like `ModelClient.complete`, and
    RunError if no question of the run was answered."""
    client = ModelClient(job.options, home())
    folders = []
    try:
        for asked in job.conditions():
            with progress(len(asked.calls), "answers", asked.condition) as bar:
                responses = client.complete(asked.calls, lambda n, bar=bar: bar.update(n))  # type: ignore[misc]
            table = _table(job, asked, responses)
            _note_replies(asked, responses, table)
            if table["error"].null_count == 0:
                reason = f"no question was answered, first: {table['error'][0].as_py()}"
                if asked.condition == RETRIEVED:
                    raise RunError(reason)
                # A baseline may be too long for a small model; other conditions are unaffected.
                name = BASELINE_NAMES[asked.condition]
                _log.warning(f"note: {name}: excluded: {reason}")
                continue
            record = _record(job, asked, responses, table, client)
            folders.append(_folder(job, asked, record, out))
            write_answers(folders[-1], record, table)
    finally:
        client.close()
    return folders


def _record(
    job: AnswerJob,
    asked: ConditionCalls,
    responses: Sequence[ModelResponse],
    table: pa.Table,
    client: ModelClient,
) -> AnswersRecord:
    run, limits, condition = RunFolder(job.run), job.plan.limits, asked.condition
    run_record = run.record
    cut = condition in (RETRIEVED, "random")
    return AnswersRecord(
        answers_version=ANSWERS_VERSION,
        finished=now(),
        dataset=dataset_ref(job.dataset),
        name=BASELINE_NAMES.get(condition) or run_record.title,
        baseline=condition in BASELINES,
        run=RunReference(name=job.run.name, rankings_sha256=digest(run.rankings)),
        settings=AnswerSettings(
            condition=condition,
            k=limits.k if cut else None,
            budget=limits.budget if cut else None,
            window=limits.newest if condition == "newest" else None,
            tokenizer=TOKENIZER,
            reader=job.reader.signature,
            model=job.options.model,
            endpoint=client.address,
            temperature=job.plan.temperature,
            repeat=job.plan.repeat,
            seed=job.plan.seed,
            reasoning=REASONING,
        ),
        response_models=response_models(responses),
        queries=answer_counts(table, len(asked.prompts)),
        mean_context_tokens=mean_tokens(asked.contexts),
        usage=client.usage_of(responses),
        versions={"harness": harness.__version__, **run_record.versions},
    )


def _folder(job: AnswerJob, asked: ConditionCalls, record: AnswersRecord, out: Path) -> Path:
    """Returns the folder for the answers of one condition. Baselines that do not depend on the run
    are shared by all runs."""
    ids = sorted(job.dataset.query_ids[prompt.query] for prompt in asked.prompts)
    identity = {
        "settings": to_plain(record.settings),
        "run": to_plain(record.run) if asked.condition in (RETRIEVED, "random") else None,
        "queries": digest_of_ids(ids),
    }
    reader = job.reader.signature.partition("/")[0]
    name = folder_name(job.dataset, f"{file_name(record.name)}.{file_name(reader)}", identity)
    return out / f"{name}.answers"


def _table(job: AnswerJob, asked: ConditionCalls, responses: Sequence[ModelResponse]) -> pa.Table:
    rows = []
    replies = iter(responses)
    for context, prompt in zip(asked.contexts, asked.prompts, strict=True):
        columns = context_columns(job.dataset, context)
        for number in range(job.plan.repeat):
            reply = next(replies).reply
            text, error = _answer_of(reply, job.reader)
            rows.append(
                {
                    "query": job.dataset.query_ids[context.query],
                    "repeat": number,
                    "answer": None if error else job.reader.answer(prompt, text),
                    **columns,
                    "prompt_tokens": reply.prompt_tokens,
                    "completion_tokens": reply.completion_tokens,
                    "finish_reason": reply.finish_reason,
                    "error": error,
                }
            )
    return pa.Table.from_pylist(rows, ANSWERS)


def _answer_of(reply: ChatReply, reader: Reader) -> tuple[str, str | None]:
    """Returns the text of a reply without reasoning, and the reason if it is not an answer."""
    if reply.error is not None:
        return "", reply.error
    text = without_reasoning(reply.text)
    if not text.strip():
        return text, reply.truncated or "reasoning without an answer"
    return text, None if reader.scores_truncated else reply.truncated


def _note_replies(
    asked: ConditionCalls, responses: Sequence[ModelResponse], table: pa.Table
) -> None:
    """Logs how many replies contain reasoning, and how many truncated replies are scored."""
    replies = [one.reply for one in responses]
    reasoning = sum(has_reasoning(one.text) for one in replies)
    truncated = sum(
        bool(reply.truncated) and text is not None
        for reply, text in zip(replies, table["answer"].to_pylist(), strict=True)
    )
    for n, what in (
        (reasoning, f"contain reasoning, which is no part of the answer ({REASONING})"),
        (truncated, "are truncated, and scored as by the authors' script"),
    ):
        if n:
            _log.warning(f"note: {asked.condition}: {n} of {len(replies)} replies {what}")


def answer_counts(table: pa.Table, asked: int) -> AnswerCounts:
    """Counts answers and failed answers, with the ten most common reasons of failure."""
    reasons = Counter(table["error"].drop_null().to_pylist())
    return AnswerCounts(
        asked=asked,
        answers=table.num_rows,
        failed=reasons.total(),
        reasons=dict(reasons.most_common(10)),
    )


def context_columns(dataset: Dataset, context: Context) -> dict[str, list[str] | int]:
    """Returns the columns of answers.parquet that describe the context of a question."""
    rows = [row for item in context.items for row in item.rows]
    return {
        "documents": dataset.documents.column("id", np.array(rows, np.int32)).to_pylist(),
        "items": len(context.items),
        "unresolved_items": sum(not item.rows for item in context.items),
        "context_tokens": context.tokens,
    }


def mean_tokens(contexts: Sequence[Context]) -> float:
    """Returns the mean token count of contexts; 0 without any."""
    return sum(context.tokens for context in contexts) / max(1, len(contexts))


def response_models(responses: Sequence[ModelResponse]) -> list[str]:
    """Returns the distinct model names that the endpoint reported."""
    return sorted({one.reply.model for one in responses if one.reply.model})


def now() -> str:
    """Returns the current time in UTC, in ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
