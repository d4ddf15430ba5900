"""One file a verb, thin: parse, call, print. Nothing heavy is imported before a verb is called."""

from __future__ import annotations

import argparse

import harness
from harness.cli import datasets, explain, leaderboard, retrievers, run, score


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="harness",
        description="Run any retriever or memory over public benchmarks, score it by ability.",
        epilog="First minute, offline: harness run --dataset sample --retriever bm25",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"harness {harness.__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb in (run, score, datasets, retrievers, leaderboard, explain):
        verb.add(verbs)
    return top
