"""Times LongMemEval-S at full size with BM25, beside the official script's way on the same file.

    python -m tests.benchmarks.longmemeval [--questions 500] [--repeat 3]

Writes a file of the official format and size (see make_longmemeval) to a temporary folder. Then, in
turn and each in fresh processes, as often as `--repeat` says:

* harness, cold: `harness run` from the raw file to the table, with an empty cache; then prepared,
  with one process and with two;
* the official script's way, written anew after its description: json.load, one rank_bm25 engine a
  question over texts cut at blanks, its metrics; in one process and in two.

Prints medians, and whether both come to the same numbers (k = 5 and 10, 419 questions of S).
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from harness.io.records import read_json_record
from harness.records.scores import ScoreReport
from tests.benchmarks import make_longmemeval
from tests.benchmarks.measure import DATA, Cost, command, harness, machine, markdown, median

KS = (5, 10)
BUDGETS = {"harness, cold": 12, "harness, prepared": 3}


# -- the official script's way ---------------------------------------------------------------------


def one_question(entry: dict[str, Any]) -> dict[str, float] | None:
    """Metrics of one question; None where the official scorer leaves it out."""
    import numpy as np
    from rank_bm25 import BM25Okapi

    texts, ids = [], []
    for id_, turns in zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True):
        said = [turn for turn in turns if turn["role"] == "user"]
        if "answer" in id_ and not any(turn.get("has_answer") for turn in said):
            id_ = id_.replace("answer", "noans")
        texts.append(" ".join(turn["content"] for turn in said))
        ids.append(id_)
    engine = BM25Okapi([text.split(" ") for text in texts])
    scores = engine.get_scores(entry["question"].split(" "))
    relevant = ["answer" in ids[i] for i in np.argsort(-scores, kind="stable")]
    if "_abs" in entry["question_id"] or not any(relevant):
        return None
    found = {}
    for k in KS:
        found[f"hit@{k}"] = float(any(relevant[:k]))
        found[f"recall_all@{k}"] = float(sum(relevant[:k]) == sum(relevant))
        ideal = sorted(relevant, reverse=True)
        found[f"ndcg_b2@{k}"] = _dcg(relevant[:k]) / _dcg(ideal[:k])
    return found


def _dcg(relevant: list[bool]) -> float:
    return relevant[0] + sum(r / math.log2(i) for i, r in enumerate(relevant[1:], 2))


def official(path: Path, processes: int) -> None:
    """Score the file and print the means as JSON."""
    with open(path) as file:
        entries = json.load(file)
    if processes == 1:
        found = [one_question(entry) for entry in entries]
    else:
        with Pool(processes) as pool:
            found = pool.map(one_question, entries)
    scored = [values for values in found if values is not None]
    means = {name: sum(values[name] for values in scored) / len(scored) for name in scored[0]}
    print(json.dumps({"n": len(scored), **means}))


# -- measuring -------------------------------------------------------------------------------------


def run(path: Path, scratch: Path, home: Path, workers: int = 1) -> tuple[Cost, dict[str, float]]:
    """`harness run` on the file; its cost and the means of the official protocol."""
    out = scratch / "results"
    cost, _ = harness(
        *("run", "--dataset", "longmemeval", "--source", str(path), "--granularity", "session"),
        *("--retriever", "bm25-okapi", "--workers", str(workers), "--out", str(out)),
        home=home,
    )
    (scores,) = out.glob("*/scores.json")
    protocols = read_json_record(scores, ScoreReport).protocols
    shutil.rmtree(out)
    block = next(p for p in protocols if p.protocol == "longmemeval-official").slices["all"]
    means = {name: cell.value for name, cell in block.metrics.items()}
    return cost, {"n": block.n, **means}


def rounds(path: Path, scratch: Path) -> Iterator[tuple[str, Cost, dict[str, float]]]:
    """Every way once."""
    home = scratch / "home"
    shutil.rmtree(home, ignore_errors=True)
    yield "harness, cold", *run(path, scratch, home)
    yield "harness, prepared", *run(path, scratch, home)
    yield "harness, prepared, 2 workers", *run(path, scratch, home, workers=2)
    for processes in (1, 2):
        arguments = ["-m", "tests.benchmarks.longmemeval", "--official", str(processes)]
        cost, output = command([sys.executable, *arguments, "--path", str(path)])
        yield f"official way, {processes} process{'es' * (processes > 1)}", cost, json.loads(output)


def main() -> None:
    """Make the file, measure every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--path", type=Path, help="a file made earlier")
    parser.add_argument("--official", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.official:
        official(options.path, options.official)
        return
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        path = options.path or scratch / "longmemeval_s.json"
        if options.path is None:
            sample = DATA / make_longmemeval.SAMPLE
            make_longmemeval.write(path, sample, "s", options.questions, seed=0)
        size = path.stat().st_size / 1e6
        print(f"{size:.0f} MB; medians of {options.repeat}; {machine()}\n")
        costs: dict[str, list[Cost]] = {}
        values: dict[str, dict[str, float]] = {}
        for _ in range(options.repeat):
            for name, cost, means in rounds(path, scratch):
                costs.setdefault(name, []).append(cost)
                values[name] = means
    theirs = values["official way, 1 process"]
    rows = []
    for name, measured in costs.items():
        cost, budget = median(measured), BUDGETS.get(name)
        off = max(abs(values[name][metric] - value) for metric, value in theirs.items())
        equal = f"n {values[name]['n']}, {'equal' if off < 1e-9 else f'off by {off:.1e}'}"
        budget_text = f"{budget} s" if budget else ""
        seconds = [f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.peak:,.0f}"]
        rows.append([name, *seconds, budget_text, equal])
    print(markdown(rows, ["way", "s", "cpu s", "peak MB", "budget", "values"]))


if __name__ == "__main__":
    main()
