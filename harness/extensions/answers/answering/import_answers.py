"""Imports answers that a system generated itself, with their judgements, as a folder of answers.

| format | record |
|---|---|
| longmemeval | `question_id`, `hypothesis`; `autoeval_label` in the output of the official script |
| locomo | conversations with `sample_id` and `qa`, each with a field that ends in `prediction` |
| mem0 | conversations by position, each a list of `question`, `response`, optional `llm_score` |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson
import pyarrow as pa

import harness
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.answer import (
    answer_counts,
    context_columns,
    mean_tokens,
    now,
)
from harness.extensions.answers.answering.context import ContextBuilder, ContextLimits
from harness.extensions.answers.answering.judging import write_judgements
from harness.extensions.answers.answering.replies import has_reasoning
from harness.io.files import digest
from harness.io.records import Record, convert, decode, to_plain
from harness.records.answers import (
    AnswerSettings,
    AnswersRecord,
    ImportedAnswersFile,
    JudgeIdentity,
    RunReference,
)
from harness.runfiles.raw import read_bytes
from harness.runfiles.run_formats import PublishedRanking, QuestionRef
from harness.runs.folder.answers_folder import (
    ANSWERS,
    ANSWERS_VERSION,
    JUDGEMENTS,
    AnswersFolder,
    file_name,
    write_answers,
)
from harness.runs.folder.imported import REPEATS, say
from harness.runs.folder.published import Joined, counted_notes, join
from harness.runs.folder.run_folder import RunFolder, dataset_ref, folder_name

_LONG = 60
"""Length in characters from which an answer equal to a document's text is no coincidence."""
_RETRIEVED = "retrieved_sessions"

Text = str | int | float


class AutoevalLabel(Record, forbid_unknown_fields=False):
    """A judgement of LongMemEval's official script."""

    model: str
    label: bool


class LongMemEvalAnswer(Record, forbid_unknown_fields=False):
    """A record of LongMemEval's hypotheses; memory-core-eval adds `retrieved_sessions`."""

    question_id: Text
    hypothesis: Text | None
    autoeval_label: AutoevalLabel | None = None
    retrieved_sessions: object = msgspec.UNSET


class LoCoMoAnswers(Record, forbid_unknown_fields=False):
    """A conversation of LoCoMo with predictions in a field named after the model."""

    sample_id: str
    qa: list[dict[str, object]]


class Mem0Answer(Record, forbid_unknown_fields=False):
    """A record of mem0's results."""

    question: str
    response: Text | None
    llm_score: Literal[0, 1] | None = None


@dataclass(frozen=True)
class ImportedAnswer:
    """An answer: its question, its text (None if missing), and a judge's verdict on it."""

    question: QuestionRef
    text: str | None
    judge: str = ""
    correct: bool | None = None


def read_answers(path: Path) -> tuple[str, list[ImportedAnswer]]:
    """Returns the format of a file, and its answers. Raises UsageError for an unknown format."""
    data = read_bytes(path)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        lines = enumerate(data.split(b"\n"), 1)
        value = [decode(line, Any, f"{path}, line {n}") for n, line in lines if line.strip()]
    remedy = (
        "expected records of question_id and hypothesis, LoCoMo's with a prediction, or mem0's "
        "with a response"
    )
    if isinstance(value, dict) and isinstance(value.get("results"), list):
        value = value["results"]
    if isinstance(value, dict) and "question_id" not in value:
        conversations = convert(value, dict[str, list[Mem0Answer]], str(path), remedy)
        return "mem0", [*_mem0(conversations)]
    records = value if isinstance(value, list) else [value]
    if records and isinstance(records[0], dict) and "qa" in records[0]:
        locomo = convert(records, list[LoCoMoAnswers], str(path), remedy)
        return "locomo", [*_locomo(locomo, path)]
    hypotheses = convert(records, list[LongMemEvalAnswer], str(path), remedy)
    retrieved = any(one.retrieved_sessions is not msgspec.UNSET for one in hypotheses)
    return "memory-core-eval" if retrieved else "longmemeval", [*map(_longmemeval, hypotheses)]


