"""Which of two systems is better in use: split traffic, or rankings interleaved for one reader.

`ABTest` routes, records and reports. Units (users, or whatever is dealt to an arm as a whole) are
dealt by a hash of their id, so that one unit sees one system.
"""

from harness.live.abtest.ab_test import ABTest, Answer
from harness.live.abtest.plan import Plan
from harness.live.abtest.routing import Interleaved, team_draft
from harness.live.abtest.split_report import SplitReport

__all__ = ["ABTest", "Answer", "Interleaved", "Plan", "SplitReport", "team_draft"]
