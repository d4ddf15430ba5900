"""pytest plug-in: a fixture, a summary of the checks, and values in JUnit XML.

pytest loads this file at every start, so heavy modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from harness.testing import LISTENING


@pytest.fixture
def assert_quality() -> Callable[..., Any]:
    """Returns `harness.testing.assert_quality`, which fails if a run misses a threshold."""
    from harness.testing import assert_quality

    return assert_quality


def pytest_configure(config: pytest.Config) -> None:
    """Collects the checks of tests until pytest ends."""
    measured = _SessionChecks()
    LISTENING.append(measured.heard)
    config.add_cleanup(lambda: LISTENING.remove(measured.heard))
    config.pluginmanager.register(measured, "harness-quality-summary")


class _SessionChecks:
    """Checks made by the tests of one session."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []  # by the current test
        self._by_test: dict[str, list[dict[str, Any]]] = {}

    # Not the newer `wrapper=True`, for older versions of pytest.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Adds the checks to the test's properties, for JUnit XML, and to its report, which
        pytest-xdist sends to the main process."""
        checks = list(self.heard)
        self.heard.clear()
        for check in checks:
            item.user_properties.extend(_properties(check))
        outcome = yield
        outcome.get_result().harness_quality = checks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Stores the checks for the summary."""
        if checks := getattr(report, "harness_quality", []):
            self._by_test.setdefault(report.nodeid, []).extend(checks)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints every value and threshold, also of passed tests; not with -qq."""
        if not self._by_test or terminalreporter.verbosity < -1:
            return
        terminalreporter.section("retrieval quality")
        for test, checks in self._by_test.items():
            terminalreporter.line(test)
            for check in checks:
                if check["name"] == "failed queries" and not check["value"]:
                    continue
                colour = {"pass": "green", "FAIL": "red"}.get(check["word"], "yellow")
                terminalreporter.line(f"  {check['word']:<12} {check['line']}", **{colour: True})


def _properties(check: dict[str, Any]) -> list[tuple[str, object]]:
    """Returns a check as test properties: value, threshold, n and interval."""
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