def import_answers(
    path: Path,
    dataset: Dataset,
    *,
    out: Path,
    name: str,
    repeats: str = "latest",
    strict: bool = False,
) -> Path:
    """Imports answers and judgements from a file as a folder of answers; warns of anomalies.

    Null and empty answers count as failed.
    Raises UsageError for an unknown format, for a file without a question of the dataset, and, if
    `strict`, for every anomaly.
    """
    if repeats not in REPEATS:
        raise UsageError(f"--repeats must be {', '.join(REPEATS)}, not {repeats!r}")
    format_, answers = read_answers(path)
    records = [
        PublishedRanking(one.question, None if one.text is None else [one.text]) for one in answers
    ]
    answer_of = {id(record): one for record, one in zip(records, answers, strict=True)}
    joined = join(records, dataset, repeats, path)
    if not joined.answers:
        first = str(answers[0].question) if answers else "none"
        raise UsageError(
            f"{path}: none of its {len(answers)} answers is of a question of {dataset.name}, first "
            f"{first!r:.80}"
        )
    by_row = {row: answer_of[id(record)] for row, record in joined.answers.items()}
    notes = _anomalies(joined, dataset, repeats) + _retrieved_texts(by_row, dataset)
    if format_ == "memory-core-eval" and dataset.manifest.ids_only:
        notes.append(
            f"its records have {_RETRIEVED} and hypothesis, like memory-core-eval's, whose "
            "hypothesis is retrieved text, not an answer; this dataset has no texts to check it"
        )
    notes += _reasoning([one.text for one in by_row.values()])
    say(path, notes, strict)
    rows = [
        {
            "query": dataset.query_ids[row],
            "repeat": 0,
            "answer": one.text,
            "error": None if one.text is not None else "no answer in the file",
        }
        for row, one in by_row.items()
    ]
    imported = ImportedAnswersFile(
        file=path.name, sha256=digest(path), format=format_, repeats=repeats, notes=notes
    )
    identity = to_plain(msgspec.structs.replace(imported, notes=[]))
    folder = out / f"{folder_name(dataset, f'{file_name(name)}.imported', identity)}.answers"
    table = pa.Table.from_pylist(rows, ANSWERS)
    settings = AnswerSettings(condition="imported", reader=f"imported/{format_}", model=name)
    record = _record(dataset, name, settings, table)
    write_answers(folder, msgspec.structs.replace(record, imported=imported), table)
    for judge in sorted({one.judge for one in by_row.values() if one.judge}):
        _write_judgements(AnswersFolder(folder), dataset, by_row, judge, imported)
    return folder


def import_own_answers(run: Path, dataset: Dataset, out: Path) -> Path:
    """Writes the answers that the system of a run gave itself, with the run's results as context.
    A question without a result in the run has a failed answer.

    Raises UsageError if the system gave no answers.
    """
    path = RunFolder(run).said
    if not path.is_file():
        raise UsageError(
            f"{run}: the system returned no answers (Result(answer=...)); to let a reader model "
            "answer, add --model NAME"
        )
    answers = {one.question.id: one.text for one in read_answers(path)[1]}
    contexts = ContextBuilder(dataset, ContextLimits()).retrieved(run)
    rows = []
    for context in contexts:
        id_ = dataset.query_ids[context.query]
        rows.append(
            {
                "query": id_,
                "repeat": 0,
                "answer": answers.get(id_),
                "error": None if answers.get(id_) else "the system gave no answer",
                **context_columns(dataset, context),
            }
        )
    say(path, _reasoning([*answers.values()]), strict=False)
    system = RunFolder(run).record.title
    reference = RunReference(name=run.name, rankings_sha256=digest(RunFolder(run).rankings))
    identity = {"run": to_plain(reference), "answers": digest(path)}
    folder = out / f"{folder_name(dataset, f'{file_name(system)}.own', identity)}.answers"
    table = pa.Table.from_pylist(rows, ANSWERS)
    settings = AnswerSettings(condition="own", reader="own", model=system)
    record = msgspec.structs.replace(
        _record(dataset, system, settings, table),
        run=reference,
        mean_context_tokens=mean_tokens(contexts),
    )
    write_answers(folder, record, table)
    return folder


def _record(
    dataset: Dataset, name: str, settings: AnswerSettings, table: pa.Table
) -> AnswersRecord:
    return AnswersRecord(
        answers_version=ANSWERS_VERSION,
        finished=now(),
        dataset=dataset_ref(dataset),
        name=name,
        settings=settings,
        queries=answer_counts(table, table.num_rows),
        versions={"harness": harness.__version__},
    )


