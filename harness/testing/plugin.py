"""The pytest plug-in: a fixture, a summary of what was measured, and values in JUnit XML.

pytest loads this file at its every start, so it imports nothing that is heavy; numbers are loaded
when a test first asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from harness.testing import LISTENING


@pytest.fixture
def assert_quality() -> Callable[..., Any]:
    """`harness.testing.assert_quality`: fails the test where a run misses a threshold."""
    from harness.testing import assert_quality

    return assert_quality


def pytest_configure(config: pytest.Config) -> None:
    """Listen to what tests measure, until pytest ends."""
    measured = _SessionChecks()
    LISTENING.append(measured.heard)
    config.add_cleanup(lambda: LISTENING.remove(measured.heard))
    config.pluginmanager.register(measured, "harness-quality-summary")


class _SessionChecks:
    """What the tests of one session measured."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []  # by the test that runs now
        self._by_test: dict[str, list[dict[str, Any]]] = {}

    # Not the newer `wrapper=True`: the user's pytest may be older than that.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Give it to the test's properties, which JUnit XML shows, and to its report, which comes
        to the summary from the processes of pytest-xdist too."""
        checks = list(self.heard)
        self.heard.clear()
        for check in checks:
            item.user_properties.extend(_properties(check))
        outcome = yield
        outcome.get_result().harness_quality = checks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it for the summary."""
        if checks := getattr(report, "harness_quality", []):
            self._by_test.setdefault(report.nodeid, []).extend(checks)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Every number and its threshold, of tests that passed too; not with -qq."""
        if not self._by_test or terminalreporter.verbosity < -1:
            return
        terminalreporter.section("retrieval quality")
        for test, checks in self._by_test.items():
            terminalreporter.line(test)
            for check in checks:
                if check["name"] == "failed queries" and not check["value"]:
                    continue
                word, colour = ("ok    ", "green") if check["passed"] else ("MISSED", "red")
                terminalreporter.line(f"  {word} {check['line']}", **{colour: True})


def _properties(check: dict[str, Any]) -> list[tuple[str, object]]:
    """A check as properties of its test: the value, and what it is to be read with."""
    name = f"quality.{check['name']}"
    sign = ">=" if check["above"] else "<="
    properties: list[tuple[str, object]] = [
        (name, "not measurable" if check["value"] is None else check["value"]),
        (f"{name}.threshold", f"{sign} {check['threshold']}"),
        (f"{name}.n", check["n"]),
    ]
    if check["low"] is not None:
        properties.append((f"{name}.interval", f"{check['low']} to {check['high']}"))
    return properties
