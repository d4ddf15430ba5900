"""Monitoring of retrieval requests in use. Start with `Monitor`."""

from harness.extensions.online.monitor.monitor import Monitor
from harness.extensions.online.monitor.rules import (
    AlertRules,
    AlertThreshold,
    ChangeRule,
    parse_threshold,
)

__all__ = ["AlertRules", "AlertThreshold", "ChangeRule", "Monitor", "parse_threshold"]
