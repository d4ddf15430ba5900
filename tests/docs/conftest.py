"""After the tests: which blocks of the pages are not run, and why."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.stats.get("passed", [])
    said = [value for r in reports for name, value in r.user_properties if name == "not run"]
    if said:
        terminalreporter.section("blocks of the documentation that no test runs")
        for line in sorted(said):
            terminalreporter.line(line)
