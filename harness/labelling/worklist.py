"""What an annotator is asked, and in which order.

Queries come in one random order for everybody, so that those that were judged when somebody stops
are a random sample of all; a share of them, the first ones, is everybody's. A query of the rest
belongs to who judges it first. The documents of a query come in an order of each annotator's own,
which says nothing of systems and ranks. All orders come from the project's seed and the ids alone:
they hold from one day to the next, and what is added later falls in between.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from harness.labelling.folder import CONSTRUCTION, Project
from harness.labelling.records import Judgements

Place = tuple[str, str | None]
"""A query, and the document to be judged for it; None for a query without any."""


def query_order(project: Project) -> list[str]:
    """All queries, in the project's random order."""
    return sorted(project.query, key=lambda query: _number(project.seed, "queries", query))


def shared_queries(project: Project) -> list[str]:
    """The queries that every annotator judges."""
    ordered = query_order(project)
    return ordered[: math.ceil(len(ordered) * float(project.settings.get("overlap", 1.0)))]


def worklist(
    project: Project, annotator: str, own: Judgements, others: Iterable[Judgements]
) -> list[Place]:
    """Everything that `annotator` is asked, in order; `own` is what was judged, `others` by others.

    What construction judged is left out, and so is a query outside the shared ones that another
    annotator has begun, and this one has not.
    """
    shared = shared_queries(project)
    rest = [query for query in query_order(project) if query not in set(shared)]
    if rest:
        taken = {query for held in others for query in touched(held)} - touched(own)
        rest = [query for query in rest if query not in taken]
        rest.sort(key=lambda query: _number(project.seed, annotator, query))
    built = project.journal(CONSTRUCTION).held.grades
    places: list[Place] = []
    for query in (*shared, *rest):
        candidates = project.candidates[query]
        asked = [c.document for c in candidates if (query, c.document) not in built]
        asked.sort(key=lambda document: _number(project.seed, annotator, query, document))
        places += [(query, document) for document in asked]
        if not candidates:
            places.append((query, None))
    return places


def touched(held: Judgements) -> set[str]:
    """Queries of which something was judged."""
    return {query for query, _ in held.grades} | set(held.unanswerable) | set(held.abilities)


def is_done(place: Place, held: Judgements) -> bool:
    """Whether nothing more is asked there: it was graded, or its query cannot be answered."""
    query, document = place
    if held.unanswerable.get(query):
        return True
    if document is None:
        return query in held.unanswerable
    return (query, document) in held.grades


def _number(seed: int, *names: str) -> bytes:
    """A number as good as random, for sorting by."""
    return hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=8).digest()
