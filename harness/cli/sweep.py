"""Tune a retriever's parameters on held-out queries.

Run a retriever with every combination of parameters, choose the best one on a development part of
the queries, and report its result on the others.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import (
    add_options,
    add_param,
    add_view,
    number,
    parameters,
    retriever_spec,
    split_suffix,
    view_arguments,
)
from harness.cli.output import add_output, emit, plain
from harness.errors import UsageError
from harness.io.records import Output
from harness.runs.settings import Settings

if TYPE_CHECKING:
    from harness.analysis.sweep import Chosen, Sweep
    from harness.stats.intervals import MeanInterval
    from harness.stats.paired import PairedComparison


class SweepOutput(Output, tag="harness.sweep/1"):
    """harness sweep; `indexed` counts indexes, null if every run made its own."""

    tried: list[Any]
    chosen: list[Any]
    tuned_on_test: bool
    development: str
    indexed: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("--dataset", metavar="NAME", required=True, help="name of a dataset")
    parser.add_argument(
        "--retriever", metavar="NAME", required=True, help="a retriever, as for `harness run`"
    )
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="NAME=V,V,...",
        help="parameter and its values, comma-separated; repeatable; also k",
    )
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="'NAME=V NAME=V'",
        help="one combination of parameters; repeatable",
    )
    add_param(parser, "parameter with the same value in all runs; repeatable")
    parser.add_argument(
        "--metric", default="recall@10", help="metric to maximise (default: recall@10)"
    )
    parser.add_argument(
        "--protocol", default="", help="protocol of the metric (default: the first that fits)"
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--dev", metavar="SPLIT", help="split to choose on")
    part.add_argument(
        "--dev-share",
        type=number,
        metavar="X",
        help="fraction of the queries to choose on (default: 0.5)",
    )
    part.add_argument(
        "--tune-on-test",
        action="store_true",
        help="choose and report on the same queries (optimistic)",
    )
    add_view(parser)
    add_options(parser, Settings, only=("k", "limit", "seed", "workers"), defaults=True)
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="results/sweep",
        help="folder for the runs (default: results/sweep)",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Sweeps over settings and prints the result."""
    from harness.analysis.sweep import Part, grid, sweep
    from harness.datasets.registry import open_dataset
    from harness.retrievers.registry import RetrieverSpec
    from harness.scoring.metrics import Metric

    if not options.grid and not options.setting:
        raise UsageError("nothing to sweep over; --grid k1=0.9,1.2 or --setting 'k1=0.9 b=0.4'")
    settings = [parameters(one.split()) for one in options.setting]
    if options.grid:
        settings = [*grid(options.grid), *settings]
    swept = {name for setting in settings for name in setting}
    if fixed := swept & {*parameters(options.param), *({"k"} if options.k else ())}:
        raise UsageError(f"{fixed.pop()} is both in the grid and a --param; remove one")
    if twice := next((one for one in settings if settings.count(one) > 1), None):
        raise UsageError(f"the setting {twice} is there twice; a setting is tried once")
    spec = retriever_spec(options, options.retriever, parameters(options.param))
    for setting in settings:
        params = {name: value for name, value in setting.items() if name != "k"}
        RetrieverSpec(spec.name, {**spec.params, **params}, spec.plugins).check()
    view = view_arguments(options)
    dataset = open_dataset(options.dataset, **view)
    part = Part()
    if options.dev:
        dev = options.dev + split_suffix(options)
        part = Part(dataset=open_dataset(options.dataset, **{**view, "split": dev}))
        if part.dataset is not None and part.dataset.fingerprint == dataset.fingerprint:
            raise UsageError(
                f"--dev {options.dev}: is the split that is reported on; --split names it"
            )
    elif not options.tune_on_test:
        part = Part(share=0.5 if options.dev_share is None else options.dev_share)
    found = sweep(
        dataset,
        spec,
        settings,
        Metric.parse(options.metric),
        replace(part, protocol=options.protocol),
        Settings(
            k=dataset.manifest.k if options.k is None else options.k,
            limit=options.limit,
            seed=options.seed,
            workers=options.workers,
        ),
        out=Path(options.out),
    )
    return emit(options, SweepOutput(**plain(found)), lambda: _shown(found, options))


def _shown(found: Sweep, options: argparse.Namespace) -> str:
    from harness.analysis.sweep import said
    from harness.io.terminal import grid

    best = {chosen.place for chosen in found.chosen}
    rows = [
        [
            "best" if place in best else "",
            said(tried.setting),
            tried.metric,
            f"{tried.development.value:.4f}",
            _range(tried.development),
            tried.development.n,
        ]
        for place, tried in enumerate(found.tried)
    ]
    head = ["", "setting", "metric", "development", "95%", "n"]
    lines = [
        f"{options.retriever} on {options.dataset}: {len(rows)} settings on {found.development}",
        grid(rows, head, keys=2),
    ]
    if found.tuned_on_test:
        lines.append(
            f"\nTUNED ON THE TEST: the best of {len(rows)} settings, chosen by the very queries "
            "that\nit is reported on: too high to quote. --dev-share or --dev give one to quote."
        )
    else:
        lines += ["", *(_held_out(found, chosen) for chosen in found.chosen)]
    if found.indexed is not None:
        lines.append(f"{found.indexed} indexes made for {len(rows)} settings")
    lines.append(f"runs in {options.out}")
    return "\n".join(lines)


def _held_out(found: Sweep, chosen: Chosen) -> str:
    from harness.analysis.sweep import said
    from harness.scoring.score_columns import name_clusters

    held: Any = chosen.held_out
    best = found.tried[chosen.place]
    how = f"{held.how}{f' (approximate: {held.note})' if held.approximate else ''}"
    line = (
        f"held out: {said(best.setting)}: {best.metric} {held.value:.4f}, 95% {_range(held)}, "
        f"n {held.n}; {name_clusters(how, 'haystacks' if held.clustered else 'queries')}"
    )
    if chosen.tied:
        line += f"\n  {chosen.tied} other settings were as good on the development part"
    if (against := chosen.difference) is not None and chosen.against is not None:
        other = said(found.tried[chosen.against].setting)
        line += (
            f"\n  against {other}: {against.difference.value:+.4f}, 95% "
            f"{_range(against.difference, '+')}, p {against.test.p:.4f}; {_could_show(against)}"
        )
    return line


def _could_show(found: PairedComparison) -> str:
    """Describes the smallest detectable difference of the test, or why it has none."""
    least, power = found.test.smallest, found.power
    if not (found.wins or found.losses):
        return "the same in both"
    if power.detectable <= 1:
        return f"could have shown {power.detectable:.4f} at {power.power:.0%} power"
    if least > 1 - power.level:
        return f"nothing could have been shown (least p {least:.3g})"
    alike = math.isnan(power.detectable)
    return "all differ alike" if alike else f"could have shown none at {power.power:.0%} power"


def _range(interval: MeanInterval, sign: str = "") -> str:
    if math.isnan(interval.low):
        return "unknown"
    return f"{interval.low:{sign}.4f} to {interval.high:{sign}.4f}"
