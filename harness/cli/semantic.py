"""`harness score --semantic`: its options, the sets without ids, and the table below the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from harness.cli.output import print_json
from harness.cli.summary_notes import ends
from harness.errors import UsageError

_ROWS = {
    "semantic_recall": "recall",
    "semantic_precision": "precision, of k",
    "soft_recall": "soft recall",
    "soft_precision": "soft precision, of those returned",
}
_NOT_HERE = ("protocol", "metrics", "ties", "answers", "match_f1", "match_semantic", "out", "log")
_DEFAULT = "default"


def add_semantic(parser: argparse.ArgumentParser) -> None:
    """Accuracy by similarity of texts."""
    parser.add_argument(
        "--semantic",
        nargs="?",
        const=_DEFAULT,
        metavar="COSINE",
        help="accuracy by similarity of texts too, from this cosine of MiniLM's vectors on (0.7); "
        "put it behind RUNFILE",
    )
    parser.add_argument(
        "--expected",
        metavar="FILE",
        help="texts that should be found, where there are no ids: lines of "
        '{"query": id, "texts": [...]}; RUNFILE has the same of what was returned',
    )


def threshold(options: argparse.Namespace) -> float | None:
    """The cosine of `--semantic`; None where it is not asked for. Raises UsageError."""
    if options.semantic is None and not options.expected:
        return None
    from harness.scoring.semantic.accuracy import THRESHOLD, check_threshold

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
    """Score a file of texts against a file of expected texts, and print."""
    from harness.cli.options import cut_offs
    from harness.runs.folder.semantic import KS, minilm
    from harness.scoring.semantic.expected import semantic_of_files

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
        print_json("score-expected", {"semantic": found})
    elif not options.quiet:
        print(semantic_table(found))
        metrics = found["slices"]["all"]["metrics"]
        first = f"semantic_recall@{_shown_k(found)}"
        print(f"\nsignature of {first}, all: {metrics[first]['signature']}")
    return 0


def semantic_table(found: dict[str, Any]) -> str:
    """The section of scores.json for a person: one cut-off, over all queries."""
    from harness.scoring.grid import grid

    if "all" not in found["slices"]:
        return "semantic: no query has evidence with a text"
    k = _shown_k(found)
    cells, beside = found["slices"]["all"]["metrics"], found["beside_ids"] or {}
    rows = []
    for metric, title in _ROWS.items():
        cell = cells[f"{metric}@{k}"]
        row = [title, _number(cell["value"]), _range(cell.get("interval"))]
        row.append(_number(cell.get("chance")))
        if beside:
            row += _beside(beside.get(f"{metric}@{k}"))
        rows.append(row)
    headers = [f"semantic, k = {k}", "value", "95%", "chance"]
    if beside:
        headers += ["by ids", "difference", "Pearson r", "Spearman rho"]
    table = grid(rows, headers)
    return "\n".join([table, *_below(found, beside.get(f"semantic_recall@{k}"))])


def _below(found: dict[str, Any], beside: dict[str, Any] | None) -> list[str]:
    """How it was measured, and that it is no substitute."""
    n = found["slices"]["all"]["n"]
    source = found["chance_from"]
    kind = "a seeded sample of" if source["sampled"] else "all"
    of = "documents" if found["checked_against_ids"] else "distinct texts that were returned"
    lines = [
        f"n {n}; similar is cosine >= {found['threshold']:g} by {found['model']}; chance is random "
        f"texts from {kind} {source['texts']:,} {of}"
    ]
    intervals = [cell.get("interval") for cell in found["slices"]["all"]["metrics"].values()]
    rough = {one["rough"] for one in intervals if one and one.get("rough")}
    if rough:
        lines.append(f"intervals are rough: {'; '.join(sorted(rough))}")
    if beside is not None:
        lines.append(
            f"by ids, difference and correlation: over the {beside['n']} queries that have both"
        )
        if note := beside["pearson"]["note"]:
            lines.append(f"correlation over {beside['pearson']['over']}: {note}")
    if found["left_out"]:
        said = (f"{count} {reason}" for reason, count in found["left_out"].items())
        lines.append(f"not in this table: {'; '.join(said)}")
    lines.append(found["about"])
    return lines


def _beside(cell: dict[str, Any] | None) -> list[str]:
    if cell is None:
        return ["", "", "", ""]
    difference = cell["difference"]
    return [
        _number(cell["mean_by_ids"]),
        f"{difference['value']:+.4f} {_signed(difference)}".rstrip(),
        *(f"{_two(cell[kind]['value'])} {_ends(cell[kind])}" for kind in ("pearson", "spearman")),
    ]


def _shown_k(found: dict[str, Any]) -> int:
    ks: list[int] = found["ks"]
    return 10 if 10 in ks else ks[-1]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _ends(cell: dict[str, Any]) -> str:
    if cell["low"] is None:
        return ""
    return f"({cell['low']:.2f} to {cell['high']:.2f})"


def _signed(cell: dict[str, Any]) -> str:
    if cell["low"] is None:
        return ""
    return f"({cell['low']:+.3f} to {cell['high']:+.3f})"


def _range(interval: dict[str, Any] | None) -> str:
    if interval is None:
        return "-"
    return ends(interval["low"], interval["high"])
