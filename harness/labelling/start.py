"""Begins a labelling project, or adds to one: queries, documents, systems, a deeper pool.

Nothing is ever taken out: what was judged stays judged, and a candidate that no system finds any
more stays in the pool.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import digest
from harness.labelling.folder import Project, Record, haystacks
from harness.labelling.pool import Pooled, System, read_queries, top_k
from harness.labelling.records import GRADES, Candidate

DEPTH = 10
"""Of the pool, where nobody says otherwise."""


_LOCK = ".start.lock"


@dataclass
class Started:
    """A project, and what `start` has to say: what was added, and what to beware of."""

    project: Project
    new: bool
    added: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything was added."""
        return self.new or any(self.added.values())


def start(
    folder: Path,
    documents: Path,
    queries: Path,
    systems: Sequence[System] = (),
    *,
    k: int | None = None,
    seed: int | None = None,
    overlap: float | None = None,
    relevant_from: int | None = None,
    quiet: bool = True,
) -> Started:
    """Pool the top `k` of the systems for the queries into a project below `folder`.

    On a folder that holds a project it goes on: its own systems and depth hold where none are
    given, and whatever is new is added; all systems are asked again, so that their ranks are of the
    same documents. Raises UsageError for what cannot be read, for a document or query that has
    another text than in the project, for a seed or a depth that contradicts it, and what a run
    raises.
    """
    _check(k, seed, overlap, relevant_from)
    with alone(folder):
        return _start(folder, documents, queries, systems, k, seed, overlap, relevant_from, quiet)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else begins or widens the project meanwhile; the folder is there.

    Raises UsageError for a folder that is somebody's, and while another is at it.
    """
    _refuse_others(folder)
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"{folder}: another `harness label` is at it; wait for it") from None
    try:
        yield
    finally:
        lock.release()


def _refuse_others(folder: Path) -> None:
    """Raises UsageError for a folder that holds files and is no project: they are somebody's.

    The lock tells a project that was stopped before it was whole.
    """
    if not folder.is_dir() or any((folder / name).is_file() for name in ("label.json", _LOCK)):
        return
    theirs = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if theirs:
        shown = ", ".join(theirs[:3]) + (", ..." if len(theirs) > 3 else "")
        raise UsageError(
            f"{folder}: is no labelling project and is not empty ({shown}); name a new folder with "
            "--out"
        )


def _start(
    folder: Path,
    documents: Path,
    queries: Path,
    systems: Sequence[System],
    k: int | None,
    seed: int | None,
    overlap: float | None,
    relevant_from: int | None,
    quiet: bool,
) -> Started:
    from harness.labelling.generate.sources import read

    new = not (folder / "label.json").is_file()
    old = Project(folder, {}, [], [], []) if new else Project.read(folder)
    if not new and seed not in (None, old.seed):
        raise UsageError(
            f"--seed {seed}: {folder} was begun with seed {old.seed}, from which every order there "
            "comes; leave it out, or name another folder with --out"
        )
    if not new and k is not None and k < old.k:
        raise UsageError(
            f"--k {k}: the pool of {folder} is {old.k} deep already, and a pool never shrinks; "
            "leave it out, or name another folder with --out"
        )
    started = Started(old, new)
    found = read(documents)
    if found.empty:
        started.warnings.append(f"empty documents: {len(found.empty)}, first {found.empty[0]!r}")
    all_documents = _merged(
        old.documents,
        [dict(source.record) for source in found.sources],
        lambda d: (d["id"], *haystacks(d)),
        documents,
        "document",
    )
    given, repeated = _with_ids(read_queries(queries), old.queries)
    if repeated:
        started.warnings.append(
            f"queries that stand twice, letter for letter, of which one is kept: {repeated}"
        )
    all_queries = _merged(old.queries, given, lambda q: q["id"], queries, "query")
    _check_haystacks(all_documents, all_queries, queries)
    known = [
        System.of(s["name"], s["params"], s.get("plugins", ()))
        for s in old.settings.get("systems", [])
    ]
    wanted = {system.name: system for system in (*known, *systems)}
    if not wanted:
        raise UsageError("--retriever is missing: name two or more systems to pool")
    depth = max(k or old.k or DEPTH, old.k)
    started.added = {
        "documents": len(all_documents) - len(old.documents),
        "queries": len(all_queries) - len(old.queries),
        "systems": len(wanted) - len(known),
        "depth": depth - old.k,
    }
    settings: Record = {
        **old.settings,
        "k": depth,
        "seed": old.seed if seed is None else seed,
        "overlap": old.settings.get("overlap", 1.0) if overlap is None else overlap,
    }
    if relevant_from is not None:
        settings["relevant_from"] = relevant_from
        if not new and relevant_from != old.relevant_from and old.annotators():
            started.warnings.append(
                f"grades count as evidence from {relevant_from} on, and counted from "
                f"{old.relevant_from} on when {', '.join(old.annotators())} judged: what they "
                "graded stands, and is read the new way"
            )
    pool = old.pool
    if started.changed:
        pooled = top_k(
            list(wanted.values()),
            all_documents,
            all_queries,
            k=depth,
            seed=settings["seed"],
            place=folder / ".pooling",
            quiet=quiet,
        )
        pool = merged_pool(old.pool, pooled, [query["id"] for query in all_queries])
        settings["systems"] = [one.record for one in pooled]
        settings["sources"] = _sources(old, documents, queries, started.added)
        started.warnings += [
            f"{one.record['system']} failed on {one.failed} queries, which have none of its "
            "documents in the pool"
            for one in pooled
            if one.failed
        ]
    if len(wanted) == 1:
        started.warnings.append(
            f"only {next(iter(wanted))} is pooled: what it does not find is never judged, so the "
            "key would favour it; add a system of another kind with --retriever"
        )
    started.added["candidates"] = len(pool) - len(old.pool)
    started.project = Project(folder, settings, all_documents, all_queries, pool)
    if started.changed or settings != old.settings:
        started.project.write()
    bare = sum(not of_query for of_query in started.project.candidates.values())
    if bare:
        started.warnings.append(
            f"no system found anything for {bare} of the {len(all_queries)} queries: they have no "
            "candidate, and can only be said to be answerable or not"
        )
    return started


def merged_pool(
    old: Sequence[Candidate], pooled: Sequence[Pooled], queries: Sequence[str]
) -> list[Candidate]:
    """The union of what systems found, and of what was in the pool, by query.

    Ranks are the new ones; a candidate that no system has any more has none.
    """
    proposed = {(one.query, one.document): one.proposed for one in old}
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
                system.record["system"]: rank
                for system in pooled
                if (rank := system.ranks.get(query, {}).get(document)) is not None
            }
            found.append(Candidate(query, document, ranks, proposed.get((query, document))))
    return found


def _check(
    k: int | None, seed: int | None, overlap: float | None, relevant_from: int | None
) -> None:
    if relevant_from not in (None, *GRADES[1:]):
        raise UsageError(f"--relevant-from is a grade, 1, 2 or 3, not {relevant_from}")
    if k is not None and k < 1:
        raise UsageError(f"--k must be 1 or more, not {k}")
    if seed is not None and seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    if overlap is not None and not 0 <= overlap <= 1:
        raise UsageError(f"--overlap is a share of the queries, from 0 to 1, not {overlap}")


def _merged(
    old: list[Record],
    given: list[Record],
    key: Callable[[Record], Any],
    path: Path,
    what: str,
) -> list[Record]:
    """The old records and those of the given ones that are new.

    Raises UsageError where one that was there has another text, title or haystack now: judgements
    of it would be about something else. Other fields are those that were given last.
    """
    merged = {key(record): record for record in old}
    for record in given:
        before = merged.get(key(record))
        changed = before is not None and [
            name
            for name in ("text", "title", "haystack")
            if (before.get(name) or "") != (record.get(name) or "")
        ]
        if changed:
            raise UsageError(
                f"{path}: the {what} {record['id']!r} has another {changed[0]} than in the "
                f"project, so its judgements would be about something else; give the new one an "
                "id of its own, or name another folder with --out"
            )
        merged[key(record)] = record
    return list(merged.values())


def _with_ids(given: list[Record], old: list[Record]) -> tuple[list[Record], int]:
    """Ids for queries without one, and how many stood twice.

    The same text keeps the id that it has in the project; others get the next free `q1`, `q2`.
    """
    of_text = {query["text"]: query["id"] for query in old}
    taken = {query["id"] for query in (*old, *given) if "id" in query}
    found: dict[str, Record] = {}
    repeated, number = 0, 0
    for query in given:
        if "id" not in query:
            id_ = of_text.get(query["text"])
            while id_ is None:
                number += 1
                id_ = f"q{number}" if f"q{number}" not in taken else None
            taken.add(id_)
            of_text[query["text"]] = id_
            query = {"id": id_, **query}
            repeated += id_ in found
        found.setdefault(query["id"], query)
    return list(found.values()), repeated


def _check_haystacks(documents: list[Record], queries: list[Record], path: Path) -> None:
    known = {name for document in documents for name in haystacks(document)}
    ids = [document["id"] for document in documents]
    bare = next((query["id"] for query in queries if not query.get("haystack")), None)
    if known and bare is not None and len(set(ids)) < len(ids):
        named = ", ".join(sorted(known)[:3])
        raise UsageError(
            f"{path}: the query {bare!r} names no haystack, but the documents are in several "
            f"({named}{', ...' if len(known) > 3 else ''}) with the same ids in each; give every "
            "query its haystack"
        )
    for query in queries:
        name = query.get("haystack")
        if name and name not in known:
            raise UsageError(
                f"{path}: the query {query['id']!r} is of the haystack {name!r}, in which there is "
                f"no document{near(name, sorted(known))}"
            )


def _sources(old: Project, documents: Path, queries: Path, added: dict[str, int]) -> list[Record]:
    """What label.json says of where everything came from; names of files, no paths."""
    sources = list(old.settings.get("sources", []))
    for role, path in (("documents", documents), ("queries", queries)):
        if added[role]:
            sha256 = _digest(path)
            sources.append(
                {"role": role, "file": path.name, "sha256": sha256, "added": added[role]}
            )
    return sources


def _digest(path: Path) -> str:
    """The sha256 of a file; of a folder, that of its files' names and hashes."""
    if path.is_file():
        return digest(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = [f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
