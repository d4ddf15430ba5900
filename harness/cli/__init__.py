"""One file a verb, thin: parse, call, print. Nothing heavy is imported before a verb is called."""

from __future__ import annotations

import argparse
from typing import NoReturn

import harness
from harness.cli import (
    abtest,
    analyze,
    cache,
    check,
    compare,
    completion,
    datasets,
    examples,
    explain,
    gate,
    label,
    leaderboard,
    monitor,
    report,
    retrievers,
    run,
    runs,
    score,
    serve,
    sweep,
    verify,
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, not below a screen of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


_VERBS = {
    verb.__name__.rpartition(".")[2]: verb
    for verb in (
        *(run, runs, score, verify, compare, analyze, report, leaderboard, serve, sweep, gate),
        *(
            abtest,
            monitor,
            label,
            datasets,
            retrievers,
            examples,
            check,
            explain,
            cache,
            completion,
        ),
    )
}


def parser(name: str = "") -> argparse.ArgumentParser:
    """The parser of all commands; of one alone where `name` is one, which is sooner there."""
    top = _Parser(
        prog="harness",
        description="Run any retriever or memory over public benchmarks, score it by ability.",
        epilog="First minute, offline: harness run --dataset sample --retriever bm25",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"harness {harness.__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb in [_VERBS[name]] if name in _VERBS else _VERBS.values():
        verb.add(verbs)
    return top
