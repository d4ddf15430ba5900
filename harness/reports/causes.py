"""Why evidence was missed, by the rules of `harness analyze`: part of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.analysis.analyze.analysis import QueryMisses, bands
from harness.analysis.analyze.analyze import PROTOCOL, Seen, misses
from harness.analysis.analyze.causes import Cause, Place, rules
from harness.reports.material import Material
from harness.reports.records import MissCauses, MissedEvidence
from harness.runs.folder.run_folder import RunFolder

K = 10
"""Evidence below it is missed, as for `harness analyze`; a lower cut-off for short rankings."""


CauseOf = dict[tuple[int, str], str]
"""The cause of each missed document, by row of the query and id of the document."""


def causes(materials: Sequence[Material]) -> tuple[MissCauses | None, list[CauseOf]]:
    """Returns what each run missed, by cause and ability, with the rules in words; and its causes.

    None and nothing where evidence is not scored as `harness analyze` looks at it.
    """
    block = (PROTOCOL, materials[0].dataset.manifest.granularity)
    if not all(block in one.run.blocks for one in materials):
        return None, []
    scored = set.intersection(*(set(one.metrics(block)) for one in materials))
    k = max((k for k in range(1, K + 1) if f"recall@{k}" in scored), default=None)
    if k is None:
        return None, []
    found = [misses(_seen(material, k)) for material in materials]
    missed = {cause for _, queries in found for query in queries for cause in query.causes}
    names = [cause for cause in Cause if cause in missed]
    report = MissCauses(
        k=k,
        names=[str(cause) for cause in names],
        rules=[rules()[cause] for cause in names],
        runs=[
            _run(*one, k, material.depth) for one, material in zip(found, materials, strict=True)
        ],
    )
    return report, [_of(queries) for _, queries in found]


def _seen(material: Material, k: int) -> Seen:
    dataset = material.dataset
    return Seen(
        dataset=dataset,
        k=k,
        depth=material.run.run_record.settings.k,
        texts=RunFolder(material.run.folder).hits.is_file(),
        resolved=material.resolved,
        ranked=material.ranked,
        recall=material.values((PROTOCOL, dataset.manifest.granularity), f"recall@{k}"),
    )


def _run(
    pieces: dict[str, int], queries: Sequence[QueryMisses], k: int, depth: int
) -> MissedEvidence:
    missed = [piece for query in queries for piece in query.missed]
    counts: dict[str, Counter[Cause]] = {ability: Counter() for ability in pieces}
    for query in queries:
        counts[query.ability].update(piece.cause for piece in query.missed)
    ranks = [piece.rank for piece in missed if piece.rank is not None]
    places = Counter(piece.place for piece in missed)
    return MissedEvidence(
        evidence=pieces,
        missed=len(missed),
        queries=len(queries),
        counts={
            ability: {str(cause): n for cause, n in mine.items()}
            for ability, mine in counts.items()
        },
        rank_bands=[
            (low, high, sum(low <= rank <= high for rank in ranks)) for low, high in bands(k, depth)
        ],
        not_ranked={str(place): places[place] for place in Place if place is not Place.BELOW},
        adjacent=sum(piece.beside for piece in missed),
        same_session=sum(piece.session for piece in missed),
    )


def _of(queries: Sequence[QueryMisses]) -> CauseOf:
    return {
        (query.row, name): str(piece.cause)
        for query in queries
        for piece in query.missed
        for name in piece.documents
    }
