"""What a threshold of semantic accuracy tells apart, on LoCoMo: figures of THRESHOLD's docstring.

python -m tests.benchmarks.semantic --source locomo10.json
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.extensions.answers.semantic.accuracy import Asked, HaystackTexts, TextVectors, measured
from harness.extensions.answers.semantic_folder import minilm
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ties, from_dataset, rank_judged
from harness.scoring.resolve import resolve
from harness.stats.correlation import correlations

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
K = 10


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    source = parser.parse_args().source
    turns, facts = (
        open_dataset("locomo", granularity=g, source=source, quiet=True)
        for g in ("turn", "observation")
    )
    pairs(turns, facts)
    for dataset, what in ((turns, "turns"), (facts, "facts")):
        retrieved(turns, dataset, what)


def pairs(turns: Dataset, facts: Dataset) -> None:
    """How often a fact reaches a threshold with its own turn, and with another."""
    embed = minilm().embed
    vectors = TextVectors([*turns.documents.contents(), *facts.documents.contents()], embed)
    own, other, between = [], [], []
    for haystack in range(len(turns.haystack_ids)):
        rows = turns.haystack_rows(haystack)
        place = {id_: at for at, id_ in enumerate(turns.documents.column("id", rows).to_pylist())}
        of_turns = vectors[turns.documents.contents(rows)]
        noted = facts.haystack_rows(haystack)
        cosines = vectors[facts.documents.contents(noted)] @ of_turns.T
        names = facts.documents.column("id", noted).to_pylist()
        for row, name in zip(cosines, names, strict=True):
            at = place[name.partition("#")[0]]
            own.append(row[at])
            other.append(np.delete(row, at))
        square = of_turns @ of_turns.T
        between.append(square[~np.eye(len(square), dtype=bool)])
    kinds = {
        "fact, own turn": np.array(own),
        "fact, other turn": np.concatenate(other),
        "two turns": np.concatenate(between),
    }
    for kind, found in kinds.items():
        shares = "  ".join(f"{t}: {100 * (found >= t).mean():6.2f}%" for t in THRESHOLDS)
        print(f"{kind:18} n {len(found):8}  {shares}")


def retrieved(turns: Dataset, dataset: Dataset, what: str) -> None:
    """Semantic recall of BM25's turns or facts against the gold turns, beside recall by ids."""
    with tempfile.TemporaryDirectory() as out:
        folder = run(
            dataset, RetrieverSpec("bm25-okapi", {}), Settings(k=K), out=Path(out), quiet=True
        )
        rankings = read_rankings(folder / "rankings.parquet")
    ids = Metric("recall", K)(rank_judged(rankings, from_dataset(dataset), Ties.ORDER))
    found = resolve(rankings, dataset)
    texts = dataset.documents.contents()
    returned: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, row in zip(found.query.tolist(), found.row.tolist(), strict=True):
        returned[query].append(texts[row])
    assert dataset.query_ids == turns.query_ids
    judged, gold = turns.qrels(), turns.documents.contents()
    asked = []
    for query in range(turns.n_queries):
        mine = (judged.query == query) & (judged.grade >= 1) & (judged.document >= 0)
        rows = judged.document[mine].tolist()
        haystack = int(turns.query_haystack[query])
        asked.append(
            Asked(returned[query], [gold[r] for r in rows], range(len(rows)), len(rows), haystack)
        )
    haystacks = HaystackTexts(
        [
            dataset.documents.contents(dataset.haystack_rows(h))
            for h in range(len(turns.haystack_ids))
        ],
        sampled=False,
    )
    model = minilm()
    for threshold in THRESHOLDS:
        accuracy = measured(asked, haystacks, (K,), threshold, lambda: model)
        values = accuracy.per_query[f"semantic_recall@{K}"]
        both = ~(np.isnan(values) | np.isnan(ids))
        r = correlations(values[both], ids[both], turns.query_haystack[both])["pearson"]
        assert r.value is not None
        chance = np.nanmean(accuracy.random_baseline[f"semantic_recall@{K}"])
        print(
            f"BM25 over {what}, {threshold}: semantic {values[both].mean():.4f}, by ids "
            f"{ids[both].mean():.4f}, random {chance:.4f}, "
            f"r {r.value:.2f} ({r.low:.2f} to {r.high:.2f}), n {both.sum()}"
        )


if __name__ == "__main__":
    main()
