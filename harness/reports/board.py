"""Builds the boards as an HTML page."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import asdict, replace

import harness
from harness.analysis.board.entries import SLICES, distinct_params, labels
from harness.analysis.board.leaderboard import PairsByBoard, build, write_boards
from harness.analysis.board.ranks import KnownRanges, compare_pairs
from harness.analysis.board.records import (
    Board,
    BoardProtocol,
    Entry,
    ProtocolKey,
    RankedResult,
)
from harness.analysis.board.summary import board_id, six_digits, title
from harness.analysis.claims import Claim
from harness.io.files import disk_errors, write_bytes
from harness.io.records import to_plain
from harness.reports.html import metric_order, page
from harness.reports.records import (
    BoardHead,
    BoardPart,
    MetricBounds,
    PageData,
    PageEntry,
    PageMetric,
    PageProtocol,
)
from harness.schema import Ability
from harness.scoring.protocols import PROTOCOLS

_REPORT = "report.html"  # where `harness report` writes it in a run's folder
_RESULTS = "results"  # the default folder of commands

Claims = Callable[[Board], Sequence[Claim]]
"""Returns the claims that are shown with a board."""


def build_boards(
    results: Path, claims: Claims | None
) -> tuple[list[Board], dict[str, str], PairsByBoard]:
    """Builds the boards with their claims, the reasons why runs cannot be read, and the pairs."""
    known: KnownRanges = {}
    boards, broken = build(results, known)
    if claims is not None:
        boards = [replace(board, claims=list(claims(board))) for board in boards]
    pairs = {board_id(one): compare_pairs(results, one, known=known) for one in boards}
    return boards, broken, pairs


def write_board(
    results: Path, out: Path, claims: Claims | None = None
) -> tuple[list[Board], dict[str, str]]:
    """Builds the boards of the runs below `results`, writes them to `out` and a page next to it.

    Returns the boards, and the errors of runs that cannot be read, by name, which the page shows
    too. `out` is a summary of the boards; all other data is in a folder next to it. The page links
    to the reports in the run folders. Raises UsageError as `build` does, and if `out` cannot be
    written.
    """
    boards, broken, pairs = build_boards(results, claims)
    found = sorted(results.glob(f"[!.]*/{_REPORT}"))
    reports = {file.parent.name: os.path.relpath(file, out.parent) for file in found}
    folder = os.path.relpath(results)
    html = board_page(boards, pairs=pairs, broken=broken, reports=reports, results=folder)
    with disk_errors(out.parent, "name another file with --out"):
        write_boards(out, boards, pairs)
        write_bytes(out.with_suffix(".html"), html)
    return boards, broken


def board_page(
    boards: Sequence[Board],
    *,
    pairs: PairsByBoard | None = None,
    broken: Mapping[str, str] | None = None,
    reports: Mapping[str, str] | None = None,
    results: str = _RESULTS,
    live: bool = False,
) -> bytes:
    """Draws one self-contained file of `page_data`; a `live` page polls its server for changes.

    Each board, and the pairs of each, is compressed separately and read when it is chosen, so ten
    boards open as fast as one. A live page requests them from its server.
    """
    data, parts = page_data(boards, broken=broken, reports=reports, results=results)
    if live:
        return page("Leaderboard", "board", to_plain(data), live=True)
    beside = {f"pairs-{name}": one for name, one in (pairs or {}).items() if one is not None}
    return page("Leaderboard", "board", to_plain(data), parts=to_plain({**parts, **beside}))


def page_data(
    boards: Sequence[Board],
    *,
    broken: Mapping[str, str] | None = None,
    reports: Mapping[str, str] | None = None,
    results: str = _RESULTS,
) -> tuple[PageData, dict[str, BoardPart]]:
    """Returns the initial data of the page, boards of most runs first, and the part of each board.

    `reports` are the addresses of the reports of runs, and `results` is the folder as a command is
    to name it.
    """
    ordered = sorted(boards, key=lambda one: -len(one.entries))
    heads = [
        BoardHead(
            id=board_id(board),
            title=title(board),
            runs=len(board.entries),
            systems=sorted({*labels(board.entries), *(one.system for one in board.entries)}),
            dataset=board.dataset,
            depth=board.depth,
            queries=board.queries,
            scoring=board.scoring,
        )
        for board in ordered
    ]
    data = PageData(
        harness=harness.__version__,
        boards=heads,
        broken=dict(broken or {}),
        options="" if results == _RESULTS else f" --results {shlex.quote(results)}",
    )
    parts = {
        f"board-{head.id}": BoardPart(
            protocols=_protocols(board.entries),
            entries=_entries(board.entries, reports or {}),
            answers=board.answers,
            claims=board.claims,
        )
        for head, board in zip(heads, ordered, strict=True)
    }
    return data, parts


def _entries(entries: Sequence[Entry], reports: Mapping[str, str]) -> list[PageEntry]:
    systems = [entry.system for entry in entries]
    return [
        PageEntry(
            **asdict(entry) | {"protocols": [_short_protocol(one) for one in entry.protocols]},
            label=label,
            distinct_params=params,
            sole=systems.count(entry.system) == 1,
            report=reports.get(entry.run),
        )
        for entry, label, params in zip(
            entries, labels(entries), distinct_params(entries), strict=True
        )
    ]


def _short_protocol(protocol: BoardProtocol) -> BoardProtocol:
    return replace(
        protocol,
        slices={
            name: {metric: _short(result) for metric, result in found.items()}
            for name, found in protocol.slices.items()
        },
    )


def _short(result: RankedResult) -> RankedResult:
    """Shortens the numbers of a result, which make most of a page's size, to what it shows.

    The page has the random baseline and upper bound once for all entries of a board.
    """
    interval = result.interval
    return RankedResult(
        value=six_digits(result.value),
        n=result.n,
        interval=interval
        and replace(interval, low=float(f"{interval.low:.6g}"), high=float(f"{interval.high:.6g}")),
        answered_only=result.answered_only,
        unmeasurable=result.unmeasurable,
        rank=result.rank,
        rank_note=result.rank_note,
    )


def _protocols(entries: Sequence[Entry]) -> list[PageProtocol]:
    """Returns the protocols of a board; a page opens with the first.

    That is `memory` if there are several abilities, else `trec`. Documents precede the sessions
    that they were taken from.
    """
    found: dict[ProtocolKey, list[BoardProtocol]] = {}
    for entry in entries:
        for protocol in entry.protocols:
            found.setdefault(protocol.key, []).append(protocol)
    several = [(key.protocol, key.level) for key in found]
    protocols = []
    for key, members in found.items():
        repeated = several.count((key.protocol, key.level)) > 1
        more = f", ties {key.ties}, missing {key.missing}" if repeated else ""
        slices = [name for name in SLICES if any(name in one.slices for one in members)]
        metrics = {m: None for one in members for part in one.slices.values() for m in part}
        known = PROTOCOLS.get(key.name)
        protocols.append(
            PageProtocol(
                name=f"{key.protocol}, {key.level}{more}",
                key=key,
                official=known.source if known else "",
                slices=slices,
                metrics=[
                    PageMetric(name=m, family=family, k=int(k) if k else None)
                    for m in sorted(metrics, key=metric_order)
                    for family, _, k in [m.partition("@")]
                ],
                bounds={name: _bounds(members, name, metrics) for name in slices},
            )
        )
    return sorted(protocols, key=_protocol_order)


def _protocol_order(one: PageProtocol) -> tuple[bool, bool, str]:
    abilities = set(one.slices) & set(Ability)
    first = "memory" if len(abilities) > 1 else "trec"
    return (one.key.name != first, ">" in one.key.level, one.name)


def _bounds(
    protocols: Iterable[BoardProtocol], name: str, metrics: Iterable[str]
) -> dict[str, MetricBounds]:
    """Collects the bounds of each metric over one slice; skips metrics without any."""
    bounds = {}
    for metric in metrics:
        found = [one.slices.get(name, {}).get(metric) for one in protocols]
        results = [result for result in found if result is not None]
        of_metric = MetricBounds(
            random_baseline=_ends(result.random_baseline for result in results),
            upper_bound=_ends(result.upper_bound for result in results),
            upper_bound_method=next(filter(None, (r.upper_bound_method for r in results)), ""),
        )
        if of_metric != MetricBounds():
            bounds[metric] = of_metric
    return bounds


def _ends(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
