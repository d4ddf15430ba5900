"""Two retrievers compared in use: readers of the sample ask its questions, each sees one system.

python "$(harness examples ab_test.py)"                     # then: harness abtest ab-test
python "$(harness examples ab_test.py)" --readers 2000
"""

import argparse
import random
from pathlib import Path

from harness import ABTest, RetrieverSpec, open_dataset
from harness.retrievers.outputs import as_result
from harness.runs.blinding import BlindedCorpus

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--readers", type=int, default=600)
options.add_argument("--folder", type=Path, default=Path("ab-test"))
options = options.parse_args()

dataset = open_dataset("sample")
views = [BlindedCorpus(dataset, haystack, seed=0) for haystack in range(len(dataset.haystack_ids))]
questions = dataset.query_table["text"].to_pylist()
row_of = {text: row for row, text in enumerate(questions)}
judged = dataset.qrels()
relevant = [
    set(judged.document[(judged.query == row) & (judged.grade > 0)].tolist())
    for row in range(dataset.n_queries)
]
asked = [row for row in range(dataset.n_queries) if relevant[row]]


def system(name):
    """Returns a function retrieve(question, k) that returns document rows, best first."""
    indexed = [RetrieverSpec(name).build() for _ in views]
    for retriever, view in zip(indexed, views, strict=True):
        retriever.index(view.corpus)

    def retrieve(question, k):
        row = row_of[question]
        haystack = dataset.query_haystack[row]
        [found] = indexed[haystack].search([views[haystack].question(row)], k)
        ids = as_result(found).ids
        return [int(views[haystack].rows[place]) for place in ids]

    retrieve.__name__ = name
    return retrieve


bm25, tfidf = system("bm25"), system("tfidf")
chance = random.Random(0)


def click(ranking, row):
    """Simulates clicks: mostly on relevant documents, and less often at lower ranks."""
    seen = [d for place, d in enumerate(ranking) if chance.random() < 0.85**place]
    return [d for d in seen if chance.random() < (0.6 if d in relevant[row] else 0.05)]


# Split traffic: each reader is always assigned to the same system.
log = options.folder / "split.jsonl"
metrics = {"recall@10": (0, 1), "click": (0, 1), "seconds": (0, 60)}
with ABTest(
    bm25, tfidf, name="split", log=log, metrics=metrics, min_effects={"click": 0.05}
) as test:
    for _ in range(3 * options.readers):
        reader, row = f"reader {chance.randrange(options.readers)}", chance.choice(asked)
        answer = test.search(questions[row], 10, unit_id=reader)
        recall = len(relevant[row] & set(answer.result)) / len(relevant[row])
        clicked = float(bool(click(answer.result, row)))
        test.record(reader, {"recall@10": recall, "click": clicked, "seconds": answer.seconds})
    print(test.report())

# Interleaving: each reader sees the results of both systems in one ranking.
print()
log = options.folder / "interleaved.jsonl"
with ABTest(bm25, tfidf, name="interleaved", log=log, interleave=True) as test:
    for visit in range(3 * options.readers):
        reader, row = f"reader {chance.randrange(options.readers)}", chance.choice(asked)
        rankings = [[str(d) for d in find(questions[row], 10)] for find in (bm25, tfidf)]
        shown = test.interleave(*rankings, 10, reader, impression=visit)
        clicked = click([int(d) for d in shown.documents], row)
        test.record_clicks(reader, shown, [str(d) for d in clicked])
    print(test.report())
