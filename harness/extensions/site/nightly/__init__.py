"""Nightly lists of runs: summary, changes since the last time, history."""

from harness.extensions.site.nightly.nightly_run import open_nightly_run
from harness.extensions.site.nightly.render import headline, render
from harness.extensions.site.nightly.summary import read_plan, status

__all__ = ["headline", "open_nightly_run", "read_plan", "render", "status"]
