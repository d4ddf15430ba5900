"""One entry of a board from one run folder: plain JSON values, the same for the same folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.errors import UsageError
from harness.records.base import Record, to_plain, to_tree
from harness.records.run import Measured
from harness.records.scores import MetricResult, ProtocolResult
from harness.schema import Ability
from harness.verdicts.compare.scored import ScoredRun

SLICES = ("all", "answerable", *(str(ability) for ability in Ability))
"""What a board shows; a dataset's own categories stay in scores.json."""


def read_entry(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What compares (the board's head), and the entry. Raises UsageError for a broken folder."""
    run = ScoredRun.read(folder)
    try:
        return _head(run), _entry(run)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{folder}: run.json is not of this version of the harness ({error}); "
            "`harness score` the folder again, or remove it"
        ) from None


def embedders(reported: Any) -> list[dict[str, Any]]:
    """What embedders report of their costs (`texts_asked` and so on), at any depth of a report.

    A retriever's report holds those of the retrievers inside it.
    """
    if isinstance(reported, dict):
        if "texts_asked" in reported:
            return [reported]
        reported = list(reported.values())
    if not isinstance(reported, list):
        return []
    return [found for one in reported for found in embedders(one)]


def labels(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each entry of a board is called where people read it: its name, else its system's.

    Entries that would look alike (no name, the same parameters: two versions of one's own code) are
    told apart by the commit that they were run in, else by the time, else by the end of the
    folder's name.
    """
    plain = [str(entry.get("name") or entry["system"]) for entry in entries]
    looks = [(name, str(entry["params"])) for name, entry in zip(plain, entries, strict=True)]
    made = list(plain)
    for look in {one for one in looks if looks.count(one) > 1}:
        alike = [at for at, one in enumerate(looks) if one == look]
        for said in (_commit, _time, _id):
            told = [said(entries[at]) for at in alike]
            if all(told) and len(set(told)) == len(told):
                break
        for at, more in zip(alike, told, strict=True):
            made[at] = f"{plain[at]} ({more})"
    return made


def told(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The parameters that tell each entry from others of its system; all of one that is alone.

    What three of four have in common is what they are known for, and is not said of them.
    """
    found = []
    for entry in entries:
        alike = [one["params"] for one in entries if one["system"] == entry["system"]]
        same = {
            name: sum(other.get(name) == value for other in alike)
            for name, value in entry["params"].items()
        }
        alone = len(alike) == 1
        apart = {
            name: entry["params"][name]
            for name, n in same.items()
            if alone or n < 0.75 * len(alike)
        }
        found.append({"alone": alone, "told": apart})
    return found


def _commit(entry: Mapping[str, Any]) -> str:
    git = entry["provenance"].get("git") or {}
    return f"{git['commit'][:7]}{'+' if git.get('changed') else ''}" if git.get("commit") else ""


def _time(entry: Mapping[str, Any]) -> str:
    return str(entry["provenance"]["finished"])[:16].replace("T", " ")


def _id(entry: Mapping[str, Any]) -> str:
    return str(entry["run"]).rpartition("-")[2]


def _head(run: ScoredRun) -> dict[str, Any]:
    """Everything that must be the same for numbers to stand in one table."""
    return {
        "dataset": to_tree(run.scores.dataset),
        "depth": run.scores.depth,
        "queries": dict(zip(("asked", "digest"), run.scorable, strict=True)),
        "scoring": {"harness": run.scores.harness, "version": run.scores.version},
    }


def _entry(run: ScoredRun) -> dict[str, Any]:
    record, scores = run.run_record, run.scores
    retriever, measured = record.retriever, record.measured or Measured()
    return {
        "run": run.folder.name,
        **({"name": record.name} if record.name else {}),
        "system": retriever.name,
        "version": retriever.version,
        "revision": retriever.revision,
        "params": retriever.params,
        "sees_gold_labels": retriever.sees_gold_labels,
        "submitted_by": record.submitted_by,
        "command": record.command,
        "queries": {
            "failed": scores.queries.failed,
            "without_ranking": scores.queries.without_ranking,
            "unmeasurable": (scores.hits or {}).get("queries_not_measurable", 0),
        },
        "returned": to_tree(scores.returned),
        "protocols": [_protocol(one) for one in scores.protocols],
        "knowledge_update": _unsigned(scores.knowledge_update),
        "changes": _unsigned(scores.changes),
        "abstention": _unsigned(scores.abstention),
        "tokens": _unsigned(scores.tokens),
        "hits": scores.hits,
        "cost": {
            "index": _plain(measured.index),
            "ingestion": _plain(measured.ingestion),
            "searching": _plain(measured.searching),
            "search_ms": _plain(measured.search_ms),
            "peak_memory_bytes": _plain(measured.peak_memory_bytes),
            "embeddings": _embeddings(record.reported),
        },
        "provenance": {
            "finished": record.finished,
            "versions": record.versions or None,
            "machine": _plain(record.machine),
            "git": _plain(record.git),
            "files": retriever.files or None,
            "imported_from": _plain(record.imported_from),
            "submitted": record.submitted,
        },
    }


def _plain(part: Record | None) -> Any:
    return None if part is None else to_plain(part)


def _embeddings(reported: Any) -> dict[str, Any] | None:
    """How many texts were embedded and how many came from the cache, whose times are no cost."""
    found = embedders(reported)
    if not found:
        return None
    names = ("texts_asked", "texts_embedded", "embedding_seconds")
    return {name: sum(one.get(name, 0) for one in found) for name in names}


def _protocol(protocol: ProtocolResult) -> dict[str, Any]:
    slices = {name: protocol.slices[name] for name in SLICES if name in protocol.columns}
    return {
        "protocol": protocol.name,
        "level": protocol.level,
        "ties": protocol.ties,
        "missing": protocol.missing,
        "excluded": protocol.excluded,
        "slices": {
            name: {metric: _result(result) for metric, result in part.metrics.items()}
            for name, part in slices.items()
        },
    }


def _result(result: MetricResult) -> dict[str, Any]:
    """A result without its signature and its macro means, which scores.json keeps."""
    shown = replace(result, signature="", macro_haystack=None, macro_category=None)
    return {"value": None, **to_plain(shown)}


def _unsigned(section: Record | None) -> Any:
    """A section of scores.json without its signature, which scores.json keeps."""
    if section is None:
        return None
    return {name: value for name, value in to_tree(section).items() if name != "signature"}
