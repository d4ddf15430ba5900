"""Tab-separated lines and CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.errors import UsageError
from harness.runfiles.raw import BYTE_ORDER_MARK, MARKED

_DOCUMENT = ("document id", "text")


def tsv(file: TextFile, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields rows of a headerless tab-separated file; the last column keeps any further tabs.

    Raises UsageError for a line with too few columns.
    """
    for number, line in file.lines():
        yield number, tsv_row(file, number, line, columns)


def tsv_row(file: TextFile, number: int, line: str, columns: Sequence[str]) -> list[str]:
    """Splits one line into columns. Raises UsageError if there are too few."""
    row = line.split("\t", len(columns) - 1)
    if len(row) != len(columns):
        raise file.error(
            number,
            f"{len(row)} of {len(columns)} columns ({', '.join(columns)}, separated by tabs); fix "
            "the line",
        )
    return row


def tsv_documents(file: TextFile) -> Iterator[DocumentBatch]:
    """Yields documents of `id<TAB>text` lines, in batches. Raises UsageError as `tsv` does."""
    for first, lines in file.blocks():
        try:
            rows = [
                line.decode().removeprefix("\ufeff").removesuffix("\r").split("\t", 1)
                for line in lines
            ]
            ids, texts = map(list, zip(*rows, strict=True))
            yield DocumentBatch(range(first, first + len(rows)), ids, texts)
        except ValueError:  # blank or malformed line, or not UTF-8
            numbered = [
                (number, tsv_row(file, number, text, _DOCUMENT))
                for number, line in enumerate(lines, first)
                if (text := file.decode(number, line))
            ]
            yield DocumentBatch(
                [number for number, _ in numbered],
                [row[0] for _, row in numbered],
                [row[1] for _, row in numbered],
            )


def csv_records(file: TextFile, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields records of a CSV file with a header line, without empty cells.

    The number is the line on which the record starts. Raises UsageError if a required column is
    missing or a row has the wrong number of cells.
    """
    rows = csv_rows(file, ",")
    _, header = next(rows, (1, None))
    if header is None:
        raise UsageError(f"{file}: empty; a header line with {', '.join(needed)} is needed")
    header = [name.strip() for name in header]
    for name in needed:
        if name not in header:
            raise file.error(1, f"no column {name!r} in the header ({', '.join(header)}); add it")
    for start, row in rows:
        if len(row) != len(header):
            raise file.error(
                start, f"{len(row)} cells, but the header has {len(header)}; quote the commas"
            )
        yield start, {k: v for k, v in zip(header, row, strict=True) if v}


def csv_rows(
    file: TextFile, delimiter: str, *, one_line: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yields the cells of each row, including the header, and its first line; skips blank lines.

    Raises UsageError for broken quotes and, with `one_line`, for a cell that spans lines.
    """
    reader = csv.reader(_with_line_ends(file), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if one_line and reader.line_num > start:
                raise file.error(start, "a quoted cell continues on the next line; fix the quotes")
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise file.error(start, f"not valid CSV ({error}); fix the quotes") from None


def _with_line_ends(file: TextFile) -> Iterator[str]:
    """Yields every line, including blank ones, which a quoted cell may contain."""
    for first, lines in file.blocks():
        for number, line in enumerate(lines, first):
            if line.startswith(BYTE_ORDER_MARK):
                raise file.error(number, f"the line {MARKED}")
            yield file.decode(number, line) + "\n"
