"""Sections of a report that packages add through the entry-point group `harness.report_sections`.

An entry point names a function that takes a `ReportContext` and returns a `ReportSection`, or None
where there is nothing to show. The harness declares its own section of answers so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.errors import HarnessError
from harness.io.plugins import FAILURES, failure, load, raised_at
from harness.reports.material import Material, Texts
from harness.reports.records import ReportSection

GROUP = "harness.report_sections"


@dataclass(frozen=True)
class ReportContext:
    """What a section may show: the runs, their dataset, and the texts of the page by number.

    `asked` has the rows of the queries. With `share` no text of the dataset or of a system may be
    shown.
    """

    materials: Sequence[Material]
    asked: npt.NDArray[np.int64]
    texts: Texts
    share: bool

    @property
    def dataset(self) -> Dataset:
        """The dataset of the runs."""
        return self.materials[0].dataset

    @property
    def folders(self) -> list[Path]:
        """The folders of the runs."""
        return [material.run.folder for material in self.materials]


def added_sections(context: ReportContext) -> list[ReportSection]:
    """Return the sections that installed packages add, by name.

    Raises PluginError, which names the package, where one of them fails.
    """
    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        build = load(entry, "report section")
        try:
            section = build(context)
            if section is not None:
                found.append(replace(section, name=entry.name))
        except HarnessError:
            raise
        except FAILURES as error:
            raise failure(entry, "report section", raised_at(error)) from error
    return found
