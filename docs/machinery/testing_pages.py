"""Counts of the repository's tests by kind, read from their source when the site is built."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from listing_pages import table

TESTS = Path(__file__).parents[2] / "tests"
_REFERENCES = re.compile(
    r"^\s*(?:import|from) (?:beir|bm25s|ir_datasets|ir_measures|krippendorff|mteb|nltk|pytrec_eval|"
    r"rank_bm25|ranx|reference|rouge_score|sacrebleu|scipy|sklearn|statsmodels|tantivy)\b",
    re.M,
)
_VERDICT = re.compile(r"^\|.*\| (holds|flagged|\*\*fails\*\*) \|$", re.M)


@dataclass(frozen=True)
class CountedTest:
    """A test function, its decorators and the markers of its module."""

    decorators: str
    is_compared: bool

    def has(self, name: str) -> bool:
        """Returns whether a marker or decorator applies to the test."""
        return re.search(rf"\b{name}\b", self.decorators) is not None


def kinds() -> str:
    """Returns a table of the kinds of tests and their numbers of test functions."""
    rows: list[tuple[str, str, Callable[[CountedTest], bool]]] = [
        ("all", "a parametrised function counts once", lambda test: True),
        ("reference implementation", "in files that import one of them", lambda t: t.is_compared),
        ("property", "Hypothesis generates the inputs", lambda test: test.has("given")),
        *((name, about, _marked(name)) for name, about in _MARKERS.items()),
    ]
    return table(
        ("tests", "what they are", "functions"),
        [(name, about, f"{sum(map(holds, _functions())):,}") for name, about, holds in rows],
    )


def golden() -> str:
    """Returns the number of golden runs."""
    frozen = json.loads((TESTS / "golden/frozen/rankings.json").read_text("utf-8"))
    return f"Golden runs: {len(frozen['rankings'])}."


def simulations() -> str:
    """Returns the number of simulated cases by verdict."""
    verdicts = _VERDICT.findall((TESTS / "benchmarks/claims.md").read_text("utf-8"))
    holds, flagged = verdicts.count("holds"), verdicts.count("flagged")
    fails = len(verdicts) - holds - flagged
    return (
        f"Simulated cases: {len(verdicts)}. The claim holds in {holds}, holds only where the "
        f"result is flagged as approximate in {flagged}, and fails in {fails}."
    )


_MARKERS = {
    "slow": "real sizes and long simulations",
    "systems": "real stores, frameworks, memories and a small language model",
    "browser": "pages in Chromium and Firefox",
    "packaging": "wheel, sdist and editable install",
    "dense": "embedding models with torch",
    "ray": "runs on a Ray cluster with killed processes",
    "docs": "code blocks of these pages, run in order; one function, one case per page",
    "faults": "kills, full disks, damaged files and hostile code",
}


def _marked(name: str) -> Callable[[CountedTest], bool]:
    return lambda test: test.has(rf"mark\.{name}")


@cache
def _functions() -> tuple[CountedTest, ...]:
    return tuple(test for path in sorted(TESTS.rglob("test_*.py")) for test in _of_file(path))


def _of_file(path: Path) -> Iterator[CountedTest]:
    text = path.read_text("utf-8")
    module = ast.parse(text)
    shared = " ".join(
        ast.unparse(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    )
    compared = _REFERENCES.search(text) is not None
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            decorators = " ".join([shared, *map(ast.unparse, node.decorator_list)])
            yield CountedTest(decorators, compared)
