"""Compares two systems in production: by split traffic or by interleaved rankings.

`ABTest` routes, records and reports. Randomization units (users, for instance) are routed by a hash
of their id, so a unit always sees the same system.
"""

from harness.extensions.online.abtest.ab_test import ABTest, RoutedResult
from harness.extensions.online.abtest.plan import ABTestPlan, Interleaved, team_draft
from harness.extensions.online.abtest.report import SplitReport

__all__ = ["ABTest", "ABTestPlan", "Interleaved", "RoutedResult", "SplitReport", "team_draft"]
