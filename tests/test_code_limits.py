"""Limits that keep the code small and easy to search; the reasons are in CONTRIBUTING.md."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from places import ROOT

HARNESS = ROOT / "harness"

LINES = {
    "adapters": 6_420,
    "harness/analysis": 7_370,
    "harness/cli": 5_350,
    "harness/datasets": 3_640,
    "harness/extensions/answers": 5_880,
    "harness/extensions/cluster": 840,
    "harness/extensions/dense": 1_660,
    "harness/extensions/integrations": 3_430,
    "harness/extensions/labelling": 6_220,
    "harness/extensions/online": 7_070,
    "harness/extensions/sandbox": 720,
    "harness/extensions/site": 2_720,
    "harness/io": 1_950,
    "harness/records": 1_470,
    "harness/reports": 2_320,
    "harness/retrievers": 5_280,
    "harness/runfiles": 2_570,
    "harness/runs": 6_010,
    "harness/scoring": 6_510,
    "harness/stats": 2_890,
    "harness/testing": 1_790,
}
"""The most lines of Python in each package. Whoever removes lines may lower them."""


def _sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.py") if "vendor" not in path.parts]


def test_the_first_level_of_the_harness_has_at_most_15_names() -> None:
    hidden = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    names = {path.name for path in HARNESS.iterdir()} - hidden
    assert len(names) <= 15, sorted(names)


@pytest.mark.parametrize("package", LINES)
def test_a_package_has_no_more_lines_than_its_limit(package: str) -> None:
    lines = sum(len(path.read_bytes().splitlines()) for path in _sources(ROOT / package))
    assert lines <= LINES[package], (
        f"{package} has {lines} lines: remove some, or raise its limit here and say why"
    )


def test_each_package_has_a_limit() -> None:
    packages = [path for path in HARNESS.iterdir() if (path / "__init__.py").is_file()]
    packages += (HARNESS / "extensions").iterdir()
    found = {
        str(path.relative_to(ROOT))
        for path in packages
        if (path / "__init__.py").is_file() and path.name != "extensions"
    }
    assert found | {"adapters"} == set(LINES)


def test_a_class_name_is_used_once() -> None:
    """So that a search for it finds the class."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in [*_sources(HARNESS), *_sources(ROOT / "adapters")]:
        if (HARNESS / "datasets" / "adapters") in path.parents:  # a link to adapters/
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
