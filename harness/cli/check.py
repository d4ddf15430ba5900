"""Check that a retriever follows the contract.

Index and search small corpora with a retriever, and print what is wrong. Exit status 1 if a check
fails.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict

from harness.cli.options import (
    DatasetOptions,
    add_options,
    add_param,
    parameters,
    prices,
    retriever_spec,
)
from harness.cli.output import add_output, print_json
from harness.io.records import Output, OutputPart
from harness.runs.settings import Settings


class ConformanceCheck(OutputPart):
    """A check of a retriever; `state` is pass, FAIL or note."""

    name: str
    state: str
    message: str
    seconds: float


class CheckOutput(Output, tag="harness.check/1"):
    """harness check."""

    retriever: str
    checks: list[ConformanceCheck]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "retriever", metavar="RETRIEVER", help="a retriever, as for `harness run --retriever`"
    )
    add_param(parser)
    add_options(parser, DatasetOptions, only=("plugin",))
    add_options(parser, Settings, only=("max_usd", "prices"))
    parser.add_argument(
        "--max-calls",
        type=int,
        metavar="N",
        help="stop before more than N documents are indexed and questions asked",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Checks a retriever and prints a line for each check. Raises RunError at a limit."""
    from harness.testing.check_limits import CheckLimits
    from harness.testing.conformance import CHECKS, FAILED, NOTED, PASSED, check

    spec = retriever_spec(options, options.retriever, parameters(options.param))
    outcomes = []
    width = max(map(len, CHECKS))
    limits = CheckLimits(options.max_usd, options.max_calls, prices(options.prices))
    for outcome in check(spec, limits):
        outcomes.append(outcome)
        if not (options.json or options.quiet) or (outcome.state == FAILED and options.quiet):
            print(f"{outcome.state:5} {outcome.name:{width}}  {outcome.message}", flush=True)
    counts = {s: sum(o.state == s for o in outcomes) for s in (PASSED, FAILED, NOTED)}
    if options.json:
        checks = [ConformanceCheck(**asdict(outcome)) for outcome in outcomes]
        print_json(CheckOutput(retriever=spec.name, checks=checks))
    elif not options.quiet:
        said = [f"{counts[PASSED]} passed", f"{counts[FAILED]} failed"]
        if counts[NOTED]:
            said.append(f"{counts[NOTED]} worth knowing")
        if left := len(CHECKS) - len(outcomes):
            said.append(f"{left} not tried")
        print(f"\n{spec.name}: {', '.join(said)}")
        if left:
            params = [word for one in options.param for word in ("--param", one)]
            again = shlex.join(["harness", "check", options.retriever, *params])
            print(f"next: correct `search`, then run `{again}` again")
    return 1 if counts[FAILED] else 0
