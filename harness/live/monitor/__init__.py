"""Quality of recalls while they are made. Start with `Monitor`."""

from harness.live.monitor.monitor import Monitor
from harness.live.monitor.rules import ChangeRule, Rules, Threshold, threshold

__all__ = ["ChangeRule", "Monitor", "Rules", "Threshold", "threshold"]
