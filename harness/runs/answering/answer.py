"""Asks a reader model every question of a run over what the run returned, and the controls."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import harness
from harness.dataset.prepare import home
from harness.dataset.progress import progress
from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import digest, disk_errors, folder_aside
from harness.records.base import to_plain
from harness.runs.answering.asking import Asked, Asker, Way
from harness.runs.answering.folder import (
    ANSWERS,
    ANSWERS_VERSION,
    BESIDE_ANSWERS,
    OURS,
    plain,
    require_texts,
)
from harness.runs.answering.prompts import Prompt, Reader
from harness.runs.answering.replies import Call
from harness.runs.answering.shown import RETRIEVED, Context, Limits, Shower
from harness.runs.folder.run_folder import RunFolder, dataset_ref, folder_name
from harness.scoring.budget import TOKENIZER
from harness.scoring.signature import digest as digest_of_ids
from harness.seals import write_sealed

CONTROL_NAMES = {
    "none": "no memory",
    "newest": "newest first",
    "random": "random selection",
    "evidence": "evidence alone",
}
"""What a control is called in tables."""


@dataclass(frozen=True)
class Plan:
    """What is asked: of the run alone or of `controls` too, `repeat` times each."""

    limits: Limits = field(default_factory=Limits)
    controls: tuple[str, ...] = ()
    repeat: int = 1
    seed: int = 0
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise UsageError(f"--repeat must be 1 or more, not {self.repeat}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"--temperature must be from 0 to 2, not {self.temperature:g}")


@dataclass(frozen=True)
class Arm:
    """One way to fill a reader's prompt: the run, or a control; and everything that is sent."""

    name: str
    contexts: list[Context]
    prompts: list[Prompt]
    calls: list[Call]


def arms(run: Path, dataset: Dataset, reader: Reader, way: Way, plan: Plan) -> Iterator[Arm]:
    """What is to be asked, arm by arm. Raises UsageError for a dataset without texts, and where a
    control cannot be had."""
    require_texts(dataset)
    shower = Shower(dataset, plan.limits)
    retrieved = shower.retrieved(run)
    if not retrieved:
        raise UsageError(f"{run}: no question was answered without an error")
    for name in plan.controls:  # what cannot be had is said before anything is paid
        shower.control(name, [])
    for name in (RETRIEVED, *plan.controls):
        contexts = retrieved if name == RETRIEVED else shower.control(name, retrieved, plan.seed)
        prompts = [*reader.prompts(contexts)]
        by_query = {context.query: context for context in contexts}
        calls = [
            _call(prompt, way.model, plan, n) for prompt in prompts for n in range(plan.repeat)
        ]
        yield Arm(name, [by_query[prompt.query] for prompt in prompts], prompts, calls)


def _call(prompt: Prompt, model: str, plan: Plan, repeat: int) -> Call:
    """A call, with a seed of its own where there are several of one question."""
    params = dict(prompt.params)
    if plan.temperature is not None:
        params["temperature"] = plan.temperature
    if plan.repeat > 1:
        params["seed"] = plan.seed + repeat
    return Call(model, tuple(dict(one) for one in prompt.messages), params, repeat)


def answer(
    run: Path, dataset: Dataset, reader: Reader, way: Way, plan: Plan, out: Path
) -> list[Path]:
    """Ask everything, and write a folder of answers for the run and for each control.

    What came is kept as it comes, and nothing of it is asked again: a command that was stopped goes
    on when it is given again. Raises UsageError and RunError as `Asker.all`.
    """
    asker = Asker(way, home())
    folders = []
    try:
        for arm in arms(run, dataset, reader, way, plan):
            with progress(len(arm.calls), "answers", arm.name) as bar:
                asked = asker.all(arm.calls, lambda n, bar=bar: bar.update(n))  # type: ignore[misc]
            table = _table(dataset, reader, arm, asked, plan.repeat)
            if table["failed"].null_count == 0:
                why = f"no question was answered, first: {table['failed'][0].as_py()}"
                if arm.name == RETRIEVED:
                    raise RunError(why)
                # A long control, say, is beyond a small model: that says nothing of the others.
                print(f"note: {CONTROL_NAMES[arm.name]}, left out: {why}", file=sys.stderr)
                continue
            folders.append(_write(run, dataset, reader, way, plan, arm, asked, table, asker, out))
    finally:
        asker.close()
    return folders


