"""The report as an HTML page, from the object that `report_data` makes."""

from __future__ import annotations

from typing import Any

from harness.report.html import ASSETS, VENDOR, page

STYLES = ("page.css", "report.css")
SCRIPTS = ("page.js", "table.js", "charts.js", "question.js", "questions.js", "report.js")

# Observable Plot draws SVG, which takes the colours of the page and stays sharp on a wall.
LIBRARIES = (("d3-7.9.0.min.js", "d3"), ("plot-0.6.17.umd.min.js", "plot"))


def report_page(data: dict[str, Any]) -> bytes:
    """One self-contained file; needs no network and opens from the disk."""
    systems = " and ".join(run["system"] for run in data["runs"])
    return page(
        f"{systems} on {data['dataset']['name']}",
        ASSETS / "report.html",
        data,
        styles=[ASSETS / name for name in STYLES],
        scripts=[ASSETS / name for name in SCRIPTS],
        libraries=[(VENDOR / code, VENDOR / f"{name}-LICENSE.txt") for code, name in LIBRARIES],
    )
