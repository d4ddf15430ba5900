"""Tab-separated lines and CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from harness.datasets.adapters.formats.text import DocumentBatch, TextFile
from harness.errors import UsageError
from harness.runfiles.raw import BYTE_ORDER_MARK, MARKED

_DOCUMENT = ("document id", "text")


def tsv(file: TextFile, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows of a headerless tab-separated file; the last column keeps any further tabs.

    Raises UsageError for a line with fewer columns.
    """
    for number, line in file.lines():
        yield number, tsv_row(file, number, line, columns)


def tsv_row(file: TextFile, number: int, line: str, columns: Sequence[str]) -> list[str]:
    """The columns of one line. Raises UsageError for a line with fewer."""
    row = line.split("\t", len(columns) - 1)
    if len(row) != len(columns):
        raise file.error(
            number,
            f"{len(row)} of {len(columns)} columns ({', '.join(columns)}, with a tab between); "
            "mend the line",
        )
    return row


def tsv_documents(file: TextFile) -> Iterator[DocumentBatch]:
    """Documents of `id<TAB>text` lines, in batches. Raises UsageError as `tsv` does."""
    for first, lines in file.blocks():
        try:
            rows = [
                line.decode().removeprefix("\ufeff").removesuffix("\r").split("\t", 1)
                for line in lines
            ]
            ids, texts = map(list, zip(*rows, strict=True))
            yield DocumentBatch(range(first, first + len(rows)), ids, texts)
        except ValueError:  # a blank line, a broken one, or bytes that are not UTF-8
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
    """Records of a CSV file with a header line; empty cells are left out of a record.

    Raises UsageError for a header without a needed column and for a row of another width. The
    number is that of the line where the record begins.
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
                start, f"{len(row)} cells where the header has {len(header)}; quote the commas"
            )
        yield start, {k: v for k, v in zip(header, row, strict=True) if v}


def csv_rows(
    file: TextFile, delimiter: str, *, one_line: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Cells of each row, the header's too, and the line where it begins; blank lines are none.

    Raises UsageError for broken quotes, and where `one_line` for a cell that goes over a line's
    end.
    """
    reader = csv.reader(_with_line_ends(file), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if one_line and reader.line_num > start:
                raise file.error(start, "a cell in quotes goes on in the next line; mend them")
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise file.error(start, f"not valid CSV ({error}); mend the quotes") from None


def _with_line_ends(file: TextFile) -> Iterator[str]:
    """Every line, blank ones too: a quoted cell may hold them."""
    for first, lines in file.blocks():
        for number, line in enumerate(lines, first):
            if line.startswith(BYTE_ORDER_MARK):
                raise file.error(number, f"the line {MARKED}")
            yield file.decode(number, line) + "\n"