def _write(
    run: Path,
    dataset: Dataset,
    reader: Reader,
    way: Way,
    plan: Plan,
    arm: Arm,
    asked: Sequence[Asked],
    table: pa.Table,
    asker: Asker,
    out: Path,
) -> Path:
    own = arm.name == RETRIEVED
    run_record = RunFolder(run).record
    limits = plan.limits
    shown = {
        "arm": arm.name,
        "k": limits.k if own or arm.name == "random" else None,
        "budget": limits.budget if arm.name not in ("none", "evidence", "newest") else None,
        "window": limits.newest if arm.name == "newest" else None,
        "tokenizer": TOKENIZER,
    }
    of_run = {"name": run.name, "rankings": digest(RunFolder(run).rankings)}
    about = {
        "reader": reader.signature,
        "model": way.model,
        "endpoint": asker.address,
        "temperature": plan.temperature,
        "repeat": plan.repeat,
        "seed": plan.seed,
    }
    system = run_record.title if own else CONTROL_NAMES[arm.name]
    of = of_run if own or arm.name == "random" else None
    asked_of = digest_of_ids(sorted(dataset.query_ids[prompt.query] for prompt in arm.prompts))
    identity = {**about, **shown, "of": of, "asked": asked_of}
    name = folder_name(
        dataset, f"{plain(system)}.{plain(reader.signature.partition('/')[0])}", identity
    )
    folder = out / f"{name}.answers"
    models = sorted({one.reply.model for one in asked if one.reply.model})
    record: dict[str, Any] = {
        "answers_version": ANSWERS_VERSION,
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "dataset": to_plain(dataset_ref(dataset)),
        "name": system,
        "retriever": {"name": system, "control": not own},
        "run": of_run,
        "settings": {**shown, **about},
        "answered_by": models,
        "queries": {
            "asked": len(arm.prompts),
            "answers": len(asked),
            "failed": table.num_rows - table["failed"].null_count,
        },
        "shown_tokens": sum(one.tokens for one in arm.contexts) / max(1, len(arm.contexts)),
        "used": _used(table, asked, way),
        "versions": {"harness": harness.__version__, **run_record.versions},
    }
    remedy = "name another folder with --out"
    with disk_errors(out, remedy), folder_aside(folder, ours=OURS - {"judgements"}) as aside:
        write_answers(aside, table)
        write_sealed(aside / "answers.json", record, BESIDE_ANSWERS)
    return folder


def _table(
    dataset: Dataset, reader: Reader, arm: Arm, asked: Sequence[Asked], repeat: int
) -> pa.Table:
    rows: list[dict[str, Any]] = []
    replies = iter(asked)
    for context, prompt in zip(arm.contexts, arm.prompts, strict=True):
        shown = shown_to(dataset, context)
        for number in range(repeat):
            reply = next(replies).reply
            failed = reply.refused
            if reply.finish == "content_filter" and not reply.text:
                failed = "content filter"
            rows.append(
                {
                    "query": dataset.query_ids[context.query],
                    "repeat": number,
                    "answer": None if failed else reader.answer(prompt, reply.text),
                    **shown,
                    "prompt_tokens": reply.prompt_tokens,
                    "completion_tokens": reply.completion_tokens,
                    "finish": reply.finish,
                    "failed": failed or None,
                }
            )
    return pa.Table.from_pylist(rows, ANSWERS)


def shown_to(dataset: Dataset, context: Context) -> dict[str, Any]:
    """What was shown for a question, as it stands in a row of answers."""
    rows = [row for one in context.shown for row in one.rows]
    return {
        "documents": dataset.documents.column("id", np.array(rows, np.int32)).to_pylist(),
        "things": len(context.shown),
        "unresolved": sum(not one.rows for one in context.shown),
        "tokens": context.tokens,
    }


def _used(table: pa.Table, asked: Sequence[Asked], way: Way) -> dict[str, Any]:
    """What the answers cost, whenever they were paid; `new_calls`: those of this time."""
    import pyarrow.compute as pc

    from harness.runs.answering.purse import PRICES

    found: dict[str, Any] = {"calls": len(asked), "new_calls": sum(one.new for one in asked)}
    for name in ("prompt_tokens", "completion_tokens"):
        found[name] = pc.sum(table[name]).as_py() or 0
    price = {**PRICES, **(way.prices or {})}.get(way.model)
    with suppress(KeyError, TypeError):
        found["usd"] = sum(found[what] * price[what] for what in price) / 1_000_000  # type: ignore
    return found


def write_answers(folder: Path, table: pa.Table) -> None:
    """Write answers.parquet."""
    import pyarrow.parquet as pq

    pq.write_table(table, folder / "answers.parquet", compression="zstd")
