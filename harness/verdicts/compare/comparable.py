"""What must be the same for two numbers to compare, and what merely differs between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.scoring.signature import Signature, digest
from harness.verdicts.compare.scored import Block, ScoredRun


@dataclass(frozen=True)
class Differing:
    """One thing that is not the same in all runs: its name, and its value in each, as text."""

    what: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} {' / '.join(self.values)}"


def essentials(run: ScoredRun, blocks: Sequence[Block]) -> dict[str, str]:
    """Everything that must agree; `blocks` are the protocols that are to be compared."""
    dataset = run.scores["dataset"]
    essential = {
        "dataset": dataset["name"],
        "data fingerprint": dataset["fingerprint"][:12],
        "granularity": dataset["granularity"],
        "text": dataset["text"],
        "split": dataset["split"],
        "k": str(run.scores["depth"]),
        "queries asked": f"{len(run.asked)} (#{digest(run.asked)})",
        "metric version": f"{run.scores['harness']} (scores {run.scores['score_version']})",
    }
    for block in blocks:
        name = " ".join(block)
        found = run.blocks.get(block)
        if found is None:
            essential[f"protocol {name}"] = "not scored"
            continue
        essential[f"protocol {name}"] = f"version {found['version']}"
        essential[f"ties of {name}"] = found["ties"]
        essential[f"missing queries of {name}"] = _missing(found)
    return essential


def shared_blocks(runs: Sequence[ScoredRun], protocols: Sequence[str]) -> list[Block]:
    """Protocols to compare by: the named ones, else those that every run was scored under.

    Where no protocol is common to all, those of the first run, which is then a difference.
    """
    order = list(dict.fromkeys(block for run in runs for block in run.blocks))
    if protocols:
        return [block for block in order if block[0] in protocols]
    common = [block for block in order if all(block in run.blocks for run in runs)]
    return common or list(runs[0].blocks)


def differing(maps: Sequence[Mapping[str, str]]) -> list[Differing]:
    """The keys whose values are not all the same."""
    keys = dict.fromkeys(key for values in maps for key in values)
    rows = [Differing(key, tuple(values.get(key, "-") for values in maps)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def settings(run: ScoredRun) -> dict[str, str]:
    """The retriever, its parameters, settings and versions of a run, as flat text."""
    parts = {name: run.record.get(name) for name in ("retriever", "settings", "versions")}
    flat: dict[str, str] = {}
    _flatten("", parts, flat)
    return {name.removeprefix("settings.").removeprefix("retriever."): flat[name] for name in flat}


def _flatten(prefix: str, value: Any, into: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, into)
    else:
        into[prefix] = "-" if value is None else str(value)


def _missing(block: Mapping[str, Any]) -> str:
    """How a protocol counted queries without a ranking: said by the signature of any number."""
    for part in block["slices"].values():
        for cell in part["metrics"].values():
            return Signature.parse(cell["signature"]).missing
    return "-"
