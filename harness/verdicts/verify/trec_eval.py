"""pytrec_eval, and the program trec_eval, as witnesses of the metrics that they have."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from harness.errors import UsageError
from harness.verdicts.verify.formulas import Metric

MEASURES = {
    "recall": "recall",
    "hit": "success",
    "precision": "P",
    "map": "map",
    "ndcg": "ndcg",
    "mrr": "recip_rank",
    "rprec": "Rprec",
}
"""Ours -> trec_eval's; with a cut-off `map` and `ndcg` are map_cut and ndcg_cut there. There is no
recip_rank_cut: of mrr@k the ranking is cut at k."""

_CHUNK = 500  # queries that pytrec_eval is given at a time


@dataclass(frozen=True)
class Case:
    """One query as trec_eval is given it: grades by document, and documents best first.

    `scores` are the system's own where trec_eval is to order equals by its rule, else n, n-1, ...
    """

    grades: Mapping[str, int]
    documents: Sequence[str]
    scores: Sequence[float]


Group = tuple[int, int | None]
"""What is one call: the grade from which on is relevant, and where the ranking is cut."""

Values = dict[str, dict[str, float]]
"""Metric as printed -> query -> value."""


Called = Mapping[str, Mapping[str, float]]
"""What one call printed: query -> measure as printed -> value."""

Call = Callable[[Mapping[str, Case], Mapping[Group, Sequence[str]]], Iterator[tuple[Group, Called]]]
"""The measures of each group, of all cases."""


@dataclass(frozen=True)
class Tool:
    """A program that computes trec_eval's measures.

    `ties`: its own rule for equal scores; `decimals`: how many it prints, None where it gives whole
    doubles.
    """

    name: str
    ties: str
    decimals: int | None
    call: Call

    def values(self, metrics: Mapping[str, Metric], cases: Mapping[str, Case]) -> Values:
        """Its values of those metrics that it has, for every case."""
        groups: dict[Group, dict[str, str]] = {}
        for text, metric in metrics.items():
            if metric.name not in MEASURES:
                continue
            rel = 1 if metric.name == "ndcg" else metric.rel  # which keeps the grades
            cut = metric.k if metric.name == "mrr" else None
            groups.setdefault((rel, cut), {})[text] = measure(metric)
        asked = {group: _asked(wanted.values()) for group, wanted in groups.items()}
        found: Values = {}
        for group, called in self.call(cases, asked):
            for text, name in groups[group].items():
                printed = name.replace(".", "_")
                if all(printed in values for values in called.values()):
                    # A query that the run lacks is not printed, and counts 0.
                    found[text] = {q: called[q][printed] if q in called else 0.0 for q in cases}
        return found


def measure(metric: Metric) -> str:
    """As trec_eval is asked for it: `ndcg_cut.10`."""
    name = MEASURES[metric.name]
    if metric.k is None or metric.name == "mrr":
        return name
    return f"{name}_cut.{metric.k}" if name in ("map", "ndcg") else f"{name}.{metric.k}"


def _asked(measures: Iterable[str]) -> list[str]:
    """Each measure once, with all its cut-offs: trec_eval takes `P.5,10`, but not P.5 and P.10."""
    cuts: dict[str, list[str]] = {}
    for name, _, cut in (one.partition(".") for one in measures):
        cuts.setdefault(name, []).append(cut)
    return [f"{name}.{','.join(mine)}" if all(mine) else name for name, mine in cuts.items()]


def tools(program: Path | None, folder: Path) -> list[Tool]:
    """Those that are here: pytrec_eval, and `program` or what PATH calls trec_eval.

    What the program reads is written into `folder`. Raises UsageError for a `program` that is none.
    """
    found = []
    if find_spec("pytrec_eval") is not None:
        found.append(Tool(_packaged(), "trec", None, _pytrec_eval))
    on_path = shutil.which("trec_eval")
    if program is not None or on_path is not None:
        found.append(_program(program or Path(str(on_path)), folder))
    return found


def _packaged() -> str:
    for name in ("pytrec-eval-terrier", "pytrec-eval"):
        try:
            return f"pytrec_eval {version(name)}"
        except PackageNotFoundError:
            continue
    return "pytrec_eval"


def _pytrec_eval(
    cases: Mapping[str, Case], asked: Mapping[Group, Sequence[str]]
) -> Iterator[tuple[Group, Called]]:
    import pytrec_eval

    names = list(cases)
    for (rel, cut), measures in asked.items():
        found: dict[str, Mapping[str, float]] = {}
        for start in range(0, len(names), _CHUNK):
            part = {q: cases[q] for q in names[start : start + _CHUNK]}
            qrels = {q: dict(case.grades) for q, case in part.items()}
            run = {
                q: dict(zip(case.documents[:cut], case.scores[:cut], strict=True))
                for q, case in part.items()
                if case.documents
            }
            evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(measures), relevance_level=rel)
            found |= evaluator.evaluate(run)
        yield (rel, cut), found


def _program(program: Path, folder: Path) -> Tool:
    """The program, asked for its version first: which rule it has for equal scores."""
    said = _run([str(program), "-v"], program)
    number = re.search(r"trec_eval version ([\d.]*\d)", said)
    if number is None:
        raise UsageError(f"{program}: is not trec_eval: with -v it says {said.strip()[:60]!r}")
    ties = "trec64" if int(number[1].partition(".")[0]) >= 10 else "trec"

    def call(
        cases: Mapping[str, Case], asked: Mapping[Group, Sequence[str]]
    ) -> Iterator[tuple[Group, Called]]:
        files = [str(path) for path in _write(cases, folder)]
        for (rel, cut), measures in asked.items():
            cuts = [] if cut is None else [f"-M{cut}"]
            wanted = [part for name in measures for part in ("-m", name)]
            found: dict[str, dict[str, float]] = {}
            command = [str(program), "-q", f"-l{rel}", *cuts, *wanted, *files]
            for name, query, value in map(str.split, _run(command, program).splitlines()):
                if query != "all":
                    found.setdefault(query, {})[name] = float(value)
            yield (rel, cut), found

    return Tool(f"trec_eval {number[1]}", ties, 4, call)


def _write(cases: Mapping[str, Case], folder: Path) -> tuple[Path, Path]:
    """The cases as the two files that trec_eval reads: judgements and rankings."""
    qrels, run = folder / "qrels", folder / "run"
    with open(qrels, "w", encoding="utf-8") as file:
        for query, case in cases.items():
            file.writelines(f"{query} 0 {d} {grade}\n" for d, grade in case.grades.items())
    with open(run, "w", encoding="utf-8") as file:
        for query, case in cases.items():
            rows = enumerate(zip(case.documents, case.scores, strict=True), 1)
            file.writelines(f"{query} Q0 {d} {rank} {score!r} run\n" for rank, (d, score) in rows)
    return qrels, run


def _run(command: Sequence[str], program: Path) -> str:
    """What a program prints. Raises UsageError where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"{program}: cannot be run ({error.strerror})") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(
            f"{program}: ended with status {done.returncode}: {said[-1] if said else ''}"
        )
    return done.stdout + done.stderr


def can_carry(cases: Mapping[str, Case]) -> bool:
    """Whether the ids can stand in trec_eval's files: none is empty, holds white space, or is the
    `all` of its averages."""
    ids = (i for q, case in cases.items() for i in (q, *case.documents, *case.grades))
    return "all" not in cases and all(len(id_.split()) == 1 and id_.strip() == id_ for id_ in ids)
