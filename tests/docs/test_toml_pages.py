"""The pages on TOML files have every key that is accepted, and no other.

What is accepted is asked of the commands: each names its keys when it refuses one.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_blocks import ROOT
from docs_tables import documented

from harness.__main__ import main
from harness.cli.run_single import file_keys

PAGES = ROOT / "docs" / "reference" / "toml"
UNKNOWN = "qqqqqqqq"

RUN = ("run",)
GATE = ("gate", "results")
MONITOR = ("monitor", "log.jsonl", "--once")
LOG = ("score", "log.jsonl", "--log", "--dataset", "sample")


def _accepted(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    text: str,
    option: str = "--config",
) -> set[str]:
    """The keys that the command names as known where it refuses another."""
    file = folder / "file.toml"
    file.write_text(text)
    assert main([*command, option, str(file)]) == 2
    said = capsys.readouterr().err
    known = re.search(
        rf"(?:unknown (?:key|field) '{UNKNOWN}'|{UNKNOWN}: unknown field).*; known: (.*)", said
    )
    assert known, said
    return set(known[1].split(", "))


@pytest.mark.parametrize(
    ("page", "heading", "command", "text"),
    [
        ("run", "[nightly]", RUN, f"[nightly]\n{UNKNOWN} = 1"),
        ("gate", "Keys", GATE, f"{UNKNOWN} = 1"),
        ("gate", "[[at_least]]` and `[[at_most]]", GATE, f"[[at_least]]\n{UNKNOWN} = 1"),
        ("gate", "[[at_least]]` and `[[at_most]]", GATE, f"[[at_most]]\n{UNKNOWN} = 1"),
        ("gate", "[[no_drop]]", GATE, f"[[no_drop]]\n{UNKNOWN} = 1"),
        ("monitor", "Keys", MONITOR, f"{UNKNOWN} = 1"),
        (
            "monitor",
            "[[at_least]]` and `[[at_most]]",
            MONITOR,
            f"[[at_most]]\n{UNKNOWN} = 1",
        ),
        ("monitor", "[[change]]", MONITOR, f"[[change]]\n{UNKNOWN} = 1"),
        ("log", "[log]", LOG, f"[log]\n{UNKNOWN} = 1"),
        ("log", "[log.fields]", LOG, f"[log.fields]\n{UNKNOWN} = 'a'"),
    ],
)
def test_a_page_has_the_keys_that_are_accepted_and_no_other(
    page: str,
    heading: str,
    command: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.jsonl").write_text("{}\n")
    option = "--log-config" if command is LOG else "--config"
    accepted = _accepted(tmp_path, capsys, command, text, option)
    assert accepted == set(documented(PAGES / f"{page}.md", heading))


def test_tables_of_a_list_accept_the_keys_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = documented(PAGES / "run.md", "Lists")
    keys = _accepted(tmp_path, capsys, RUN, f"[[retrievers]]\nname = 'a'\nonly = []\n{UNKNOWN} = 1")
    assert keys == _accepted(tmp_path, capsys, RUN, f"{UNKNOWN} = 1") == set(file_keys())
    assert {"name", "only", "params"} == set(own) - {"[[retrievers]]"}