def _write_judgements(
    folder: AnswersFolder,
    dataset: Dataset,
    answers: Mapping[int, ImportedAnswer],
    judge: str,
    imported: ImportedAnswersFile,
) -> None:
    """Writes the judgements of one judge; failed answers are wrong, unless another judged them."""
    rows = [
        {
            "query": dataset.query_ids[row],
            "repeat": 0,
            "judgement": 0,
            "correct": False if one.text is None else one.correct,
        }
        for row, one in answers.items()
        if one.judge == judge or (one.text is None and not one.judge)
    ]
    name = f"imported({judge})"
    identity = JudgeIdentity(name=f"judge:{name}", version=1, signature=name, model=judge)
    table = pa.Table.from_pylist(rows, JUDGEMENTS)
    write_judgements(folder, table, identity, imported=imported)


def _longmemeval(record: LongMemEvalAnswer) -> ImportedAnswer:
    question, text = QuestionRef(id=str(record.question_id)), _text(record.hypothesis)
    if record.autoeval_label is None:
        return ImportedAnswer(question, text)
    return ImportedAnswer(question, text, record.autoeval_label.model, record.autoeval_label.label)


def _locomo(conversations: Sequence[LoCoMoAnswers], path: Path) -> Iterator[ImportedAnswer]:
    questions = [one for conversation in conversations for one in conversation.qa]
    fields = {field for one in questions for field in one if field.endswith("prediction")}
    if len(fields) != 1:
        raise UsageError(
            f"{path}: {len(fields)} fields end in prediction, not one: {sorted(fields)}"
        )
    (field,) = fields
    for conversation in conversations:
        for position, one in enumerate(conversation.qa):
            text = convert(one.get("question"), str, f"{path}: a question")
            prediction = one.get(field)
            if not isinstance(prediction, Text | None):
                raise UsageError(f"{path}: {field} must be a text, not {prediction!r:.80}")
            question = QuestionRef(haystack=conversation.sample_id, text=text, place=position)
            yield ImportedAnswer(question, _text(prediction))


def _mem0(conversations: Mapping[str, list[Mem0Answer]]) -> Iterator[ImportedAnswer]:
    for position, records in conversations.items():
        haystack = int(position) if position.isdecimal() else position
        for one in records:
            question, text = QuestionRef(haystack=haystack, text=one.question), _text(one.response)
            if one.llm_score is None:
                yield ImportedAnswer(question, text)
            else:
                yield ImportedAnswer(question, text, "llm_score", bool(one.llm_score))


def _text(value: Text | None) -> str | None:
    """Returns the text of an answer; None for an empty one, which counts as failed too."""
    return None if value is None or not str(value).strip() else str(value)


def _reasoning(texts: Sequence[str | None]) -> list[str]:
    """Returns a note if answers contain a model's reasoning, which is not removed."""
    n = sum(text is not None and has_reasoning(text) for text in texts)
    return [f"{n} answers contain reasoning (<think>), and are scored with it"] if n else []


def _anomalies(joined: Joined, dataset: Dataset, repeats: str) -> list[str]:
    return counted_notes(
        (
            (joined.unknown, f"answers are of no question of {dataset.name}, ignored"),
            (joined.ambiguous, "answers may be of several questions, ignored"),
            (joined.silent, "records have no answer"),
            (joined.duplicates, f"answers are of a question again, the {repeats} counts"),
            (joined.conflicts, "of those differ from the one before"),
        )
    )


def _retrieved_texts(answers: Mapping[int, ImportedAnswer], dataset: Dataset) -> list[str]:
    """Returns a note if at least half of the answers are document texts, and so were retrieved."""
    if dataset.manifest.ids_only:
        return []
    documents: dict[int, list[str]] = {}  # texts of one haystack at a time
    n_same = 0
    for row, one in sorted(answers.items(), key=lambda item: dataset.query_haystack[item[0]]):
        text = one.text
        if text is None or len(text) < _LONG:
            continue
        haystack = int(dataset.query_haystack[row])
        if haystack not in documents:
            texts = dataset.documents.contents(dataset.haystack_rows(haystack))
            documents = {haystack: [one for one in texts if len(one) >= _LONG]}
        n_same += any(other in text or text in other for other in documents[haystack])
    if not n_same or n_same < 0.5 * len(answers):
        return []
    return [
        f"{n_same} of {len(answers)} answers are texts of the documents: what was retrieved, and "
        "no reader's answer?"
    ]
