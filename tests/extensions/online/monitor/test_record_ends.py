"""What `Monitor` keeps at the end of a program, and what it does not take."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANGS

from harness.errors import UsageError
from harness.extensions.online.monitor.monitor import Monitor
from harness.extensions.online.monitor.rules import AlertRules, parse_threshold

PROGRAM = """
import sys
from harness.extensions.online.monitor.monitor import Monitor

monitor = Monitor(state=sys.argv[1])
for _ in range(3):
    monitor.record("where?", returned=["d1"])
"""


def test_a_program_that_ends_without_closing_keeps_its_last_recalls(tmp_path: Path) -> None:
    state = tmp_path / "monitor.state"
    subprocess.run([sys.executable, "-c", PROGRAM, str(state)], check=True, timeout=HANGS)
    with Monitor(state=state) as monitor:
        assert monitor.totals.requests == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"time": math.inf},
        {"time": math.nan},
        {"time": 1e15},
        {"seconds": math.nan},
        {"rating": math.nan},
    ],
)
def test_numbers_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Monitor().record("where?", **wrong)


@pytest.mark.usefixtures("home")
def test_an_alarm_for_an_ability_that_no_label_has_is_refused() -> None:
    from harness import open_dataset

    rules = AlertRules((parse_threshold("recall@10[temporl] < 0.2"),))
    with pytest.raises(UsageError, match="did you mean temporal"):
        Monitor(labels=open_dataset("sample"), rules=rules)
