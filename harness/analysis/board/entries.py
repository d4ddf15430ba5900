"""Reads one entry of a board from one run folder; the same folder gives the same entry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.analysis.board.records import (
    BOARD_VERSION,
    Board,
    BoardProtocol,
    EmbeddingCounts,
    Entry,
    EntryCost,
    EntryQueries,
    Provenance,
    RankedResult,
    ScoringVersion,
)
from harness.analysis.scored_run import ScoredRun
from harness.records.run import Measured, Params, PlainValue, embedder_reports
from harness.records.scores import ProtocolResult
from harness.schema import Ability

SLICES = ("all", "answerable", *(str(ability) for ability in Ability))
"""The slices of a board; categories of the dataset are only in scores.json."""


def read_board(folder: Path) -> Board:
    """Reads a run folder as a board with one entry. Raises UsageError for a broken folder."""
    run = ScoredRun.read(folder)
    scores = run.scores
    return Board(
        schema_version=BOARD_VERSION,
        dataset=scores.dataset,
        depth=scores.depth,
        queries=scores.queries.scorable,
        scoring=ScoringVersion(harness=scores.harness, version=scores.version),
        entries=[_entry(run)],
    )


def labels(entries: Sequence[Entry]) -> list[str]:
    """Labels the entries of a board: by name, else by system.

    Entries without a name and with the same parameters (two versions of the same code) get their
    commit, else their time, else the end of their folder's name.
    """
    plain = [entry.name or entry.system for entry in entries]
    looks = [(name, str(entry.params)) for name, entry in zip(plain, entries, strict=True)]
    unique = list(plain)
    for look in {one for one in looks if looks.count(one) > 1}:
        same = [i for i, one in enumerate(looks) if one == look]
        for describe in (_commit, _time, _id):
            details = [describe(entries[i]) for i in same]
            if all(details) and len(set(details)) == len(details):
                break
        for i, detail in zip(same, details, strict=True):
            unique[i] = f"{plain[i]} ({detail})"
    return unique


def distinct_params(entries: Sequence[Entry]) -> list[Params]:
    """Returns the parameters in which each entry differs from others of its system.

    The only entry of a system has all its parameters. Values of three of four entries of a system
    are excluded.
    """
    found = []
    for entry in entries:
        same = [one.params for one in entries if one.system == entry.system]
        shared = {
            name: sum(other.get(name) == value for other in same)
            for name, value in entry.params.items()
        }
        found.append(
            {
                name: value
                for name, value in entry.params.items()
                if len(same) == 1 or shared[name] < 0.75 * len(same)
            }
        )
    return found


def _commit(entry: Entry) -> str:
    git = entry.provenance.git
    return f"{git.commit[:7]}{'+' if git.changed else ''}" if git and git.commit else ""


def _time(entry: Entry) -> str:
    return entry.provenance.finished[:16].replace("T", " ")


def _id(entry: Entry) -> str:
    return entry.run.rpartition("-")[2]


def _entry(run: ScoredRun) -> Entry:
    record, scores = run.run_record, run.scores
    retriever, measured = record.retriever, record.measured or Measured()
    return Entry(
        run=run.folder.name,
        name=record.name or "",
        system=retriever.name,
        version=retriever.version,
        revision=retriever.revision,
        params=retriever.params,
        sees_gold_labels=retriever.sees_gold_labels,
        submitted_by=record.submitted_by,
        command=record.command,
        queries=EntryQueries(
            failed=scores.queries.failed,
            without_ranking=scores.queries.without_ranking,
            unmeasurable=record.hits.unmeasurable_queries if record.hits else 0,
        ),
        returned=scores.returned,
        protocols=[_protocol(one) for one in scores.protocols],
        knowledge_update=scores.knowledge_update,
        changes=scores.changes,
        abstention=scores.abstention,
        tokens=scores.tokens,
        hits=record.hits,
        cost=EntryCost(
            index=measured.index,
            ingestion=measured.ingestion,
            searching=measured.searching,
            search_ms=measured.search_ms,
            peak_memory_bytes=measured.peak_memory_bytes,
            embeddings=_embeddings(record.reported),
        ),
        provenance=Provenance(
            finished=record.finished,
            versions=record.versions or None,
            machine=record.machine,
            git=record.git,
            files=retriever.files or None,
            imported_from=record.imported_from,
            submitted=record.submitted,
        ),
    )


def _embeddings(reported: PlainValue) -> EmbeddingCounts | None:
    """Counts embedded texts and cached ones, which cost no time."""
    found = embedder_reports(reported)
    if not found:
        return None
    return EmbeddingCounts(
        texts_asked=sum(one.texts_asked for one in found),
        texts_embedded=sum(one.texts_embedded for one in found),
        embedding_seconds=sum(one.embedding_seconds for one in found),
    )


def _protocol(protocol: ProtocolResult) -> BoardProtocol:
    return BoardProtocol(
        protocol=protocol.name,
        level=protocol.level,
        ties=protocol.ties,
        missing=protocol.missing,
        excluded=protocol.excluded,
        slices={
            name: protocol.results_as(RankedResult, name)
            for name in SLICES
            if name in protocol.columns
        },
    )
