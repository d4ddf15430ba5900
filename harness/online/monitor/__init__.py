"""Monitoring of retrieval requests in use. Start with `Monitor`."""

from harness.online.monitor.monitor import Monitor
from harness.online.monitor.rules import ChangeRule, Rules, Threshold, parse_threshold

__all__ = ["ChangeRule", "Monitor", "Rules", "Threshold", "parse_threshold"]
