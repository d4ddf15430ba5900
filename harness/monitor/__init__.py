"""Quality of recalls while they are made. Start with `Monitor`."""

from harness.monitor.monitor import Monitor as Monitor
from harness.monitor.rules import ChangeRule as ChangeRule
from harness.monitor.rules import Rules as Rules
from harness.monitor.rules import Threshold as Threshold
from harness.monitor.rules import threshold as threshold
