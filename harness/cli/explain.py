"""Say what a signature means.

Every number carries a signature; this takes one apart.
"""

from __future__ import annotations

import argparse

from harness.cli.output import add_output, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument("signature", metavar="SIGNATURE", help="the whole string, in quotes")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Print part by part, then the metric's formula and the protocol's rules."""
    from harness.scoring.protocols import PROTOCOLS, Signature

    signature = Signature.parse(options.signature)
    formula, rules = signature.formula, signature.rules
    name = signature.protocol.partition("/")[0]
    protocol = PROTOCOLS.get(name)
    if options.json:
        from harness.cli.output_records import ExplainOutput

        parts = {part: value for part, value, _ in signature.explain()}
        print_json(ExplainOutput(**parts, formula=formula, rules=rules))
    if options.json or options.quiet:
        return 0
    for part, value, meaning in signature.explain():
        print(f"{part:9} {value}\n          {meaning}")
    print(f"\n{signature.metric}: {formula}")
    print(f"\nprotocol {name}: {rules}")
    if protocol and protocol.source:
        print(f"after {protocol.source}")
    return 0
