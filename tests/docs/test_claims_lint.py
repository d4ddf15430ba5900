"""Pages state no figure about a claimed system that is in no claim and on no board."""

from __future__ import annotations

from pathlib import Path

import pytest
from claims_lint import unfounded
from msgspec.structs import replace
from places import ROOT

from harness.analysis.board.leaderboard import read_boards, write_boards
from harness.analysis.board.records import RankedResult
from harness.analysis.claims import Claim, read_claims
from harness.records.scores import Interval

CLAIMS = ROOT / "results" / "claims.toml"
ROW = """
[[claims]]
id = "a"
system = "Remembrall"
dataset = "locomo"
granularity = "turn"
measure = "R@5"
value = 0.812
n = 1986
protocol = "any evidence in the top 5"
comparable = false
reason = "any for all"
source = "https://example.org"
reproducible = "no"
"""

VARIANT = ROW.replace('"a"', '"b"').replace('"Remembrall"', '"Remembrall fast"')
VARIANT = VARIANT.replace("0.812", "0.7456")


@pytest.fixture
def claims(tmp_path: Path) -> list[Claim]:
    """A system and a variant of it, with a claim each."""
    path = tmp_path / "claims.toml"
    path.write_text(ROW + VARIANT)
    return list(read_claims(path))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A board with one entry: .6123 over all questions, its interval, an ability."""

    def result(value: float, low: float, high: float) -> dict[str, RankedResult]:
        interval = Interval(method="t", cluster_by="queries", clusters=9, low=low, high=high)
        return {"recall@5": RankedResult(value=value, n=9, interval=interval)}

    whole = read_boards(ROOT / "results" / "field" / "leaderboard.json")[0]
    slices = {"all": result(0.6123, 0.5511, 0.6622), "temporal": result(0.3877, 0.3333, 0.4444)}
    first = whole.entries[0]
    protocols = [replace(first.protocols[0], slices=slices)]
    entry = replace(first, system="Remembrall", name="Remembrall", protocols=protocols)
    path = tmp_path / "leaderboard.json"
    write_boards(path, [replace(whole, entries=[entry])], {})
    return path


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("Remembrall finds .812 of it, and we .31.", [".31"]),
        ("Remembrall finds 81.2% of it.", []),
        ("Remembrall finds 81 % of it.", []),
        ("Remembrall finds 83% of it.", ["83%"]),
        ("Ours finds .31. Remembrall finds more, with version 2.31 in 0.4 s.", []),
        ("| Remembrall | .813 |\n| ours | .31 |", [".813"]),
        ("* Remembrall, of which\n  the value is .90\n* ours .31", [".90"]),
        ("```text\nRemembrall .99\n```\nand .98", []),
        ("Remembralls are another thing, .99 of them.", []),
        ("Remembrall 0.16.8 needs 0.23 s, 1.45 GB and $0.12, +.21 of what it was.", []),
        ("Remembrall: R@5 81.2, and of late R@5 91.2 or 92.3 R@5.", ["R@5 91.2", "92.3"]),
        ("Remembrall finds 83 percent, and 81 percent of the other.", ["83 percent"]),
        ("| | ours | Remembrall |\n|---|---|---|\n| R@5 | .31 | .83 |", [".83"]),
        ("| | ours | Remembrall |\n|---|---|---|\n| R@5 | .83 | .81 |", []),
        ("Remembrall finds 71%, its variant .746, and .7457.", ["71%", ".7457"]),
        ("Remembrall fast finds .812.", [".812"]),
        ("Remembrall fast finds .746, Remembrall .812.", []),
    ],
)
def test_every_figure_about_a_claimed_system_is_founded(
    claims: list[Claim], tmp_path: Path, text: str, figures: list[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n")
    assert [one.figure for one in unfounded([page], claims)[1]] == figures


def test_a_page_is_named_with_the_line(claims: list[Claim], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nNothing.\nBut Remembrall\nfinds .9134 of it.\n")
    (found,) = unfounded([page], claims)[1]
    assert str(found) == f"{page}:4: .9134 of remembrall is in no claim and on no board"


def test_of_a_boards_many_numbers_few_prove_a_coarse_figure(
    claims: list[Claim], board: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Remembrall: .6123, 61%, .612 [.5511, .6622], temporal .3877; 55% and .388.\n")
    found = unfounded([page], claims, read_boards(board))[1]
    assert [one.figure for one in found] == ["55%", ".388"]


def test_the_projects_own_pages_state_no_other_figures() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    pages += [page for name in ("docs", "results") for page in sorted((ROOT / name).rglob("*.md"))]
    paths = (ROOT / "results" / name / "leaderboard.json" for name in ("field", "board"))
    boards = [board for path in paths for board in read_boards(path)]
    n, found = unfounded(pages, read_claims(CLAIMS), boards)
    assert found == []
    assert n >= 12
