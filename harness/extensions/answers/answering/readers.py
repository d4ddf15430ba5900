"""Readers: they turn a question and its context into a prompt. Each has a signature.

`plain` is built in, `longmemeval-official` and `locomo-official` are those of the datasets'
authors, and the path of a TOML file is a user's own (`templates`). Words behind a colon choose a
variant (`longmemeval-official:nl:cot`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.datasets.reader import Dataset
from harness.errors import UsageError, near
from harness.extensions.answers.answering.context import Context, ContextItem
from harness.extensions.answers.answering.prompts import Prompt, Reader, format_time
from harness.extensions.answers.answering.templates import (
    ReaderTemplate,
    built_in_template,
    fill,
    read_template,
    template_digest,
)

OFFICIAL = ("longmemeval-official", "locomo-official")
READERS = ("plain", *OFFICIAL)


def make_reader(name: str, dataset: Dataset, model: str, source: Path | None = None) -> Reader:
    """Returns the reader of a name or of a template file. `source`: a clone of the authors'
    repository.

    Raises UsageError for an unknown name, an invalid template and an unsuitable dataset, and
    RunError if the authors' file cannot be downloaded.
    """
    base, *variant = name.split(":")
    if base == "longmemeval-official":
        from harness.extensions.answers.answering.longmemeval_reader import LongMemEvalReader

        return LongMemEvalReader(dataset, variant, source)
    if base == "locomo-official":
        from harness.extensions.answers.answering.locomo_reader import LoCoMoReader

        return LoCoMoReader(dataset, variant, model, source)
    built_in = built_in_template("reader", base)
    path = built_in or Path(name)
    if built_in is None and not path.is_file():
        known = f"{near(base, [*READERS])}, or the path of a file"
        raise UsageError(f"unknown --reader {name!r}{known}")
    if built_in is not None and variant:
        raise UsageError(f"--reader {name!r}: {base} has no variants")
    if source is not None:
        raise UsageError("--reader-source is for the official readers; leave it out")
    return TemplateReader(path, dataset)


class TemplateReader:
    """A reader of a template file."""

    def __init__(self, path: Path, dataset: Dataset) -> None:
        self._template = read_template(path, ReaderTemplate)
        self._dataset = dataset
        self.signature = f"{self._template.name}/{self._template.version}{template_digest(path)}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Fills in the template."""
        template, table = self._template, self._dataset.query_table
        texts, stamps = table["text"].to_pylist(), table["timestamp"].to_pylist()
        for context in contexts:
            items = context.items
            if template.order == "time":
                items = by_time(items)
            documents = [
                fill(
                    template.document,
                    {
                        "text": item.text,
                        "date": format_time(item.timestamp, "undated"),
                        "speaker": item.speaker,
                        "number": str(number),
                    },
                )
                for number, item in enumerate(items, 1)
            ]
            values = {
                "documents": template.separator.join(documents) or template.empty,
                "question": texts[context.query],
                "date": format_time(stamps[context.query], "not known"),
            }
            messages = template.messages(template.prompt, values)
            yield Prompt(context.query, messages, template.params)

    def answer(self, prompt: Prompt, text: str) -> str:
        """Returns the reply without surrounding white space."""
        return text.strip()


def by_time(items: Sequence[ContextItem]) -> tuple[ContextItem, ...]:
    """Sorts items by time; undated ones come first, in their own order."""
    return tuple(sorted(items, key=lambda one: (one.timestamp is not None, one.timestamp or 0)))
