"""Creates or extends a labelling project: queries, documents, systems, a deeper pool.

Nothing is ever removed: annotations stay, and a candidate that no system returns any more stays in
the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from msgspec.structs import replace

from harness.errors import UsageError, suggest
from harness.extensions.labelling.annotations import GRADES
from harness.extensions.labelling.inputs import input_digest, read_documents, read_queries
from harness.extensions.labelling.pool import PooledRun, top_k
from harness.extensions.labelling.project import (
    Candidate,
    LabelDocument,
    LabelQuery,
    PooledSystem,
    Project,
    SourceFile,
)
from harness.extensions.labelling.reports import Added

DEPTH = 10
"""Default depth of the pool."""

_LOCK = ".start.lock"


@dataclass(frozen=True)
class StartOptions:
    """Options of `start`; None means the project's value, or the default."""

    depth: int | None = None
    seed: int | None = None
    overlap: float | None = None
    relevance_level: int | None = None

    def check(self, old: Project, *, new: bool) -> None:
        """Raises UsageError for an invalid value, and one that contradicts the project."""
        folder, settings = old.folder, old.settings
        if self.relevance_level not in (None, *GRADES[1:]):
            raise UsageError(f"--relevance-level is a grade, 1, 2 or 3, not {self.relevance_level}")
        if self.depth is not None and self.depth < 1:
            raise UsageError(f"--k must be 1 or more, not {self.depth}")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"--seed must be 0 or more, not {self.seed}")
        if self.overlap is not None and not 0 <= self.overlap <= 1:
            raise UsageError(
                f"--overlap is a share of the queries, from 0 to 1, not {self.overlap}"
            )
        if not new and self.seed not in (None, settings.seed):
            raise UsageError(
                f"--seed {self.seed}: {folder} was created with seed {settings.seed}, which fixes "
                "all orders; remove --seed, or name another folder with --out"
            )
        if self.depth is not None and self.depth < settings.depth:
            raise UsageError(
                f"--k {self.depth}: the pool of {folder} already has depth {settings.depth} and "
                "cannot shrink; remove --k, or name another folder with --out"
            )


@dataclass
class ProjectUpdate:
    """A project, the counts of additions, and warnings."""

    project: Project
    new: bool
    added: Added = field(default_factory=Added)
    warnings: list[str] = field(default_factory=list)


def start(
    folder: Path,
    documents: Path,
    queries: Path,
    systems: Sequence[PooledSystem] = (),
    options: StartOptions | None = None,
    *,
    quiet: bool = True,
) -> ProjectUpdate:
    """Pools the top documents of the systems for the queries into the project `folder`.

    An existing project continues: its systems stay, its depth is the default, and what is new is
    added. All systems are run again, so that their ranks are over the same documents. Raises
    UsageError for invalid input, for a document or query with another text than in the project, for
    options that contradict it, and the errors of a run.
    """
    options = options or StartOptions()
    options.check(Project.new(folder), new=True)
    with exclusive(folder):
        new = not (folder / "label.json").is_file()
        old = Project.new(folder) if new else Project.read(folder)
        options.check(old, new=new)
        update = ProjectUpdate(old, new)
        wanted = {one.name: one for one in (*old.settings.systems, *systems)}
        project = Project(folder, old.settings, *_read_inputs(old, documents, queries, update), [])
        if not wanted:
            raise UsageError("--retriever is missing: name two or more systems to pool")
        settings = old.settings
        level = options.relevance_level or settings.relevance_level
        project.settings = replace(
            settings,
            depth=max(options.depth or settings.depth or DEPTH, settings.depth),
            seed=settings.seed if options.seed is None else options.seed,
            overlap=settings.overlap if options.overlap is None else options.overlap,
            relevance_level=level,
        )
        if not new and level != settings.relevance_level and old.annotators():
            update.warnings.append(
                f"the relevance level changed from {settings.relevance_level} to {level} after "
                f"{', '.join(old.annotators())} judged; their grades count by the new level"
            )
        update.added = Added(
            documents=len(project.documents) - len(old.documents),
            queries=len(project.queries) - len(old.queries),
            systems=len(wanted) - len(old.systems),
            depth=project.settings.depth - settings.depth,
        )
        project.pool = old.pool
        edited = any(query.pool_is_older for query in project.queries)
        if new or edited or update.added != Added():
            _pool(project, list(wanted.values()), update, quiet=quiet)
            files: tuple[tuple[Literal["documents", "queries"], Path, int], ...] = (
                ("documents", documents, update.added.documents),
                ("queries", queries, update.added.queries),
            )
            more = [
                SourceFile(role=role, file=path.name, sha256=input_digest(path), added=n)
                for role, path, n in files
                if n
            ]
            project.settings = replace(project.settings, sources=[*settings.sources, *more])
        _warn_of_pool(project, list(wanted), update)
        update.added = replace(update.added, candidates=len(project.pool) - len(old.pool))
        update.project = project
        if new or edited or update.added != Added() or project.settings != settings:
            project.write()
    return update


