"""Why a run missed evidence: every missed piece with its cause, from rankings and judgements."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.dataset.reader import Dataset
from harness.runs.folder.run_folder import RunFolder
from harness.schema import Ability
from harness.verdicts.analyze.analysis import Analysis, QueryMisses
from harness.verdicts.analyze.causes import LOW_SIMILARITY
from harness.verdicts.analyze.corrected import CorrectedDataset, both_keys, cells, corrected
from harness.verdicts.analyze.errata import read_errata
from harness.verdicts.analyze.explain import explain
from harness.verdicts.analyze.pieces import pieces
from harness.verdicts.analyze.scored_run import ScoredAt
from harness.verdicts.analyze.similarity import Embed


def analyze(
    folder: str | Path,
    dataset: Dataset,
    k: int = 10,
    *,
    errata: str | Path | None = None,
    embed: Embed | None = None,
) -> Analysis:
    """Say of every piece of evidence that is not in the top k why it is not (see causes.py).

    `folder` is a run folder, `dataset` what it was run on; nothing is written. `errata` is a file
    that corrects the answer key (see errata.py). `embed` gives texts vectors of length 1, for the
    rule of low similarity, whose threshold is meant for `minilm.unit_vectors`.

    Raises UsageError for what is no run folder, rankings that are shorter than k, and an errata
    file that does not fit the dataset.
    """
    run = RunFolder(Path(folder))
    at = ScoredAt(run, dataset, k)
    overlay = None if errata is None else read_errata(Path(errata), dataset)
    judged = dataset.judgements()
    found = pieces(dataset, judged, at.ranked, at.scored, k)
    missed = found.take(np.flatnonzero(found.rank > k))
    records = explain(at, missed, overlay, embed)
    by_query: dict[int, list[int]] = {}
    for piece, query in enumerate(missed.query.tolist()):
        by_query.setdefault(query, []).append(piece)
    counts = np.bincount(found.query, minlength=dataset.n_queries)
    queries = [
        QueryMisses(
            dataset.query_ids[query],
            query,
            str(dataset.abilities[query]),
            str(dataset.categories[query]),
            int(counts[query]),
            float(at.recall[query]),
            tuple(records[piece] for piece in mine),
        )
        for query, mine in by_query.items()
    ]
    queries.sort(key=lambda query: (-len(query.missed), query.recall, query.row))
    record = run.record
    both = None
    if overlay is not None:
        key = CorrectedDataset(dataset, corrected(judged, overlay, dataset))
        both = both_keys(dataset, overlay, at.scores, at.score(key), at.answered.counted)
    return Analysis(
        run=run.path.resolve().name,
        system=record["retriever"]["name"],
        dataset=at.scores.summary["dataset"],
        k=k,
        depth=at.depth,
        scored=int(at.scored.sum()),
        left_out=at.left_out,
        pieces={
            str(ability): n
            for ability in Ability
            if (n := int(counts[dataset.abilities == str(ability)].sum()))
        },
        cells={
            name: {m: cell for m, cell in part.items() if m in (f"recall@{k}", f"hit@{k}")}
            for name, part in cells(at.scores).items()
        },
        queries=tuple(queries),
        similarity=None if embed is None else LOW_SIMILARITY,
        errata=both,
    )
