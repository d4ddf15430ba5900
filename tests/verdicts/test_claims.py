"""Claims are data: read strictly, held to their files, and no page states another figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from harness.errors import UsageError
from harness.records.scores import Interval, ScoredDataset
from harness.verdicts.board.files import read_boards, write_boards
from harness.verdicts.board.records import RankedResult
from harness.verdicts.claims import claims_for, read_claims
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
VARIANT = ROW.replace('"a"', '"b"').replace('"Remembrall"', '"Remembrall fast"')
VARIANT = VARIANT.replace("0.812", "0.7456")

Harness = Callable[..., Any]


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "claims.toml"
    path.write_text(ROW)
    return path


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
        ("value = 0.812", "value = nan", "claims.value is nan, which nothing can be held against"),
        ("n = 1986", "n = 0", "n: expected int >= 1"),
        ('reason = "any for all"\n', "", "reason: is missing"),
        ("comparable = false", 'comparable = "no"', "comparable: expected bool, got str"),
        ('reproducible = "no"', "reproducible = true", "what is reproducible has a file"),
        ("[[claims]]", "[claims]", "must be tables"),
        (ROW, ROW + ROW, "claim 2 (a): the id stands twice"),
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
    harness: Harness, registry: Path, tmp_path: Path, text: str, unfounded: list[str]
) -> None:
    registry.write_text(ROW + VARIANT)
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


def test_of_a_boards_many_numbers_few_prove_a_coarse_figure(
    harness: Harness, registry: Path, board: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("Remembrall: .6123, 61%, .612 [.5511, .6622], temporal .3877; 55% and .388.\n")
    told = harness("claims", registry, "--check", page, "--board", board, "--json")
    figures = [one["figure"] for one in orjson.loads(told.out)["unfounded"]]
    assert figures == ["55%", ".388"]


def test_pages_that_cannot_be_read_are_no_pages_without_figures(
    harness: Harness, registry: Path, tmp_path: Path
) -> None:
    empty, odd = tmp_path / "empty", tmp_path / "odd.md"
    empty.mkdir()
    odd.write_bytes(b"Remembrall \xff .99\n")
    for page, said in ((empty, "holds no page of Markdown"), (odd, "not text in UTF-8 (byte 11)")):
        told = harness("claims", registry, "--check", page)
        assert told.status == 2
        assert said in told.err


def test_claims_are_listed_by_dataset_and_ids_are_of_their_dataset(harness: Harness) -> None:
    by = {
        name: orjson.loads(harness("claims", CLAIMS, "--dataset", name, "--json").out)["claims"]
        for name in ("longmemeval/s", "longmemeval/s-ids")
    }
    assert by["longmemeval/s"] == by["longmemeval/s-ids"] != []
    told = harness("claims", CLAIMS, "--dataset", "lococo")
    assert told.status == 2
    assert "no claim is on 'lococo'; did you mean locomo" in told.err


def test_the_projects_own_pages_state_no_other_figures(harness: Harness) -> None:
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "docs", "results")]
    boards = [ROOT / "results" / name / "leaderboard.json" for name in ("field", "board")]
    given = [word for board in boards for word in ("--board", board)]
    told = harness("claims", CLAIMS, "--check", *pages, *given, "--json")
    assert told.status == 0, told.out
    assert orjson.loads(told.out)["figures"] >= 12


def test_the_fields_board_has_the_claims_as_they_are() -> None:
    claims = read_claims(CLAIMS)
    for board in read_boards(ROOT / "results" / "field" / "leaderboard.json"):
        assert board.claims == claims_for(claims, board.dataset)


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
    options = ["--dataset", "longmemeval/s-ids", "--results", results, "--claims", CLAIMS]
    told = harness("leaderboard", "add", file, *options)
    assert told.status == 0, told.err
    (summary,) = orjson.loads((results / "leaderboard.json").read_bytes())["boards"]
    found = {one["system"]: one for one in summary["claims"]}
    assert found["memory-core"]["rescored"]["n"] == 470
    assert "memory-core" not in {entry["system"] for entry in summary["entries"]}
