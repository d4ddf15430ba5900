"""Creates a labelling project, or adds to one: queries, documents, systems, a deeper pool.

Nothing is ever removed: annotations stay, and a candidate that no system returns any more stays in
the pool.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import UsageError, near
from harness.files import digest
from harness.labelling.annotations import GRADES
from harness.labelling.inputs import read_documents, read_queries
from harness.labelling.pool import PooledRun, System, top_k
from harness.labelling.project import Project
from harness.labelling.records import Candidate, LabelDocument, LabelQuery, SourceFile
from harness.labelling.reports import Added

DEPTH = 10
"""Depth of the pool, where none is given."""

_LOCK = ".start.lock"


@dataclass
class ProjectUpdate:
    """A project, what was added to it, and warnings."""

    project: Project
    new: bool
    added: Added = field(default_factory=Added)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was added."""
        return self.new or self.added != Added()


def start(
    folder: Path,
    documents: Path,
    queries: Path,
    systems: Sequence[System] = (),
    *,
    depth: int | None = None,
    seed: int | None = None,
    overlap: float | None = None,
    relevance_level: int | None = None,
    quiet: bool = True,
) -> ProjectUpdate:
    """Pools the top `depth` of the systems for the queries into the project `folder`.

    In a folder that has a project it continues: the project's own systems and depth hold where none
    are given, and what is new is added; all systems are run again, so that their ranks are over the
    same documents. Raises UsageError for what cannot be read, for a document or query that has
    another text than in the project, for a seed or a depth that contradicts it, and what a run
    raises.
    """
    _check(depth, seed, overlap, relevance_level)
    with exclusive(folder):
        new = not (folder / "label.json").is_file()
        old = Project.new(folder) if new else Project.read(folder)
        if not new:
            _check_settings(old, depth, seed)
        update = ProjectUpdate(old, new)
        project = Project(folder, old.settings, *_read_inputs(old, documents, queries, update), [])
        wanted = _systems(old, systems)
        project.settings = msgspec.structs.replace(
            old.settings,
            depth=max(depth or old.depth or DEPTH, old.depth),
            seed=old.seed if seed is None else seed,
            overlap=old.settings.overlap if overlap is None else overlap,
            relevance_level=relevance_level or old.relevance_level,
        )
        _warn_of_level(old, project, update)
        update.added = Added(
            documents=len(project.documents) - len(old.documents),
            queries=len(project.queries) - len(old.queries),
            systems=len(wanted) - len(old.systems),
            depth=project.depth - old.depth,
        )
        project.pool = old.pool
        if update.changed:
            pooled = top_k(
                wanted,
                project.documents,
                project.queries,
                k=project.depth,
                seed=project.seed,
                work_folder=folder / ".pooling",
                quiet=quiet,
            )
            project.pool = merged_pool(old.pool, pooled, [query.id for query in project.queries])
            project.settings = msgspec.structs.replace(
                project.settings,
                systems=[one.record for one in pooled],
                sources=_sources(old, documents, queries, update.added),
            )
            update.warnings += [
                f"{one.record.name} failed on {one.failed} queries, which have none of its "
                "documents in the pool"
                for one in pooled
                if one.failed
            ]
        _warn_of_pool(project, wanted, update)
        update.added = msgspec.structs.replace(
            update.added, candidates=len(project.pool) - len(old.pool)
        )
        update.project = project
        if update.changed or project.settings != old.settings:
            project.write()
    return update


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Creates the folder and locks it against other calls that create or extend the project.

    Raises UsageError for a folder with other files, and while another process has the lock.
    """
    _refuse_others(folder)
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"{folder}: another `harness label` uses it; wait for it") from None
    try:
        yield
    finally:
        lock.release()


def _refuse_others(folder: Path) -> None:
    """Raises UsageError for a folder that has files and is not a project.

    The lock marks a project whose creation was interrupted.
    """
    if not folder.is_dir() or any((folder / name).is_file() for name in ("label.json", _LOCK)):
        return
    theirs = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if theirs:
        shown = ", ".join(theirs[:3]) + (", ..." if len(theirs) > 3 else "")
        raise UsageError(
            f"{folder}: is not a labelling project and is not empty ({shown}); name a new folder "
            "with --out"
        )


def _check(
    depth: int | None, seed: int | None, overlap: float | None, relevance_level: int | None
) -> None:
    if relevance_level not in (None, *GRADES[1:]):
        raise UsageError(f"--relevance-level is a grade, 1, 2 or 3, not {relevance_level}")
    if depth is not None and depth < 1:
        raise UsageError(f"--k must be 1 or more, not {depth}")
    if seed is not None and seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    if overlap is not None and not 0 <= overlap <= 1:
        raise UsageError(f"--overlap is a share of the queries, from 0 to 1, not {overlap}")


def _check_settings(old: Project, depth: int | None, seed: int | None) -> None:
    """Raises UsageError for another seed than the project's, and for a smaller depth."""
    if seed not in (None, old.seed):
        raise UsageError(
            f"--seed {seed}: {old.folder} was created with seed {old.seed}, which fixes every "
            "order there; leave it out, or name another folder with --out"
        )
    if depth is not None and depth < old.depth:
        raise UsageError(
            f"--k {depth}: the pool of {old.folder} is {old.depth} deep already, and a pool never "
            "shrinks; leave it out, or name another folder with --out"
        )


