"""List results reported by others, and rescore their files.

List a registry of claims. With --score, score the published rankings again and compare them with
the registry. Exit status 1 if a claim disagrees.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from harness.analysis.claims import Claim
from harness.cli.options import parameters
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError, suggest
from harness.io.files import TemporaryFolder
from harness.io.records import Output, OutputPart

if TYPE_CHECKING:
    from harness.analysis.claims import RescoredResult

_OWN = "results/claims.toml"
_DIGITS = 6
"""Decimals of `rescored` values, as written and compared."""


class RescoredClaim(OutputPart):
    """A claim that was scored again: `found` is null if its file is missing.

    `agrees` means that value, n and signature are equal; `differs` describes the difference.
    """

    id: str
    rescored: float
    found: float | None
    agrees: bool
    differs: str


class ClaimsOutput(Output, tag="harness.claims/1"):
    """Output of harness claims; `claims` as in claims.toml."""

    claims: list[Claim]


class ClaimsScoreOutput(Output, tag="harness.claims-score/1"):
    """Output of harness claims --score."""

    claims: list[RescoredClaim]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE.toml", help="the registry (default: results/claims.toml)"
    )
    parser.add_argument("--dataset", metavar="NAME", help="list only claims on this dataset")
    parser.add_argument(
        "--score",
        metavar="FOLDER",
        help="folder with the published files, which are found by sha256",
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="DATASET=PATH",
        help="with --score: local copy of a dataset's raw files; repeatable",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Lists or scores. Returns status 1 if files disagree with the claims."""
    from harness.analysis.claims import on_dataset, read_claims

    if not options.score:
        refuse(options, "without --score", "source")
    if not options.file and not Path(_OWN).is_file():
        raise UsageError(f"no {_OWN} here (the project's repository has one): pass a registry")
    claims = read_claims(Path(options.file or _OWN))
    if options.dataset:
        known = sorted({one.dataset for one in claims})
        claims = on_dataset(claims, options.dataset)
        if not claims:
            raise UsageError(f"no claim is on {options.dataset!r}{suggest(options.dataset, known)}")
    if options.score:
        return _score(options, claims)
    return _list(options, claims)


def _list(options: argparse.Namespace, claims: Sequence[Claim]) -> int:
    from harness.io.terminal import count_of, grid

    if options.json:
        print_json(ClaimsOutput(claims=list(claims)))
    elif not options.quiet:
        ordered = sorted(claims, key=lambda one: (one.dataset, not one.comparable))
        rows = [
            [
                one.dataset,
                " ".join(filter(None, (one.system, one.version))),
                one.measure,
                f"{one.value:.3f}",
                "-" if one.n is None else one.n,
                "-" if one.rescored is None else f"{one.rescored.value:.4f} {one.rescored.metric}",
                "yes" if one.comparable else "no",
                one.reason,
            ]
            for one in ordered
        ]
        headers = ["dataset", "system", "measure", "value", "n", "rescored", "comparable", "reason"]
        print(grid(rows, headers, keys=3))
        rescored = sum(one.rescored is not None for one in claims)
        comparable = sum(one.comparable for one in claims)
        print(f"\n{count_of(len(claims), 'claims')}: {comparable} comparable, {rescored} rescored")
    return 0


def _score(options: argparse.Namespace, claims: Sequence[Claim]) -> int:
    """Scores every published file of a claim again."""
    from harness.io.files import digest

    sources = parameters(options.source or [], "--source")
    resting = [one for one in claims if one.file is not None and one.rescored is not None]
    wanted = {one.file.sha256 for one in resting if one.file is not None}
    if not wanted:
        raise UsageError("--score: no claim here has a file and rescored; nothing to score")
    files = {digest(path): path for path in Path(options.score).rglob("*") if path.is_file()}
    if not wanted & set(files):
        raise UsageError(f"{options.score}: none of the {len(wanted)} published files found")
    rows, wrong = [], 0
    for claim in resting:
        assert claim.file is not None and claim.rescored is not None
        path = files.get(claim.file.sha256)
        now = None if path is None else _scored(path, claim, sources)
        differs = "its file is missing" if now is None else _differs(claim.rescored, now)
        wrong += bool(differs)
        rows.append(
            RescoredClaim(
                id=claim.id,
                rescored=claim.rescored.value,
                found=None if now is None else now.value,
                agrees=not differs,
                differs=differs,
            )
        )
    if options.json:
        print_json(ClaimsScoreOutput(claims=rows))
        return int(bool(wrong))
    for row in rows:
        if row.differs:
            print(f"harness: {row.id}: {row.differs}", file=sys.stderr)
    if not options.quiet:
        print(f"{len(rows)} claims scored again, {wrong} disagree")
    return int(bool(wrong))


def _differs(before: RescoredResult, now: RescoredResult) -> str:
    """Describes differences from the claims; empty for none or for a new release only."""
    from harness.scoring.signature_meaning import parse_signature

    if round(now.value, _DIGITS) != round(before.value, _DIGITS):
        return f"{before.value:.6f} in the claims, {now.value:.6f} now"
    if now.n != before.n:
        return f"n {before.n} in the claims, {now.n} now"
    was, found = (replace(parse_signature(one.signature), v="") for one in (before, now))
    return "" if was == found else f"its signature is now {now.signature}"


def _scored(path: Path, claim: Claim, sources: dict[str, Any]) -> RescoredResult:
    """Scores the published file."""
    from harness.datasets.registry import open_dataset
    from harness.runfiles.run_formats import recognised
    from harness.runs.folder.imported import ImportOptions
    from harness.runs.folder.published import import_published, open_published
    from harness.runs.folder.score_folder import score_run
    from harness.scoring.metrics import parse_metrics
    from harness.scoring.protocols import Choices

    assert claim.rescored is not None
    form = recognised(path)
    if form is None:
        raise UsageError(f"{path}: unknown format")
    dataset = open_dataset(
        claim.rescored.dataset,
        granularity=claim.granularity,
        source=sources.get(claim.rescored.dataset),
    )
    file = open_published(path, form, granularity=claim.granularity)
    with TemporaryFolder("claim") as out:
        folder = import_published(file, dataset, ImportOptions(Path(out), "claimed", quiet=True))
        choices = Choices(metrics=tuple(parse_metrics(claim.rescored.metric)))
        scores = score_run(folder, dataset, choices)
    result, value = scores.result(claim.rescored.metric), scores[claim.rescored.metric]
    return structs.replace(claim.rescored, value=value, n=result.n, signature=result.signature)
