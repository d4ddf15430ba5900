"""Compares two systems in use: by split traffic, or by rankings interleaved for one reader.

`ABTest` routes, records and reports. Randomization units (users, for instance) are routed by a hash
of their id, so that one unit sees one system.
"""

from harness.extensions.online.abtest.ab_test import ABTest, RoutedResult
from harness.extensions.online.abtest.plan import ABTestPlan, Interleaved, team_draft
from harness.extensions.online.abtest.report import SplitReport

__all__ = ["ABTest", "ABTestPlan", "Interleaved", "RoutedResult", "SplitReport", "team_draft"]