@contextmanager
def exclusive(folder: Path, wait: float = 0) -> Iterator[None]:
    """Creates the folder and locks it against other calls that create or extend the project.

    Raises UsageError for a file, a folder with other files, and if another process still has the
    lock after `wait` seconds. The lock file marks a project that was not completely written.
    """
    from filelock import FileLock, Timeout

    if folder.is_file():
        raise UsageError(f"--out {folder}: this is a file; name a folder")
    marked = any((folder / name).is_file() for name in ("label.json", _LOCK))
    files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not marked and (theirs := [name for name in files if not name.startswith(".")]):
        shown = ", ".join(theirs[:3]) + (", ..." if len(theirs) > 3 else "")
        raise UsageError(f"{folder}: contains other files ({shown}); name a new folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise UsageError(
            f"{folder}: in use by another `harness label`; wait until it ends"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _pool(
    project: Project, systems: Sequence[PooledSystem], update: ProjectUpdate, *, quiet: bool
) -> None:
    """Pools the systems into the project."""
    settings = project.settings
    pooled = top_k(
        systems,
        project.documents,
        project.queries,
        k=settings.depth,
        seed=settings.seed,
        work_folder=project.folder / ".pooling",
        quiet=quiet,
    )
    project.pool = merged_pool(project.pool, pooled, [query.id for query in project.queries])
    project.pool = project.with_copies()
    project.settings = replace(settings, systems=[one.record for one in pooled])
    project.queries = [
        replace(query, edits=[replace(edit, pooled=True) for edit in query.edits])
        for query in project.queries
    ]
    update.warnings += [
        f"{one.record.name} failed on {one.failed} queries; the pool lacks its documents for them"
        for one in pooled
        if one.failed
    ]


def _warn_of_pool(project: Project, systems: Sequence[str], update: ProjectUpdate) -> None:
    """Warns of a single system, and of queries without a candidate."""
    if len(systems) == 1:
        update.warnings.append(
            f"only {systems[0]} is pooled, so the qrels favour it; add a different system with "
            "--retriever"
        )
    bare = sum(not candidates for candidates in project.candidates.values())
    if bare:
        update.warnings.append(
            f"{bare} of the {len(project.queries)} queries have no candidate; they can only be "
            "marked as answerable or unanswerable"
        )


def merged_pool(
    old: Sequence[Candidate], pooled: Sequence[PooledRun], queries: Sequence[str]
) -> list[Candidate]:
    """Returns the union of the old pool and the results of the systems, by query.

    Ranks are the new ones; a candidate that no system returns any more has none.
    """
    before: dict[str, dict[str, Candidate]] = {}
    for one in old:
        before.setdefault(one.query, {})[one.document] = one
    found = []
    for query in queries:
        known = before.get(query, {})
        ranks: dict[str, dict[str, int]] = {document: {} for document in known}
        for system in pooled:
            for document, rank in system.ranks.get(query, {}).items():
                ranks.setdefault(document, {})[system.record.name] = rank
        for document, of in ranks.items():
            candidate = known.get(document) or Candidate(query=query, document=document)
            found.append(replace(candidate, ranks=of))
    return found


# -- Documents and queries -------------------------------------------------------------------------


def _read_inputs(
    old: Project, documents: Path, queries: Path, update: ProjectUpdate
) -> tuple[list[LabelDocument], list[LabelQuery]]:
    """Returns the project's documents and queries, extended by those of the files."""
    found, empty = read_documents(documents)
    if empty:
        update.warnings.append(f"empty documents: {len(empty)}, first {empty[0]!r}")
    all_documents = merged_documents(old.documents, found, documents)
    given, repeated = _with_ids(read_queries(queries), old.queries)
    given = [_as_edited(query, old) for query in given]
    if repeated:
        update.warnings.append(f"{repeated} duplicate queries are excluded")
    all_queries = _merged(old.queries, given, lambda one: (one.id,), f"{queries}: the query")
    _check_haystacks(all_documents, all_queries, queries)
    return all_documents, all_queries


def _as_edited(given: LabelQuery, old: Project) -> LabelQuery:
    """Returns a query of a file with the text that annotators gave it, if it has an earlier one."""
    known = old.query.get(given.id)
    if known is None or given.text not in (known.text, *(edit.text for edit in known.edits)):
        return given
    return replace(given, text=known.text, edits=known.edits)


R = TypeVar("R", LabelDocument, LabelQuery)


def merged_documents(
    old: Sequence[LabelDocument], given: Sequence[LabelDocument], path: Path
) -> list[LabelDocument]:
    """Adds the documents of a path to the old ones. Raises UsageError like `_merged`."""
    return _merged(old, given, lambda one: (one.id, *one.haystacks), f"{path}: the document")


def _merged(
    old: Sequence[R], given: Sequence[R], key: Callable[[R], tuple[str, ...]], what: str
) -> list[R]:
    """Adds the given records to the old ones.

    Raises UsageError if the text, title or haystack of an old record has changed: its annotations
    would no longer apply. Other fields take the newest value.
    """
    merged = {key(record): record for record in old}
    for record in given:
        before = merged.get(key(record), record)
        for name in ("text", "title", "haystack"):
            if (getattr(before, name, None) or "") != (getattr(record, name, None) or ""):
                raise UsageError(
                    f"{what} {record.id!r} has another {name} in the project, so its annotations "
                    "would not apply; give it a new id, or name another folder with --out"
                )
        merged[key(record)] = record
    return list(merged.values())


def _with_ids(
    given: Sequence[LabelQuery], old: Sequence[LabelQuery]
) -> tuple[list[LabelQuery], int]:
    """Assigns ids to queries without one; returns them and the number of duplicate texts.

    A text keeps the id that it has in the project; others get the next free `q1`, `q2`.
    """
    of_text = {edit.text: query.id for query in old for edit in query.edits}
    of_text |= {query.text: query.id for query in old}
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
            query = replace(query, id=id_)
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
        named = ", ".join(sorted(known)[:3]) + (", ..." if len(known) > 3 else "")
        raise UsageError(
            f"{path}: the query {bare!r} has no haystack, but several haystacks ({named}) have "
            "documents with the same ids; give every query a haystack"
        )
    for query in queries:
        if query.haystack and query.haystack not in known:
            raise UsageError(
                f"{path}: the query {query.id!r} is of the haystack {query.haystack!r}, in which "
                f"there is no document{suggest(query.haystack, sorted(known))}"
            )