def _read_inputs(
    old: Project, documents: Path, queries: Path, update: ProjectUpdate
) -> tuple[list[LabelDocument], list[LabelQuery]]:
    """The project's documents and queries with those of the files added."""
    found, empty = read_documents(documents)
    if empty:
        update.warnings.append(f"empty documents: {len(empty)}, first {empty[0]!r}")
    all_documents = _merged(
        old.documents,
        found,
        lambda one: (one.id, *one.haystacks),
        documents,
        "document",
    )
    given, repeated = _with_ids(read_queries(queries), old.queries)
    if repeated:
        update.warnings.append(f"duplicate queries, of which one each is kept: {repeated}")
    all_queries = _merged(old.queries, given, lambda one: (one.id,), queries, "query")
    _check_haystacks(all_documents, all_queries, queries)
    return all_documents, all_queries


def _systems(old: Project, given: Sequence[System]) -> list[System]:
    """The project's systems and the given ones. Raises UsageError if there is none."""
    known = [System.create(one.retriever, one.params, one.plugins) for one in old.settings.systems]
    wanted = {system.name: system for system in (*known, *given)}
    if not wanted:
        raise UsageError("--retriever is missing: name two or more systems to pool")
    return list(wanted.values())


def _warn_of_level(old: Project, project: Project, update: ProjectUpdate) -> None:
    """Warns of a new relevance level in a project that has annotations."""
    if not update.new and project.relevance_level != old.relevance_level and old.annotators():
        update.warnings.append(
            f"grades count as evidence from {project.relevance_level} on, and counted from "
            f"{old.relevance_level} on when {', '.join(old.annotators())} judged: their grades "
            "stay, and are read with the new level"
        )


def _warn_of_pool(project: Project, systems: Sequence[System], update: ProjectUpdate) -> None:
    """Warns of a single system, and of queries without a candidate."""
    if len(systems) == 1:
        update.warnings.append(
            f"only {systems[0].name} is pooled: what it does not find is never judged, so the "
            "qrels would favour it; add a system of another kind with --retriever"
        )
    bare = sum(not candidates for candidates in project.candidates.values())
    if bare:
        update.warnings.append(
            f"no system found anything for {bare} of the {len(project.queries)} queries: they have "
            "no candidate, and can only be marked as answerable or not"
        )


