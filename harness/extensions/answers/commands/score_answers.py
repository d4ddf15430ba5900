"""`harness score` of a folder of answers, and of texts against texts (`--expected`)."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.output import refuse
from harness.extensions.answers.commands.semantic import add_semantic, score_expected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of semantic accuracy."""
    add_semantic(parser)


def asked_for(options: argparse.Namespace) -> bool:
    """Return whether `--expected` is given."""
    return bool(options.expected)


def accepts(options: argparse.Namespace, path: Path) -> bool:
    """Return whether the input is a folder of answers, or `--expected` is given."""
    if not path.is_dir():  # the usual case, which needs no package
        return asked_for(options)
    from harness.runs.folder.answers_folder import is_answers

    return asked_for(options) or is_answers(path)


def suggest(options: argparse.Namespace, path: Path) -> str:
    """Return no suggestion: a run file cannot be mistaken for a file of texts."""
    return ""


def score(options: argparse.Namespace, path: Path) -> int:
    """Score texts against expected texts, or rescore a folder of answers with all judgements."""
    if asked_for(options):
        return score_expected(options, path)
    from harness.cli.score import OF_A_DATASET
    from harness.extensions.answers.commands.answer import score_and_print
    from harness.runs.folder.answers_folder import AnswersFolder, dataset_of_answers

    rest: tuple[str, ...] = ("dataset", "qrels", "log", "metrics", "ties", "missing")
    rest += ("semantic", "strict")
    rest += tuple(name for name in OF_A_DATASET if name != "source")
    refuse(options, "for a folder of answers", *rest)
    dataset = dataset_of_answers(AnswersFolder(path), options.source)
    return score_and_print(options, "answer", [path], dataset)
