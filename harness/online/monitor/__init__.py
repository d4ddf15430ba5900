"""Quality of requests while they are made. Start with `Monitor`."""

from harness.online.monitor.monitor import Monitor
from harness.online.monitor.rules import ChangeRule, Rules, Threshold, threshold

__all__ = ["ChangeRule", "Monitor", "Rules", "Threshold", "threshold"]