def merged_pool(
    old: Sequence[Candidate], pooled: Sequence[PooledRun], queries: Sequence[str]
) -> list[Candidate]:
    """Returns the union of the old pool and what the systems returned, by query.

    Ranks are the new ones; a candidate that no system returns any more has none.
    """
    proposals = {(one.query, one.document): one.proposal for one in old}
    found = []
    before: dict[str, dict[str, None]] = {}
    for one in old:
        before.setdefault(one.query, {})[one.document] = None
    for query in queries:
        documents = dict(before.get(query, {}))
        for system in pooled:
            documents.update(dict.fromkeys(system.ranks.get(query, {})))
        for document in documents:
            ranks = {
                system.record.name: rank
                for system in pooled
                if (rank := system.ranks.get(query, {}).get(document)) is not None
            }
            proposal = proposals.get((query, document))
            found.append(Candidate(query=query, document=document, ranks=ranks, proposal=proposal))
    return found


R = TypeVar("R", LabelDocument, LabelQuery)


def _merged(
    old: list[R], given: Sequence[R], key: Callable[[R], tuple[str, ...]], path: Path, what: str
) -> list[R]:
    """Adds the given records to the old ones.

    Raises UsageError where an old one has another text, title or haystack now: its annotations
    would be about something else. Other fields are those that were given last.
    """
    merged = {key(record): record for record in old}
    for record in given:
        before = merged.get(key(record))
        changed = before is not None and [
            name
            for name in ("text", "title", "haystack")
            if (getattr(before, name, None) or "") != (getattr(record, name, None) or "")
        ]
        if changed:
            raise UsageError(
                f"{path}: the {what} {record.id!r} has another {changed[0]} than in the project, "
                "so its annotations would be about something else; give the new one an id of its "
                "own, or name another folder with --out"
            )
        merged[key(record)] = record
    return list(merged.values())


def _with_ids(
    given: Sequence[LabelQuery], old: Sequence[LabelQuery]
) -> tuple[list[LabelQuery], int]:
    """Gives ids to queries without one; returns them and the number of duplicate texts.

    The same text keeps the id that it has in the project; others get the next free `q1`, `q2`.
    """
    of_text = {query.text: query.id for query in old}
    taken = {query.id for query in (*old, *given) if query.id}
    found: dict[str, LabelQuery] = {}
    repeated, number = 0, 0
    for query in given:
        if not query.id:
            id_ = of_text.get(query.text)
            while id_ is None:
                number += 1
                id_ = f"q{number}" if f"q{number}" not in taken else None
            taken.add(id_)
            of_text[query.text] = id_
            query = msgspec.structs.replace(query, id=id_)
            repeated += id_ in found
        found.setdefault(query.id, query)
    return list(found.values()), repeated


def _check_haystacks(
    documents: Sequence[LabelDocument], queries: Sequence[LabelQuery], path: Path
) -> None:
    known = {name for document in documents for name in document.haystacks}
    ids = [document.id for document in documents]
    bare = next((query.id for query in queries if not query.haystack), None)
    if known and bare is not None and len(set(ids)) < len(ids):
        named = ", ".join(sorted(known)[:3])
        raise UsageError(
            f"{path}: the query {bare!r} names no haystack, but the documents are in several "
            f"({named}{', ...' if len(known) > 3 else ''}) with the same ids in each; give every "
            "query its haystack"
        )
    for query in queries:
        if query.haystack and query.haystack not in known:
            raise UsageError(
                f"{path}: the query {query.id!r} is of the haystack {query.haystack!r}, in which "
                f"there is no document{near(query.haystack, sorted(known))}"
            )


def _sources(old: Project, documents: Path, queries: Path, added: Added) -> list[SourceFile]:
    """The sources in label.json, with the new ones; names of files, no paths."""
    sources = list(old.settings.sources)
    if added.documents:
        sources.append(
            SourceFile(
                role="documents",
                file=documents.name,
                sha256=_digest(documents),
                added=added.documents,
            )
        )
    if added.queries:
        sources.append(
            SourceFile(
                role="queries", file=queries.name, sha256=_digest(queries), added=added.queries
            )
        )
    return sources


def _digest(path: Path) -> str:
    """Returns the sha256 of a file; of a folder, that of its files' names and hashes."""
    if path.is_file():
        return digest(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = [f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
