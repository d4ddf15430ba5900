"""`harness score --semantic`: its options, the sets without ids, and the table below the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import print_json
from harness.cli.run_summary_lines import ends
from harness.errors import UsageError
from harness.io.records import Output
from harness.io.terminal import digits
from harness.records.scores import SemanticResult

if TYPE_CHECKING:
    from harness.records.scores import Estimate, Interval, SemanticVersusIds

_ROWS = {
    "semantic_recall": "recall",
    "semantic_precision": "precision, of k",
    "soft_recall": "soft recall",
    "soft_precision": "soft precision, of those returned",
}
_NOT_HERE = ("protocol", "metrics", "ties", "answers", "match_f1", "match_semantic", "out", "log")
_DEFAULT = "default"


class ScoreExpectedOutput(Output, tag="harness.score-expected/1"):
    """Output of harness score --expected; `semantic` as in scores.json."""

    semantic: SemanticResult


def add_semantic(parser: argparse.ArgumentParser) -> None:
    """Adds the options `--semantic` and `--expected`."""
    parser.add_argument(
        "--semantic",
        nargs="?",
        const=_DEFAULT,
        metavar="COSINE",
        help="also score by semantic similarity; texts match from this MiniLM cosine (default: "
        "0.7); give it after RUNFILE",
    )
    parser.add_argument(
        "--expected",
        metavar="FILE",
        help='file with expected texts, for results without ids: lines of {"query": id, '
        '"texts": [...]}; RUNFILE has returned texts in the same format',
    )


def threshold(options: argparse.Namespace) -> float | None:
    """Returns the cosine of `--semantic`; None if semantic scores are off. Raises UsageError."""
    if options.semantic is None and not options.expected:
        return None
    from harness.extensions.answers.semantic.accuracy import THRESHOLD, check_threshold

    if options.semantic in (None, _DEFAULT):
        return THRESHOLD
    try:
        value = float(options.semantic)
    except ValueError:
        raise UsageError(
            f"--semantic takes a cosine, not {options.semantic!r}; put RUNFILE before it"
        ) from None
    check_threshold(value)
    return value


def score_expected(options: argparse.Namespace, path: Path) -> int:
    """Scores a file of texts against a file of expected texts, and prints the result."""
    from harness.cli.options import cut_offs
    from harness.extensions.answers.semantic.expected import semantic_of_files
    from harness.extensions.answers.semantic_folder import KS, minilm

    for name in ("dataset", "qrels"):
        if getattr(options, name):
            raise UsageError(f"--expected and --{name} exclude each other; name one")
    for name in _NOT_HERE:
        if getattr(options, name, None):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} does not go with --expected, which knows texts alone")
    if path.is_dir():
        raise UsageError(f"{path}: a folder; with --expected, RUNFILE is a file of texts")
    ks = cut_offs(options.ks)
    if not ks:
        ks = tuple(k for k in KS if options.k is None or k <= options.k) or (1,)
    least = threshold(options)
    assert least is not None
    found, notes = semantic_of_files(
        path,
        Path(options.expected),
        find_model=minilm,
        ks=ks,
        threshold=least,
        missing=options.missing or "zero",
        strict=options.strict,
    )
    for note in notes:
        print(f"warning: {path}: {note}", file=sys.stderr)
    if options.json:
        print_json(ScoreExpectedOutput(semantic=found))
    elif not options.quiet:
        print(semantic_table(found))
        first = f"semantic_recall@{_shown_k(found)}"
        print(f"\nsignature of {first}, all: {found.results.overall[first].signature}")
    return 0


def semantic_table(found: SemanticResult) -> str:
    """Formats the semantic section of scores.json as a table: one cut-off, over all queries."""
    from harness.io.terminal import grid

    results, versus = found.results.overall, found.versus_ids or {}
    if not results:
        return "semantic: no query has evidence with a text"
    k = _shown_k(found)
    rows = []
    for metric, title in _ROWS.items():
        result = results[f"{metric}@{k}"]
        row = [title, digits(result.value), _range(result.interval)]
        row.append(digits(result.random_baseline))
        if versus:
            row += _versus_ids(versus.get(f"{metric}@{k}"))
        rows.append(row)
    headers = [f"semantic, k = {k}", "value", "95%", "random"]
    if versus:
        headers += ["by ids", "difference", "Pearson r", "Spearman rho"]
    table = grid(rows, headers)
    return "\n".join([table, *_below(found, versus.get(f"semantic_recall@{k}"))])


def _below(found: SemanticResult, versus: SemanticVersusIds | None) -> list[str]:
    """Returns the notes below the table: method, exclusions, and the caveat on use."""
    n = found.results.slices["all"].n
    source = found.random_source
    kind = "a seeded sample of" if source.sampled else "all"
    of = "documents" if found.checked_against_ids else "distinct texts that were returned"
    lines = [
        f"n {n}; similar is cosine >= {found.threshold:g} by {found.model}; random baseline: "
        f"random texts from {kind} {source.texts:,} {of}"
    ]
    intervals = [one.interval for one in found.results.overall.values() if one.interval]
    if approximate := {one.approximate for one in intervals if one.approximate}:
        lines.append(f"intervals are approximate: {'; '.join(sorted(approximate))}")
    if versus is not None:
        lines.append(
            f"by ids, difference and correlation: over the {versus.n} queries that have both"
        )
        if note := versus.pearson.note:
            lines.append(f"correlation over {versus.pearson.cluster_by}: {note}")
    if found.excluded:
        from harness.scoring.scores import excluded_message

        lines.append(excluded_message(found.excluded))
    lines.append(found.description)
    return lines


def _versus_ids(versus: SemanticVersusIds | None) -> list[str]:
    if versus is None:
        return ["", "", "", ""]
    return [
        digits(versus.mean_by_ids),
        f"{versus.difference.value:+.4f} {_bounds(versus.difference, '+.3f')}".rstrip(),
        *(
            f"{'-' if one.value is None else f'{one.value:.2f}'} {_bounds(one, '.2f')}"
            for one in (versus.pearson, versus.spearman)
        ),
    ]


def _shown_k(found: SemanticResult) -> int:
    return 10 if 10 in found.ks else found.ks[-1]


def _bounds(estimate: Estimate, form: str) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"({estimate.low:{form}} to {estimate.high:{form}})"


def _range(interval: Interval | None) -> str:
    return "-" if interval is None else ends(interval.low, interval.high)
