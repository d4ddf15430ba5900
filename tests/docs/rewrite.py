"""Write what the commands of pages print now into the pages: python tests/docs/rewrite.py [PAGE...]

Without a page, all of them, README.md included. A block that still holds is left as it is; in one
that does not, `...` stays where it still fits, so look at the difference before you commit it.
Words and the commands themselves are left alone: lines that name a number which has left its block
are listed. Pages that need real data take it from the folder that HARNESS_TEST_DATA names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from docs_blocks import PAGES, ROOT, Block, Page, read
from docs_checks import UNKNOWN, PageError, compare, line_pattern, printed_lines
from docs_running import PageRun

_ALIKE = 0.6
_GONE = 3  # a line that was shown, rather than one that was not
_SOON = 0.001  # of several lines that fit as well, the first
_LOOSE = ("[0-9a-f]{8,}", r"\.?\d[\d.,]*", r"[ \t]+", "-{2,}")
_PART = re.compile("|".join((*_LOOSE, ".")))
_NUMBER = re.compile(r"(?<![\w.,])(?:[0-9a-f]{8,}|\.?\d[\d,.]*\d)(?!\w)")


def main(names: Sequence[str]) -> int:
    """Rewrite pages; the status is 1 where a page could not be run to its end."""
    pages = [Path(name).resolve() for name in names] or [*PAGES, ROOT / "README.md"]
    failed = 0
    for path in pages:
        page = read(path)
        if page.blocks:
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            wrong = rewrite(page)
            failed += bool(wrong)
            for line in _news(page, read(path)):
                print(f"{name}: {line}", flush=True)
            if wrong:
                print(f"{name} was not run to its end: {wrong}", flush=True)
    return int(failed > 0)


def rewrite(page: Page) -> str:
    """Run the page and write its outputs into it; what kept it from its end, if anything did."""
    named = os.environ.get("HARNESS_TEST_DATA")
    if {*page.needs} - {"minilm", "runs"} and not named:
        return "needs real data; name its folder in HARNESS_TEST_DATA"
    new: dict[int, str] = {}

    def take(block: Block, output: str | None) -> None:
        if output not in (None, UNKNOWN) and "output in" not in block.marks:
            new[next(i for i, one in enumerate(page.blocks) if one is block)] = merged(
                block, output
            )

    data = Path(named) if named else None
    wrong = ""
    with TemporaryDirectory() as folder, PageRun(page, Path(folder), data) as run:
        try:
            run.run(take)
        except PageError as error:
            wrong = str(error)
    write(page.path, new)
    return wrong


def write(path: Path, new: dict[int, str]) -> None:
    """Put texts in the place of a page's blocks, by their number on the page."""
    blocks = read(path, included=False).blocks
    lines = path.read_text("utf-8").split("\n")
    for number in sorted(new, reverse=True):
        at = blocks[number].line
        fence = lines[at - 1].strip().partition("text")[0].rstrip()
        indent = lines[at - 1][: len(lines[at - 1]) - len(lines[at - 1].lstrip())]
        end = next(i for i in range(at, len(lines)) if lines[i].strip() == fence)
        lines[at:end] = [f"{indent}{line}".rstrip() for line in new[number].split("\n")]
    text = "\n".join(lines)
    if text != path.read_text("utf-8"):
        path.write_text(text, "utf-8")


def merged(block: Block, output: str) -> str:
    """The block's text as `output` makes it: as it is if it holds, else with the `...` that fit."""
    if _holds(block, block.code, output):
        return block.code
    old, new = tuple(printed_lines(block.code)), tuple(printed_lines(output))
    lines: list[str] = []
    for line in _aligned(old, new):
        if line.strip() != "..." or lines[-1:] != [line]:
            lines.append(line)
    text = "\n".join(lines)
    return text if _holds(block, text, output) else "\n".join(new)


