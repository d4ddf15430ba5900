"""A board as a folder that any server of files shows, below any address.

index.html                  the page of the boards; it fetches `parts` as they are looked at
parts/NAME.json             each board, and the pairs of each
leaderboard.json and -files the same for programs
reports/RUN.html            reports of the runs, without any text of a dataset
docs/                       a site that was built elsewhere
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

import harness
from harness.errors import UsageError
from harness.files import disk_errors, folder_aside, write_bytes, write_json
from harness.pages.board import Claims, in_parts, page_data
from harness.pages.html import page, refusal
from harness.pages.report import report_data, report_page
from harness.runs.folder.run_folder import dataset_of_run
from harness.verdicts.board.files import write_boards
from harness.verdicts.board.leaderboard import build
from harness.verdicts.board.pairs import pairs
from harness.verdicts.board.summary import board_id

MARK = ".harness-board"
"""The file that says that a folder was published by us, and may be replaced."""

_OURS = (
    *("index.html", "404.html", "parts", "leaderboard.json", "leaderboard-files", "reports"),
    *("docs", ".nojekyll", MARK),
)
"""What is made anew; anything else in a published folder stays: a CNAME, or the .git of a branch
that Pages shows."""

_NO_PAIRS: dict[str, list[Any]] = {"runs": [], "metrics": [], "slices": []}


def publish(
    results: Path,
    out: Path,
    *,
    claims: Claims | None = None,
    reports: bool = False,
    docs: Path | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the site of the runs below `results` to `out`, whole.

    Gives the boards, and why runs that are on none cannot be read, by their names: the page says so
    too. Raises UsageError as `build` does, where `out` holds what is not ours or is the folder that
    one is in, for `docs` that are no built site or have `out` in them, and for `reports` of a run
    whose dataset is not here.
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
    built, broken = build(results)
    if claims is not None:
        for board in built["boards"]:
            board["claims"] = list(claims(board))
    compared = {board_id(board): pairs(results, board) for board in built["boards"]}
    with disk_errors(out.parent, "name another folder"), folder_aside(out, ours=_OURS) as aside:
        shown = _reports(results, built, aside) if reports else {}
        told = {run: why.replace(f"{results}/", f"{results.name}/") for run, why in broken.items()}
        data = page_data(built, broken=told, reports=shown, results=results.name)
        light, parts = in_parts(data)
        parts |= {f"pairs-{name}": one or _NO_PAIRS for name, one in compared.items()}
        for name, part in parts.items():
            _write(aside / "parts" / f"{name}.json", orjson.dumps(part, option=_NUMPY))
        links = [("leaderboard.json", "leaderboard.json")]
        if docs is not None:
            links.append(("docs/index.html", "Documentation"))
        light = {**light, "links": links}
        write_bytes(aside / "index.html", page("Leaderboard", "board", light, fetches=True))
        write_bytes(aside / "404.html", refusal("There is no such page."))
        (aside / "leaderboard-files").mkdir()
        write_boards(aside / "leaderboard.json", built, compared)
        if docs is not None:
            shutil.copytree(docs, aside / "docs")
        write_bytes(aside / ".nojekyll", b"")
        write_json(aside / MARK, {"harness": harness.__version__})
    return built, broken


_NUMPY = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, data)


def _reports(results: Path, built: Mapping[str, Any], aside: Path) -> dict[str, str]:
    """A report of each run, of ids and numbers alone; where each is, by the run."""
    found = {}
    for run in (entry["run"] for board in built["boards"] for entry in board["entries"]):
        dataset = dataset_of_run(results / run)
        data = report_data([results / run], dataset, share=True)
        place = f"reports/{run}.html"
        _write(aside / place, report_page(data, home="../index.html"))
        found[run] = place
    return found
