"""The report as an HTML page, from the object that `report_data` makes."""

from __future__ import annotations

from typing import Any

from harness.pages.html import ASSETS, VENDOR, page

STYLES = ("shared/colours.css", "shared/page.css", "report/report.css", "report/questions.css")
SCRIPTS = (
    *("shared/page.js", "report/table.js", "shared/charts.js", "report/metric_charts.js"),
    *("report/cost_charts.js", "report/abilities.js", "report/depth.js", "report/others.js"),
    *("report/question.js", "report/questions.js", "report/report.js"),
)

# Observable Plot draws SVG, which takes the colours of the page and stays sharp on a wall.
LIBRARIES = (("d3-7.9.0.min.js", "d3"), ("plot-0.6.17.umd.min.js", "plot"))


def report_page(data: dict[str, Any]) -> bytes:
    """One self-contained file; needs no network and opens from the disk."""
    return page(
        title(data),
        ASSETS / "report" / "report.html",
        data,
        styles=[ASSETS / name for name in STYLES],
        scripts=[ASSETS / name for name in SCRIPTS],
        libraries=[(VENDOR / code, VENDOR / f"{name}-LICENSE.txt") for code, name in LIBRARIES],
    )


def title(data: dict[str, Any]) -> str:
    """What a report is about: `bm25 on locomo`."""
    systems = " and ".join(run["system"] for run in data["runs"])
    return f"{systems} on {data['dataset']['name']}"
