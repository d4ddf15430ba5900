"""harness check: does a retriever keep the contract?"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict

from harness.cli.options import Verbs, parameters, retriever_spec


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "check",
        help="check a retriever against the contract",
        description="Index and ask small corpora, say what is wrong. Status 1 when a check fails.",
        allow_abbrev=False,
    )
    parser.add_argument("retriever", metavar="RETRIEVER", help="as for `harness run --retriever`")
    parser.add_argument(
        "--param", action="append", default=[], metavar="KEY=VALUE", help="for its constructor"
    )
    parser.add_argument("--plugin", action="append", metavar="FILE.py", help="registers retrievers")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Check and print, a line a check."""
    from harness.testing.conformance.checks import CHECKS, FAILED, NOTED, PASSED, check

    spec = retriever_spec(options, options.retriever, parameters(options.param))
    outcomes = []
    width = max(map(len, CHECKS))
    for outcome in check(spec):
        outcomes.append(outcome)
        if not options.json:
            print(f"{outcome.state:5} {outcome.name:{width}}  {outcome.said}", flush=True)
    counts = {s: sum(o.state == s for o in outcomes) for s in (PASSED, FAILED, NOTED)}
    if options.json:
        import orjson

        print(
            orjson.dumps({"retriever": spec.name, "checks": [asdict(o) for o in outcomes]}).decode()
        )
    else:
        said = [f"{counts[PASSED]} passed", f"{counts[FAILED]} failed"]
        if counts[NOTED]:
            said.append(f"{counts[NOTED]} worth knowing")
        if left := len(CHECKS) - len(outcomes):
            said.append(f"{left} not tried")
        print(f"\n{spec.name}: {', '.join(said)}")
        if left:
            params = [word for one in options.param for word in ("--param", one)]
            again = shlex.join(["harness", "check", options.retriever, *params])
            print(f"next: mend `search`, and type `{again}` again")
    return 1 if counts[FAILED] else 0
