"""A board as a folder that any server of files shows, below any address.

index.html                  the page of the boards; it fetches `parts` as they are looked at
parts/NAME.json             each board, and the pairs of each
leaderboard.json and -files the same for programs
reports/RUN.html            reports of the runs, without any text of a dataset
docs/                       a site that was built elsewhere
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

import harness
from harness.analysis.board.leaderboard import write_boards
from harness.analysis.board.records import Board
from harness.errors import UsageError
from harness.io.files import disk_errors, folder_aside, write_bytes, write_json
from harness.io.records import encode, to_plain
from harness.reports.board import Claims, build_boards, page_data
from harness.reports.html import page, refusal
from harness.reports.report import report_data, report_page
from harness.runs.folder.run_dataset import dataset_of_run

MARK = ".harness-board"
"""File that marks a published folder, which may be replaced."""

_OURS = (
    *("index.html", "404.html", "parts", "leaderboard.json", "leaderboard-files", "reports"),
    *("docs", ".nojekyll", MARK),
)
"""Names that are replaced; other files in a published folder stay, such as CNAME, or .git of a
GitHub Pages branch.
"""


def publish(
    results: Path,
    out: Path,
    *,
    claims: Claims | None = None,
    reports: bool = False,
    docs: Path | None = None,
) -> tuple[list[Board], dict[str, str]]:
    """Writes the complete site of the runs below `results` to `out`.

    Returns the leaderboards, and errors of unreadable runs by name, which the page shows too.
    Raises UsageError as `build` does; if `out` contains other files or is the current folder; if
    `docs` is not a built site or contains `out`; and for `reports` of a run without its dataset.
    """
    out = out.resolve()  # replace the target of a link, not the link
    if out.exists() and not (out / MARK).is_file() and (out.is_file() or any(out.iterdir())):
        raise UsageError(f"{out}: contains other files; pass a new or empty folder")
    if Path.cwd().is_relative_to(out):
        raise UsageError(f"{out}: is the current folder, which would be replaced; leave it first")
    if docs is not None and not (docs / "index.html").is_file():
        raise UsageError(f"{docs}: has no index.html; pass the folder of a built site")
    if docs is not None and out.is_relative_to(docs.resolve()):
        raise UsageError(f"{out}: is inside {docs}, which is copied into it; pass another folder")
    boards, broken, pairs = build_boards(results, claims)
    with disk_errors(out.parent, "pass another folder"), folder_aside(out, ours=_OURS) as aside:
        shown = _reports(results, boards, aside) if reports else {}
        why = {run: text.replace(f"{results}/", f"{results.name}/") for run, text in broken.items()}
        data, parts = page_data(boards, broken=why, reports=shown, results=results.name)
        for name, part in (parts | {f"pairs-{one}": found for one, found in pairs.items()}).items():
            _write(aside / "parts" / f"{name}.json", encode(part))
        links = [("leaderboard.json", "leaderboard.json")]
        if docs is not None:
            links.append(("docs/index.html", "Documentation"))
        html = page("Leaderboard", "board", to_plain(replace(data, links=links)), fetches=True)
        write_bytes(aside / "index.html", html)
        write_bytes(aside / "404.html", refusal("Page not found."))
        (aside / "leaderboard-files").mkdir()
        write_boards(aside / "leaderboard.json", boards, pairs)
        if docs is not None:
            shutil.copytree(docs, aside / "docs")
        write_bytes(aside / ".nojekyll", b"")
        write_json(aside / MARK, {"harness": harness.__version__})
    return boards, broken


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, data)


def _reports(results: Path, boards: Sequence[Board], aside: Path) -> dict[str, str]:
    """Writes a report of each run, with ids and numbers only; returns their addresses by run."""
    found = {}
    for run in (run for board in boards for run in board.runs):
        dataset = dataset_of_run(results / run)
        data = report_data([results / run], dataset, share=True)
        found[run] = f"reports/{run}.html"
        _write(aside / found[run], report_page(data, home="../index.html"))
    return found
