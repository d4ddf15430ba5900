"""The table of claims: every case still runs, and the file has the tables of the command."""

from __future__ import annotations

import pytest

from tests.benchmarks.claims import CASES, TABLES, Case


@pytest.mark.slow
def test_every_case_of_the_table_of_claims_runs() -> None:
    for case in CASES:
        assert case.row(3 / case.draws).startswith(f"| {case.name} | 3 |")


def test_the_file_has_a_line_for_every_case() -> None:
    text = TABLES.read_text()
    for case in CASES:
        assert f"| {case.name} | {case.draws:,} |" in text


def test_a_case_that_errs_too_often_fails_and_one_that_says_so_is_flagged() -> None:
    for flagged, verdict in ((False, "**fails**"), (True, "flagged")):
        case = Case("", "x", lambda rng, n, f=flagged: ([True] * n, [f] * n), 100)
        assert case.row(1.0).endswith(f"| {verdict} |")
    assert Case("", "x", lambda rng, n: ([False] * n, [False] * n)).row(1.0).endswith("| holds |")
