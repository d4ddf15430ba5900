"""history.jsonl: only whole lines, one writer at a time, and a word on what a crash left."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_history import made_history
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.site.history import open_history, read_history


def test_lines_are_added_and_read_back_as_they_were(tmp_path: Path) -> None:
    path = made_history(tmp_path / "history.jsonl", nights=2, systems=2)
    lines, torn = read_history(path)
    assert (len(lines), torn) == (4, 0)
    with open_history(tmp_path) as (history, said):
        history.append(replace(lines[-1], system="another"))
        assert history.lines[:4] == lines
    assert said == ""
    assert [line.system for line in read_history(path)[0]][-1] == "another"


@pytest.mark.parametrize("half", [b'{"version": 1, "nig', b'{"version": 1}', b"\xff\xfe"])
def test_a_line_that_a_crash_cut_off_is_dropped_with_a_word(tmp_path: Path, half: bytes) -> None:
    path = made_history(tmp_path / "history.jsonl", nights=2, systems=1)
    whole = path.read_bytes()
    path.write_bytes(whole + half)
    assert read_history(path)[1] == len(half)
    assert path.read_bytes() == whole + half, "reading changes nothing"
    with open_history(tmp_path) as (history, said):
        assert "truncated by a crash" in said
        history.append(history.lines[0])
    assert len(read_history(path)[0]) == 3
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"not json", "line 2: not valid JSON"),
        (b"", "line 2: not valid JSON"),
        (b"[1]", "line 2: expected object, got list; read it with the harness"),
        (b'{"query": "q1", "document": "d1"}', "line 2: state: is missing"),
        (
            b'{"version":9,"night":"2026-01-01T00:00:00+00:00","list_size":1,'
            b'"finished":"2026-01-01T00:00:00+00:00","dataset":"a","system":"b",'
            b'"state":"failed","error":"RunError"}',
            "line 2: version: invalid enum value 9",
        ),
        (
            b'{"version":1,"night":"yesterday","list_size":1,"finished":"x","dataset":"a",'
            b'"system":"b","state":"failed","error":"RunError"}',
            "line 2: night: not a time with a time zone",
        ),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    path = made_history(tmp_path / "history.jsonl", nights=1, systems=1)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(UsageError, match=said):
        read_history(path)
    with pytest.raises(UsageError, match=said), open_history(tmp_path):
        pass


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with (
        open_history(tmp_path),
        pytest.raises(UsageError, match="another list is writing"),
        open_history(tmp_path),
    ):
        pass
    with open_history(tmp_path) as (history, _):
        assert history.lines == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), open_history(tmp_path / "file"):
        pass
