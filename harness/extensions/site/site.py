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
from harness.runs.folder.run_folder import dataset_of_run

MARK = ".harness-board"
"""The file that says that a folder was published by us, and may be replaced."""

_OURS = (
    *("index.html", "404.html", "parts", "leaderboard.json", "leaderboard-files", "reports"),
    *("docs", ".nojekyll", MARK),
)
"""What is replaced; anything else in a published folder stays: a CNAME, or the .git of a branch
that Pages shows."""


def publish(
    results: Path,
    out: Path,
    *,
    claims: Claims | None = None,
    reports: bool = False,
    docs: Path | None = None,
) -> tuple[list[Board], dict[str, str]]:
    """Writes the site of the runs below `results` to `out`, whole.

    Returns the boards, and why runs that are on none cannot be read, by their names: the page says
    so too. Raises UsageError as `build` does, where `out` holds what is not ours or is the folder
    that one is in, for `docs` that are no built site or have `out` in them, and for `reports` of a
    run whose dataset is not here.
    """
    out = out.resolve()  # what a link leads to is replaced, and not the link
    if out.exists() and not (out / MARK).is_file() and (out.is_file() or any(out.iterdir())):
        raise UsageError(f"{out}: holds something else; name a new folder, or an empty one")
    if Path.cwd().is_relative_to(out):
        raise UsageError(f"{out}: is where you stand, and is replaced whole; name it from above")
    if docs is not None and not (docs / "index.html").is_file():
        raise UsageError(f"{docs}: has no index.html; name the folder of a site that is built")
    if docs is not None and out.is_relative_to(docs.resolve()):
        raise UsageError(f"{out}: is in {docs}, which is to be copied into it; name another folder")
    boards, broken, pairs = build_boards(results, claims)
    with disk_errors(out.parent, "name another folder"), folder_aside(out, ours=_OURS) as aside:
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
        write_bytes(aside / "404.html", refusal("There is no such page."))
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
    """Writes a report of each run, of ids and numbers alone; returns their addresses by run."""
    found = {}
    for run in (run for board in boards for run in board.runs):
        dataset = dataset_of_run(results / run)
        data = report_data([results / run], dataset, share=True)
        found[run] = f"reports/{run}.html"
        _write(aside / found[run], report_page(data, home="../index.html"))
    return found
