"""Quality of recalls while they are made. Start with `Monitor`."""

from harness.live.monitor.alerts import ChangeRule, Rules, Threshold, threshold
from harness.live.monitor.monitor import Monitor

__all__ = ["ChangeRule", "Monitor", "Rules", "Threshold", "threshold"]