def _holds(block: Block, text: str, output: str) -> bool:
    try:
        compare(Block(block.page, block.line, block.language, text), output)
    except PageError:
        return False
    return True


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Lines of `new` beside those of `old` at the least cost; a line `...` takes any lines in."""
    # cost[i][j]: of the rest, from line i of the old and line j of the new.
    cost = [[float(len(new) - j) for j in range(len(new) + 1)] for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new) + 1)):
            cost[i][j] = min(at for at, *_ in _steps(cost, old, new, i, j))
    i = j = 0
    while i < len(old) or j < len(new):
        if i == len(old):
            yield new[j]
            j += 1
            continue
        _, down, right, line = min(_steps(cost, old, new, i, j), key=lambda step: step[0])
        if line is not None:
            yield line
        i, j = i + down, j + right


def _steps(
    cost: list[list[float]], old: Sequence[str], new: Sequence[str], i: int, j: int
) -> Iterator[tuple[float, int, int, str | None]]:
    """(cost, old lines taken, new lines taken, the line to show) of each thing to do at i, j."""
    rest = old[i].strip() == "..."
    yield cost[i + 1][j] + (0 if rest else _GONE), 1, 0, old[i] if rest else None
    if j < len(new):
        if rest:
            yield cost[i][j + 1], 0, 1, None
        else:
            if (change := _unlike(old[i], new[j])) is not None:
                yield cost[i + 1][j + 1] + change + _SOON * j, 1, 1, _with_gaps(old[i], new[j])
            yield cost[i][j + 1] + 1, 0, 1, new[j]


@cache
def _unlike(old: str, new: str) -> float | None:
    """0 for a line that still holds, None for lines that have nothing to do with each other."""
    if re.fullmatch(line_pattern(old), new):
        return 0
    matcher = SequenceMatcher(None, _PART.findall(_plain(old)), _PART.findall(_plain(new)))
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return None
    ratio = matcher.ratio()
    return 0.1 + 4 * (1 - ratio) ** 2 if ratio >= _ALIKE else None


def _plain(line: str) -> str:
    """A line without what other numbers would change: themselves, marks, and widths of columns."""
    line = re.sub(r"[-+<]?\.?\d[\d.,]*", "0", line)
    return re.sub(r"(?:(?<= )[-*](?= )|[ -])+", " ", line)


@cache
def _with_gaps(old: str, new: str) -> str:
    """The new line with `...` where the old one has it; without, where the words are others."""
    if "..." not in old or re.fullmatch(line_pattern(old), new):
        return old if re.fullmatch(line_pattern(old), new) else new
    pattern = "(.*?)".join(map(_loose, old.split("...")))
    found = re.fullmatch(pattern, new)
    if found is None:
        return new
    shown, at = "", 0
    for gap in range(1, (found.lastindex or 0) + 1):
        shown += f"{new[at : found.start(gap)]}..."
        at = found.end(gap)
    return shown + new[at:]


def _loose(text: str) -> str:
    """A pattern for the text with any numbers, fingerprints and widths of columns."""
    parts = _PART.findall(text)
    fitting = (
        next((kind for kind in _LOOSE if re.fullmatch(kind, p)), re.escape(p)) for p in parts
    )
    return "".join(fitting)


def _news(before: Page, after: Page) -> Iterator[str]:
    """What was rewritten, and the lines of prose with a number that no block shows any more."""
    pairs = [(a, b) for a, b in zip(before.blocks, after.blocks, strict=True) if a.code != b.code]
    if not pairs:
        return
    yield f"{len(pairs)} blocks rewritten, at lines {', '.join(str(b.line) for _, b in pairs)}"
    for old, new in pairs:
        if (lost := _gaps(old) - _gaps(new)) > 0:
            yield f"line {new.line}: {lost} lines with `...` in them are written out, or gone"
    left = {n for old, _ in pairs for n in _NUMBER.findall(old.code)}
    left -= {n for _, new in pairs for n in _NUMBER.findall(new.code)}
    other = [
        (b.line + at, line) for b in after.blocks for at, line in enumerate(b.code.split("\n"), 1)
    ]
    for at, line in sorted([*enumerate(after.prose, 1), *other]):
        if named := left & {*_NUMBER.findall(line)}:
            yield f"line {at} still says {', '.join(sorted(named))}"


def _gaps(block: Block) -> int:
    return sum("..." in line and line.strip() != "..." for line in block.code.split("\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
