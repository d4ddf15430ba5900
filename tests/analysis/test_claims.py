"""Claims are data: read strictly, held to their files, and no page states another figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from harness.analysis.board.leaderboard import read_boards
from harness.analysis.claims import claims_for, read_claims
from harness.errors import UsageError
from harness.records.scores import ScoredDataset
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
comparable = false
reason = "any for all"
source = "https://example.org"
reproducible = "no"
"""

SHA = "0" * 64
FILE = f'file = {{ url = "u", sha256 = "{SHA}" }}'
SIGNED = '"s"'
OURS = f'{{ metric = "hit@5", dataset = "locomo", value = 0.5, n = 2, signature = {SIGNED} }}'
Harness = Callable[..., Any]


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "claims.toml"
    path.write_text(ROW)
    return path


def test_the_projects_own_claims_follow_the_schema_and_say_what_they_are() -> None:
    claims = read_claims(CLAIMS)
    assert len(claims) >= 100
    scored = [one for one in claims if one.rescored is not None]
    assert len(scored) >= 6
    for one in scored:
        assert one.rescored is not None
        assert one.file is not None
        assert f"data:{one.rescored.dataset}#" in one.rescored.signature
        assert f"|n:{one.rescored.n}|" in one.rescored.signature


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("n = 1986", "nn = 1986", "nn: unknown field; did you mean n?"),
        ("value = 0.812", "value = 81.2", "value: expected float <= 1.0"),
        ("value = 0.812", "value = nan", "claims.value is nan, which nothing can be compared with"),
        ("n = 1986", "n = 0", "n: expected int >= 1"),
        ('reason = "any for all"\n', "", "reason: is missing"),
        ("comparable = false", 'comparable = "no"', "comparable: expected bool, got str"),
        ('reproducible = "no"', "reproducible = true", "what is reproducible has a file"),
        ("[[claims]]", "[claims]", "must be tables"),
        (ROW, ROW + ROW, "claim 2 (a): the id occurs twice"),
        ('"https://example.org"', '""', "source: expected str matching regex"),
        ('reproducible = "no"', 'reproducible = ""', "reproducible: expected str matching regex"),
        (
            '"no"',
            f'true\nfile = {{ url = 5, sha256 = "{SHA}" }}',
            "file.url: expected str",
        ),
        (
            '"no"',
            'true\nfile = { url = "u", sha256 = "zz" }',
            "file.sha256: expected str",
        ),
        ('"no"', f'"no"\nrescored = {OURS}', "rescored is what a file gives; name the file"),
        (
            '"no"',
            f"true\n{FILE}\nrescored = {OURS.replace(SIGNED, '1')}",
            "rescored.signature: expected",
        ),
    ],
)
def test_a_row_that_is_not_as_it_must_be_is_refused(
    registry: Path, old: str, new: str, said: str
) -> None:
    registry.write_text(ROW.replace(old, new))
    with pytest.raises(UsageError) as refused:
        read_claims(registry)
    assert said in str(refused.value)


@pytest.mark.extensions
def test_claims_are_listed_by_dataset_and_ids_are_of_their_dataset(harness: Harness) -> None:
    by = {
        name: orjson.loads(harness("claims", CLAIMS, "--dataset", name, "--json").out)["claims"]
        for name in ("longmemeval/s", "longmemeval/s-ids")
    }
    assert by["longmemeval/s"] == by["longmemeval/s-ids"] != []
    told = harness("claims", CLAIMS, "--dataset", "lococo")
    assert told.status == 2
    assert "no claim is on 'lococo'; did you mean locomo" in told.err


def test_the_fields_board_has_the_claims_as_they_are() -> None:
    claims = read_claims(CLAIMS)
    for board in read_boards(ROOT / "results" / "field" / "leaderboard.json"):
        assert board.claims == claims_for(claims, board.dataset)


@pytest.mark.slow
@pytest.mark.extensions
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
    letta = "data:locomo#c98bc0a6|level:turn"
    other = CLAIMS.read_text().replace(letta, letta.replace("turn", "word"))
    changed.write_text(
        other.replace("n = 1982, sig", "n = 1981, sig").replace("v:0.1.0", "v:0.2.0")
    )
    told = harness("claims", changed, "--score", data / "published", "--source", source)
    assert "mempalace-hybrid-locomo: n 1981 in the claims, 1982 now" in told.err
    assert "3 disagree" in told.out


@pytest.mark.extensions
def test_claims_stand_beside_the_boards_of_their_dataset(
    harness: Harness, data: Path, registry: Path, tmp_path: Path
) -> None:
    claims = read_claims(registry)
    about = {"text": "official", "split": "test", "fingerprint": "f"}
    locomo = ScoredDataset(name="locomo", granularity="turn", **about)
    (turns,) = claims_for(claims, locomo)
    assert (turns.reason, turns.comparable) == ("any for all", False)
    (sessions,) = claims_for(claims, replace(locomo, granularity="session"))
    assert sessions.reason == "turns, where this board has sessions"
    assert claims_for(claims, replace(locomo, name="sample")) == []
    file = data / "published" / "cogito" / "runP-v35_per_question.json"
    results = tmp_path / "results"
    scored = harness("score", file, "--dataset", "longmemeval/s-ids", "--out", results)
    assert scored.status == 0, scored.err
    told = harness("leaderboard", "--results", results, "--claims", CLAIMS)
    assert told.status == 0, told.err
    (summary,) = orjson.loads((results / "leaderboard.json").read_bytes())["boards"]
    found = {one["system"]: one for one in summary["claims"]}
    assert found["memory-core"]["rescored"]["n"] == 470
    assert "memory-core" not in {entry["system"] for entry in summary["entries"]}
