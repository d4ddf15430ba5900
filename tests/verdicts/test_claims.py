"""Claims are data: read strictly, held to their files, and no page states another figure."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from harness.errors import UsageError
from harness.verdicts.claims import SCHEMA, claims_for, read_claims
from tests.places import ROOT

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
compares = false
why = "any for all"
source = "https://example.org"
reproducible = "no"
"""

Harness = Callable[..., Any]


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "claims.toml"
    path.write_text(ROW)
    return path


def test_the_projects_own_claims_follow_the_schema_and_say_what_they_are() -> None:
    claims = read_claims(CLAIMS)
    assert len(claims) >= 100
    table = tomllib.loads(CLAIMS.read_text())
    jsonschema.validate(table, orjson.loads(SCHEMA.read_bytes()))
    scored = [one for one in claims if one.ours is not None]
    assert len(scored) >= 6
    for one in scored:
        assert one.ours is not None
        assert one.file is not None
        assert f"data:{one.ours.dataset}#" in one.ours.signature
        assert f"|n:{one.ours.n}|" in one.ours.signature


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("n = 1986", "nn = 1986", "unknown field 'nn'; did you mean n?"),
        ("value = 0.812", "value = 81.2", "value must be a number from 0 to 1, not 81.2"),
        ("value = 0.812", "value = nan", "value must be a number from 0 to 1"),
        ("n = 1986", "n = 0", "n must be a whole number above 0"),
        ('why = "any for all"\n', "", "no why; add it"),
        ("compares = false", 'compares = "no"', "compares must be true or false"),
        ('reproducible = "no"', "reproducible = true", "what is reproducible has a file"),
        ("[[claims]]", "[claims]", "must be tables"),
        (ROW, ROW + ROW, "claim 2 (a): the id stands twice"),
    ],
)
def test_a_row_that_is_not_as_it_must_be_is_refused(
    registry: Path, old: str, new: str, said: str
) -> None:
    registry.write_text(ROW.replace(old, new))
    with pytest.raises(UsageError) as refused:
        read_claims(registry)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "unfounded"),
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
    ],
)
def test_every_figure_about_a_claimed_system_is_founded(
    harness: Harness, registry: Path, tmp_path: Path, text: str, unfounded: list[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n")
    told = harness("claims", registry, "--check", page, "--json")
    found = orjson.loads(told.out)
    assert [one["figure"] for one in found["unfounded"]] == unfounded
    assert told.status == int(bool(unfounded))


def test_a_page_is_named_with_the_line(harness: Harness, registry: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nNothing.\nBut Remembrall\nfinds .9134 of it.\n")
    told = harness("claims", registry, "--check", tmp_path)
    assert told.status == 1
    assert f"{page}:4: .9134 of remembrall is in no claim and on no board" in told.err


def test_the_projects_own_pages_state_no_other_figures(harness: Harness) -> None:
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "docs", "results")]
    board = ROOT / "results" / "field" / "leaderboard.json"
    told = harness("claims", CLAIMS, "--check", *pages, "--board", board, "--json")
    assert told.status == 0, told.out
    assert orjson.loads(told.out)["figures"] >= 12


def test_every_published_file_gives_what_stands_beside_its_claim(
    harness: Harness, data: Path, tmp_path: Path
) -> None:
    source = f"locomo={data / 'locomo' / 'locomo10.json'}"
    told = harness("claims", CLAIMS, "--score", data / "published", "--source", source, "--json")
    assert told.status == 0, told.out
    rows = orjson.loads(told.out)["claims"]
    assert len(rows) >= 6
    assert all(row["agrees"] for row in rows)
    changed = tmp_path / "claims.toml"
    changed.write_text(CLAIMS.read_text().replace("value = 0.888907", "value = 0.888908"))
    told = harness("claims", changed, "--score", data / "published", "--source", source)
    assert told.status == 1
    assert "mempalace-hybrid-locomo: 0.888908 in the claims, 0.888907 now" in told.err


def test_claims_stand_beside_the_boards_of_their_dataset(
    harness: Harness, data: Path, registry: Path, tmp_path: Path
) -> None:
    claims = read_claims(registry)
    (turns,) = claims_for(claims, {"dataset": {"name": "locomo", "granularity": "turn"}})
    assert (turns["why"], turns["compares"]) == ("any for all", False)
    (sessions,) = claims_for(claims, {"dataset": {"name": "locomo", "granularity": "session"}})
    assert sessions["why"] == "turns, where this board has sessions"
    assert claims_for(claims, {"dataset": {"name": "sample", "granularity": "turn"}}) == []
    file = data / "published" / "cogito" / "runP-v35_per_question.json"
    results = tmp_path / "results"
    options = ["--dataset", "longmemeval/s-ids", "--results", results, "--claims", CLAIMS]
    told = harness("leaderboard", "add", file, *options)
    assert told.status == 0, told.err
    (board,) = orjson.loads((results / "leaderboard.json").read_bytes())["boards"]
    found = {one["system"]: one for one in board["claims"]}
    assert found["memory-core"]["ours"]["n"] == 470
    assert "memory-core" not in {entry["system"] for entry in board["entries"]}
