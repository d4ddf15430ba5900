"""Explain the parts of a signature.

Every number has a signature with all settings that could change it. Print their meaning, the
formula of the metric and the rules of the protocol.
"""

from __future__ import annotations

import argparse

from msgspec import UNSET, UnsetType

from harness.cli.output import add_output, emit
from harness.io.records import Output


class ExplainOutput(Output, tag="harness.explain/1"):
    """harness explain: the parts of a signature, the metric's formula, the protocol's rules."""

    metric: str
    protocol: str
    data: str
    level: str
    text: str
    split: str
    slice: str
    n: str
    queries: str
    ties: str
    depth: str
    missing: str
    v: str
    match: str | UnsetType = UNSET
    reader: str | UnsetType = UNSET
    judge: str | UnsetType = UNSET
    formula: str
    rules: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("signature", metavar="SIGNATURE", help="a whole signature, in quotes")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the parts of a signature, then the metric's formula and the protocol's rules."""
    from harness.scoring.protocols import PROTOCOLS
    from harness.scoring.signature_meaning import explain, formula_of, parse_signature, rules_of

    signature = parse_signature(options.signature)
    formula, rules = formula_of(signature), rules_of(signature)
    name = signature.protocol.partition("/")[0]
    protocol = PROTOCOLS.get(name)
    explained = [*explain(signature)]
    lines = [f"{part:9} {value}\n          {meaning}" for part, value, meaning in explained]
    lines += [f"\n{signature.metric}: {formula}", f"\nprotocol {name}: {rules}"]
    if protocol and protocol.source:
        lines.append(f"after {protocol.source}")
    parts = {part: value for part, value, _ in explained}
    output = ExplainOutput(**parts, formula=formula, rules=rules)
    return emit(options, output, "\n".join(lines))
