"""Readers: how a question and what is shown for it are put to a model, each with a signature.

`plain` is this project's own, `longmemeval-official` and `locomo-official` are their authors', and
the path of a TOML file is a reader of your own (`templates`). Words behind a colon choose a variant
(`longmemeval-official:nl:cot`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.dataset.reader import Dataset
from harness.errors import UsageError, near
from harness.runs.answering.prompts import Prompt, Reader, moment
from harness.runs.answering.shown import Context, Shown
from harness.runs.answering.templates import Template, fill, own_template, read_template

OFFICIAL = ("longmemeval-official", "locomo-official")
READERS = ("plain", *OFFICIAL)


def reader(name: str, dataset: Dataset, model: str, source: Path | None = None) -> Reader:
    """The reader called `name`, or of a file. `source`: a clone of the authors' repository.

    Raises UsageError for an unknown name, a file that is no template, and a dataset that it is not
    made for; RunError where the authors' file cannot be had.
    """
    base, *variant = name.split(":")
    if base == "longmemeval-official":
        from harness.runs.answering.longmemeval_reader import LongMemEvalReader

        return LongMemEvalReader(dataset, variant, source)
    if base == "locomo-official":
        from harness.runs.answering.locomo_reader import LoCoMoReader

        return LoCoMoReader(dataset, variant, model, source)
    own = own_template("reader", base)
    path = own or Path(name)
    if own is None and not path.is_file():
        known = f"{near(base, [*READERS])}, or the path of a file"
        raise UsageError(f"unknown --reader {name!r}{known}")
    if own is not None and variant:
        raise UsageError(f"--reader {name!r}: {base} has no variants")
    if source is not None:
        raise UsageError("--reader-source is for the official readers; leave it out")
    return TemplateReader(read_template(path, "reader"), dataset)


class TemplateReader:
    """A reader of a template file."""

    def __init__(self, template: Template, dataset: Dataset) -> None:
        self._template, self._dataset = template, dataset
        self.signature = template.signature

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """The template, filled in."""
        template, table = self._template, self._dataset.query_table
        texts, stamps = table["text"].to_pylist(), table["timestamp"].to_pylist()
        for context in contexts:
            shown = context.shown
            if template.order == "time":
                shown = in_time(shown)
            parts = [
                fill(
                    template.document,
                    {
                        "text": one.text,
                        "date": moment(one.timestamp, "undated"),
                        "speaker": one.speaker,
                        "number": str(number),
                    },
                )
                for number, one in enumerate(shown, 1)
            ]
            values = {
                "documents": template.separator.join(parts) or template.nothing,
                "question": texts[context.query],
                "date": moment(stamps[context.query], "not known"),
            }
            messages = template.messages(template.prompt, values)
            yield Prompt(context.query, messages, template.params)

    def answer(self, prompt: Prompt, text: str) -> str:
        """The reply, without blanks around it."""
        return text.strip()


def in_time(shown: Sequence[Shown]) -> tuple[Shown, ...]:
    """In the order in which it was said; what has no date comes first, in its own order."""
    return tuple(sorted(shown, key=lambda one: (one.timestamp is not None, one.timestamp or 0)))
