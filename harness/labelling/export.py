"""A labelled project as a dataset that `--dataset labelled` reads, and how it was made.

* documents.jsonl, queries.jsonl, qrels.jsonl; or qrels/SPLIT.tsv where queries carry a split
* labelling.json: annotators, n, agreement, depth and systems of the pool, what was left out
* README.md: the same for people

Every grade of a query that is judged to the end is kept, 0 too, so that judged@k can be told; one
below the grade from which on documents count as evidence (`relevant_from`) becomes 0. A
query that cannot be answered becomes one of ability abstention without a relevant document.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import harness
from harness.dataset.adapters.labelled_files import SETTINGS
from harness.errors import UsageError
from harness.files import digest, folder_aside, write_bytes, write_json
from harness.labelling.consensus import Consensus, consensus, decided, held_by_all
from harness.labelling.folder import CONSTRUCTION, Project, Record, as_lines
from harness.labelling.readme import readme
from harness.labelling.records import Judgements
from harness.labelling.scores import Finished, finished
from harness.labelling.status import measures
from harness.rankings.fields import QUERIES
from harness.schema import Ability

RULES = ("refuse", "lower", "higher")
"""What becomes of open conflicts."""


@dataclass(frozen=True)
class Exported:
    """The folder of a dataset, and its manifest."""

    folder: Path
    manifest: dict[str, Any]


def export(
    folder: Path, out: Path | None = None, *, conflicts: str = "refuse", unfinished: bool = False
) -> Exported:
    """Write the dataset of a project to `out` (FOLDER/dataset).

    `conflicts`: `refuse`, or take the `lower` grade (and believe who says that a query cannot be
    answered) or the `higher` (and do not): metrics under both are bounds of what settling them
    would give. `unfinished` takes queries in that have candidates without a judgement.

    Raises UsageError for a folder that is no project, open conflicts where they are refused,
    nothing to export, and an `out` that holds something else.
    """
    if conflicts not in RULES:
        raise UsageError(f"--conflicts must be one of {', '.join(RULES)}, not {conflicts!r}")
    project = Project.read(folder)
    if project.scale.thing == "answer":
        raise UsageError(
            f"{folder}: holds judgements of answers, which are no dataset; take them in with "
            f"`{project.scale.then(folder)}`"
        )
    out = folder / "dataset" if out is None else out
    _check_out(out)
    held = held_by_all(project)
    built, settled = project.journal(CONSTRUCTION).held, project.resolved().held
    found = consensus(project, held, built, settled)
    if found.open and conflicts == "refuse":
        raise UsageError(_open_words(project, found))
    agreed = found if not found.open else decided(project, found, conflicts)
    done = finished(project, agreed)
    queries = _exported(project, agreed, done, unfinished=unfinished)
    if not queries:
        raise UsageError(
            f"{folder}: no query is judged to the end, so there is nothing to export yet; "
            f"`harness label status {folder}` tells what is left, --unfinished takes what is there"
        )
    grades, lowered = _grades(project, agreed, queries)
    manifest = _manifest(project, held, built, settled, found, agreed, done, queries, grades)
    manifest["conflicts"]["rule"] = conflicts
    manifest["counts"]["lowered_to_0"] = lowered
    manifest["unfinished_taken_in"] = unfinished
    with folder_aside(out) as aside:
        splits = _write(aside, project, agreed, queries, grades)
        manifest["splits"] = splits
        write_json(aside / "labelling.json", manifest)
        write_bytes(aside / "README.md", readme(manifest).encode())
    return Exported(out, manifest)


def _check_out(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / "labelling.json").is_file():
        raise UsageError(f"--out {out}: holds something else; name a folder that is not there yet")


def _open_words(project: Project, found: Consensus) -> str:
    kinds = Counter(one.kind for one in found.open)
    said = ", ".join(f"{n} of {kind}" for kind, n in kinds.items())
    n = len(found.open)
    return (
        f"{project.folder}: {n} conflict{'s are' if n > 1 else ' is'} open ({said}); settle them "
        f"with `harness label resolve {project.folder}`, or take --conflicts lower or higher"
    )


def _exported(
    project: Project, agreed: Consensus, done: Finished, *, unfinished: bool
) -> list[str]:
    taken = {*done.scorable, *done.bare, *done.unanswerable}
    if unfinished:
        begun = {query for query, _ in agreed.grades}
        taken |= {query for query in done.open if query in begun}
    return [query for query in project.query if query in taken]


def _grades(
    project: Project, agreed: Consensus, queries: list[str]
) -> tuple[dict[str, dict[str, int]], int]:
    """Grades by query, and how many became 0 because their query cannot be answered."""
    found: dict[str, dict[str, int]] = {}
    lowered = 0
    for query in queries:
        found[query] = {}
        for candidate in project.candidates[query]:
            grade = agreed.grades.get((query, candidate.document))
            if grade is None:
                continue
            if grade < project.relevant_from:
                grade = 0
            elif agreed.unanswerable.get(query):
                grade, lowered = 0, lowered + 1
            found[query][candidate.document] = grade
    return found, lowered


def _manifest(
    project: Project,
    held: dict[str, Judgements],
    built: Judgements,
    settled: Judgements,
    found: Consensus,
    agreed: Consensus,
    done: Finished,
    queries: list[str],
    grades: dict[str, dict[str, int]],
) -> dict[str, Any]:
    by_people = {pair for one in held.values() for pair in one.grades} | set(settled.grades)
    pairs = [(query, document) for query, of in grades.items() for document in of]
    kept = set(queries)
    abilities = Counter(_ability(project, agreed, query) or Ability.LOOKUP for query in queries)
    journals = sorted((project.folder / "judgements").glob("*.jsonl"))
    return {
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "harness": harness.__version__,
        "project": project.folder.resolve().name,
        "relevant_from": project.relevant_from,
        "sources": project.settings.get("sources", []),
        "generated": project.settings.get("generated"),
        "pool": {
            "k": project.k,
            "seed": project.seed,
            "systems": project.settings.get("systems", []),
            "candidates": len(project.pool),
        },
        "annotators": [
            {
                "name": name,
                "grades": len(one.grades),
                "unanswerable": sum(one.unanswerable.values()),
            }
            for name, one in held.items()
        ],
        "agreement": [measure.record() for measure in measures(project, held)],
        "conflicts": {
            "found": len(found.conflicts),
            "settled": sum(not one.open for one in found.conflicts),
            "open": len(found.open),
        },
        "counts": {
            "documents": len(project.documents),
            "queries": len(queries),
            "judgements": len(pairs),
            "grades": {
                str(grade): sum(g == grade for of in grades.values() for g in of.values())
                for grade in range(4)
            },
            "judged_by_two_or_more": sum(
                sum(pair in one.grades for one in held.values()) >= 2 for pair in pairs
            ),
            "by_construction": sum(
                pair in built.grades and pair not in by_people for pair in pairs
            ),
            "abilities": {str(name): n for name, n in sorted(abilities.items())},
            "ability_unknown": sum(_ability(project, agreed, query) is None for query in queries),
            "without_relevant": len(kept & set(done.bare)),
            "unanswerable": len(kept & set(done.unanswerable)),
            "unanswerable_unconfirmed": sum(
                not any(one.unanswerable.get(query) for one in (*held.values(), settled))
                for query in kept & set(done.unanswerable)
            ),
            "unfinished": len(kept & set(done.open)),
            "proposals_not_judged": sum(
                one.query in kept
                and one.proposed is not None
                and one.document not in grades[one.query]
                for one in project.pool
            ),
        },
        "left_out": {
            "queries_not_judged_to_the_end": len(set(done.open) - kept),
        },
        "journals": {path.name: digest(path) for path in journals},
    }


def _ability(project: Project, agreed: Consensus, query: str) -> str | None:
    """The ability that the exported query carries; None where nobody chose one."""
    if agreed.unanswerable.get(query):
        return Ability.ABSTENTION
    own = project.query[query].get("ability")
    return agreed.abilities.get(query) or (None if own == Ability.ABSTENTION else own)


def _write(
    folder: Path,
    project: Project,
    agreed: Consensus,
    queries: list[str],
    grades: dict[str, dict[str, int]],
) -> dict[str, int] | None:
    """Write the dataset's files; returns the number of queries by split, None where none has one.

    A query without a split, where others have one, is of `test`.
    """
    records = []
    for query in queries:
        ability = _ability(project, agreed, query)
        record = {name: v for name, v in project.query[query].items() if name != "ability"}
        records.append(record if ability is None else {**record, "ability": ability})
    split = any(record.get("split") for record in records)
    if split:
        records = [{**record, "split": record.get("split") or "test"} for record in records]
    write_bytes(folder / "documents.jsonl", as_lines(project.documents))
    write_bytes(folder / "queries.jsonl", as_lines(records))
    known = {*QUERIES.names} - {"relevant"}  # what was judged here counts, not what a file held
    others = sorted({name for record in records for name in record} - known)
    if others:  # else `labelled` would refuse what it does not know
        names = ", ".join(map(json.dumps, others))
        write_bytes(folder / SETTINGS, f"[ignore]\nqueries = [{names}]\n".encode())
    if not split:
        lines: list[Record] = [
            {"query": query, "document": document, "grade": grade}
            for query, of in grades.items()
            for document, grade in of.items()
        ]
        if not lines:
            n = len(agreed.grades)
            said = (
                f"no query is judged to the end ({n} grades are there); --unfinished takes what is"
                if n
                else "not one document was judged; nothing to export"
            )
            raise UsageError(f"{project.folder}: {said}")
        write_bytes(folder / "qrels.jsonl", as_lines(lines))
        return None
    for name in {record["split"] for record in records}:
        rows = ["query-id\tcorpus-id\tscore"]
        for record in records:
            for document, grade in grades[record["id"]].items():
                if record["split"] == name:
                    rows.append(_row(record["id"], document, grade))
        write_bytes(folder / "qrels" / f"{name}.tsv", ("\n".join(rows) + "\n").encode())
    return dict(sorted(Counter(record["split"] for record in records).items()))


def _row(query: str, document: str, grade: int) -> str:
    for id_ in (query, document):
        if "\t" in id_ or "\n" in id_:
            raise UsageError(f"the id {id_!r} holds a tab or a line end, which qrels cannot carry")
    return f"{query}\t{document}\t{grade}"
