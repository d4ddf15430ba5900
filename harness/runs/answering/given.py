"""Answers that a system gave itself, and what others judged of them, as a folder of answers.

| form | a record |
|---|---|
| LongMemEval | `question_id`, `hypothesis`; of the official script's output also `autoeval_label` |
| LoCoMo | conversations with `sample_id` and `qa`, each with a field that ends in `prediction` |
| mem0 | conversations by their place, each a list with `question`, `response`, maybe `llm_score` |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

import harness
from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import digest, disk_errors, folder_aside
from harness.rankings.published.form import Answer, Question
from harness.rankings.raw import read_bytes
from harness.records.base import to_plain
from harness.runs.answering.answer import shown_to, write_answers
from harness.runs.answering.folder import (
    ANSWERS,
    ANSWERS_VERSION,
    BESIDE_ANSWERS,
    JUDGEMENTS,
    OURS,
    AnswersFolder,
    plain,
)
from harness.runs.answering.judging import write_judgements
from harness.runs.answering.shown import Limits, Shower
from harness.runs.folder.imported import REPEATS, say
from harness.runs.folder.joined import Joined, join
from harness.runs.folder.run_folder import (
    RunFolder,
    dataset_ref,
    folder_name,
)
from harness.seals import write_sealed

_LONG = 60
"""Characters from which on a text that stands in a document is no chance."""
_SHOWN = 3
_RETRIEVED = "retrieved_sessions"


@dataclass(frozen=True)
class Given:
    """An answer from elsewhere: its question, its text (None where there is none), and what a judge
    of a name said of it."""

    question: Question
    text: str | None
    judge: str = ""
    right: bool | None = None


def read_given(path: Path) -> tuple[str, list[Given]]:
    """The form of a file, and its answers. Raises UsageError for a file of no known form."""
    data = read_bytes(path)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = [
            _line(path, n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()
        ]
    try:
        if isinstance(value, dict) and isinstance(value.get("results"), list):
            value = value["results"]
        if isinstance(value, dict) and "question_id" not in value:
            return "mem0", [*_mem0(value)]
        records = value if isinstance(value, list) else [value]
        if records and isinstance(records[0], Mapping) and "qa" in records[0]:
            return "locomo", [*_locomo(records)]
        form = "longmemeval"
        if any(_RETRIEVED in record for record in records):
            form = "memory-core-eval"
        return form, [_longmemeval(record) for record in records]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        said = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path}: {said}; expected records of question_id and hypothesis, LoCoMo's with a "
            "prediction, or mem0's with a response"
        ) from None


def take_given(
    path: Path,
    dataset: Dataset,
    *,
    out: Path,
    name: str,
    repeats: str = "latest",
    strict: bool = False,
) -> Path:
    """Make a folder of answers of such a file, with what it says was judged; warns of what is odd.

    Raises UsageError for a file of no known form, one without a question of the dataset, and, when
    `strict`, for whatever is odd.
    """
    if repeats not in REPEATS:
        raise UsageError(f"--repeats must be {', '.join(REPEATS)}, not {repeats!r}")
    form, given = read_given(path)
    answers = [Answer(one.question, None if one.text is None else [one.text]) for one in given]
    of = {id(answer): one for answer, one in zip(answers, given, strict=True)}
    joined = join(answers, dataset, repeats, path)
    if not joined.answers:
        first = str(given[0].question) if given else "none"
        raise UsageError(
            f"{path}: none of its {len(given)} answers is of a question of {dataset.name}, first "
            f"{first!r:.80}"
        )
    taken = {row: of[id(answer)] for row, answer in joined.answers.items()}
    notes = _odd(joined, dataset, repeats) + _retrieved(taken, dataset)
    if form == "memory-core-eval" and dataset.manifest.ids_only:
        notes.append(
            f"its records have {_RETRIEVED} beside hypothesis, as memory-core-eval's, which holds "
            "retrieved text and no reader's answer; the texts to tell are not at hand"
        )
    say(path, notes, strict)
    rows = [
        {
            "query": dataset.query_ids[row],
            "repeat": 0,
            "answer": one.text,
            "failed": None if one.text is not None else "no answer in the file",
        }
        for row, one in taken.items()
    ]
    about = {"file": path.name, "sha256": digest(path), "form": form, "repeats": repeats}
    folder = out / f"{folder_name(dataset, f'{plain(name)}.given', about)}.answers"
    made = {
        "name": name,
        "retriever": {"name": name, "control": False},
        "given": {**about, "notes": notes},
        "settings": {"reader": f"given/{form}", "model": name, "arm": "given"},
    }
    _write(folder, dataset, made, pa.Table.from_pylist(rows, ANSWERS), out)
    for judge in sorted({one.judge for one in taken.values() if one.judge}):
        _write_judged(AnswersFolder(folder), dataset, taken, judge, about)
    return folder


def take_own(run: Path, dataset: Dataset, out: Path) -> Path:
    """Make a folder of the answers that the system of a run gave itself, beside what it retrieved.

    Raises UsageError where it gave none.
    """
    path = RunFolder(run).said
    if not path.is_file():
        raise UsageError(
            f"{run}: its system gave no answers of its own (Result(answer=...)); name a reader's "
            "--model"
        )
    said = {one.question.id: one.text for one in read_given(path)[1]}
    rows: list[dict[str, Any]] = []
    for context in Shower(dataset, Limits()).retrieved(run):
        id_ = dataset.query_ids[context.query]
        failed = None if id_ in said else "the system gave no answer"
        rows.append({"query": id_, "repeat": 0, "answer": said.get(id_), "failed": failed})
        rows[-1].update(shown_to(dataset, context))
    record = RunFolder(run).record
    system = record.title
    about = {"run": {"name": run.name, "rankings": digest(RunFolder(run).rankings)}}
    identity = {**about, "answers": digest(path)}
    folder = out / f"{folder_name(dataset, f'{plain(system)}.own', identity)}.answers"
    made = {
        "name": system,
        "retriever": {"name": system, "control": False},
        **about,
        "settings": {"reader": "own", "model": system, "arm": "own"},
        "shown_tokens": sum(row["tokens"] for row in rows) / max(1, len(rows)),
    }
    _write(folder, dataset, made, pa.Table.from_pylist(rows, ANSWERS), out)
    return folder


def _write(
    folder: Path, dataset: Dataset, made: Mapping[str, Any], table: pa.Table, out: Path
) -> None:
    record = {
        "answers_version": ANSWERS_VERSION,
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "dataset": to_plain(dataset_ref(dataset)),
        **made,
        "queries": {
            "asked": table.num_rows,
            "answers": table.num_rows,
            "failed": table["answer"].null_count,
        },
        "versions": {"harness": harness.__version__},
    }
    with (
        disk_errors(out, "name another folder with --out"),
        folder_aside(folder, ours=OURS - {"judgements"}) as aside,
    ):
        write_answers(aside, table)
        write_sealed(aside / "answers.json", record, BESIDE_ANSWERS)


def _write_judged(
    folder: AnswersFolder,
    dataset: Dataset,
    taken: Mapping[int, Given],
    judge: str,
    about: Mapping[str, Any],
) -> None:
    rows = [
        {"query": dataset.query_ids[row], "repeat": 0, "judgement": 0, "right": one.right}
        for row, one in taken.items()
        if one.judge == judge and one.text is not None
    ]
    record = {
        "judge": f"judge:given({judge})",
        "version": 1,
        "signature": f"given({judge})",
        "model": judge,
        "repeat": 1,
        "given": dict(about),
    }
    write_judgements(folder, pa.Table.from_pylist(rows, JUDGEMENTS), record)


def _line(path: Path, number: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path}, line {number}: not valid JSON ({error})") from None


def _longmemeval(record: Mapping[str, Any]) -> Given:
    label = record.get("autoeval_label")
    said = _text(record["hypothesis"]), Question(id=str(record["question_id"]))
    if label is None:
        return Given(said[1], said[0])
    right = label["label"]
    if not isinstance(right, bool):
        raise TypeError("autoeval_label.label is neither true nor false")
    return Given(said[1], said[0], str(label["model"]), right)


def _locomo(records: Sequence[Mapping[str, Any]]) -> Iterator[Given]:
    names = {
        name
        for record in records
        for one in record["qa"]
        for name in one
        if name.endswith("prediction")
    }
    if len(names) != 1:
        raise ValueError(f"{len(names)} fields end in prediction, not one: {sorted(names)}")
    (name,) = names
    for record in records:
        for place, one in enumerate(record["qa"]):
            question = Question(haystack=record["sample_id"], text=one["question"], place=place)
            yield Given(question, _text(one.get(name)))


def _mem0(conversations: Mapping[str, Any]) -> Iterator[Given]:
    for place, records in conversations.items():
        haystack = int(place) if place.isdecimal() else place
        for one in records:
            question = Question(haystack=haystack, text=one["question"])
            score = one.get("llm_score")
            if score is None:
                yield Given(question, _text(one["response"]))
                continue
            if score not in (0, 1):
                raise ValueError(f"llm_score {score!r} is neither 0 nor 1")
            yield Given(question, _text(one["response"]), "llm_score", bool(score))


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str | int | float):
        raise TypeError("an answer is not a text")
    return None if value is None else str(value)


def _odd(joined: Joined, dataset: Dataset, repeats: str) -> list[str]:
    counts = (
        (joined.unknown, f"answers are of no question of {dataset.name}, ignored"),
        (joined.ambiguous, "answers may be of several questions, ignored"),
        (joined.silent, "records have no answer"),
        (joined.duplicates, f"answers are of a question again, the {repeats} counts"),
        (joined.conflicts, "of those say something else than the one before"),
    )
    return [
        f"{len(n)} {what} ({', '.join(n[:_SHOWN])}{', ...' if len(n) > _SHOWN else ''})"
        for n, what in counts
        if n
    ]


def _retrieved(taken: Mapping[int, Given], dataset: Dataset) -> list[str]:
    """A word where what stands as answers is what was retrieved: texts of the documents."""
    if dataset.manifest.ids_only:
        return []
    haystacks: dict[int, list[str]] = {}
    same = said = 0
    for row, one in sorted(taken.items(), key=lambda item: dataset.query_haystack[item[0]]):
        if one.text is None or len(one.text) < _LONG:
            continue
        said += 1
        haystack = int(dataset.query_haystack[row])
        if haystack not in haystacks:
            texts = dataset.documents.contents(dataset.haystack_rows(haystack))
            haystacks = {haystack: [text for text in texts if len(text) >= _LONG]}
        text = one.text
        same += any(other in text or text in other for other in haystacks[haystack])
    if not said or same < 0.5 * len(taken):
        return []
    return [
        f"{same} of {len(taken)} answers are texts of the documents: what was retrieved, and no "
        "reader's answer?"
    ]
