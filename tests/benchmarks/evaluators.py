"""Other evaluators and ours, each from a TREC file and from dictionaries, to the same metrics.

Each way imports its library and returns two functions: the first is timed, the second brings what
it returned into the form that is compared. A folder holds `run.trec` and `qrels.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

METRICS = [
    "ndcg@10",
    "mrr@10",
    "map",
    "recall@1",
    "recall@5",
    "recall@10",
    "recall@100",
    "recall@1000",
    "precision@10",
]

Values = dict[str, Any]
"""Metric -> {query: value}, or the mean alone."""
Dict = dict[str, dict[str, float]]
Way = tuple[Callable[[], Any], Callable[[Any], Values]]


def dictionaries(folder: Path) -> tuple[dict[str, dict[str, int]], Dict]:
    """Qrels and run as every library takes them."""
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.txt").read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    run: Dict = {}
    with open(folder / "run.trec") as file:
        for line in file:
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, {})[document] = float(score)
    return qrels, run


def harness_file(folder: Path) -> Way:
    from harness.scoring.evaluate import evaluate

    return lambda: evaluate(folder / "qrels.txt", folder / "run.trec", METRICS), _of_harness


def harness_dicts(folder: Path) -> Way:
    from harness.scoring.evaluate import evaluate

    qrels, run = dictionaries(folder)
    return lambda: evaluate(qrels, run, METRICS), _of_harness


def _of_harness(found: Any) -> Values:
    return {
        name: dict(zip(found.query_ids, values.tolist(), strict=True))
        for name, values in found.per_query.items()
    }


PYTREC_EVAL = {"ndcg_cut.10", "recip_rank", "map", "recall.1,5,10,100,1000", "P.10"}


def pytrec_eval_file(folder: Path) -> Way:
    import pytrec_eval

    def work() -> Any:
        with open(folder / "qrels.txt") as file:
            qrels = pytrec_eval.parse_qrel(file)
        with open(folder / "run.trec") as file:
            run = pytrec_eval.parse_run(file)
        return pytrec_eval.RelevanceEvaluator(qrels, PYTREC_EVAL).evaluate(run)

    return work, _of_pytrec_eval


def pytrec_eval_dicts(folder: Path) -> Way:
    import pytrec_eval

    qrels, run = dictionaries(folder)
    return lambda: pytrec_eval.RelevanceEvaluator(qrels, PYTREC_EVAL).evaluate(run), _of_pytrec_eval


def _of_pytrec_eval(found: Any) -> Values:
    names = {"ndcg_cut_10": "ndcg@10", "recip_rank": "mrr@10", "map": "map", "P_10": "precision@10"}
    names |= {f"recall_{k}": f"recall@{k}" for k in (1, 5, 10, 100, 1000)}
    values = {
        ours: {query: of[theirs] for query, of in found.items()} for theirs, ours in names.items()
    }
    # It has no reciprocal rank with a cut-off: what is below 1/10 stands below rank 10.
    values["mrr@10"] = {q: v if v >= 0.1 else 0.0 for q, v in values["mrr@10"].items()}
    return values


def ranx_file(folder: Path) -> Way:
    import ranx

    def work() -> Any:
        qrels = ranx.Qrels.from_file(str(folder / "qrels.txt"), kind="trec")
        run = ranx.Run.from_file(str(folder / "run.trec"), kind="trec")
        return ranx.evaluate(qrels, run, METRICS)

    return work, dict


def ranx_dicts(folder: Path) -> Way:
    import ranx

    qrels, run = dictionaries(folder)
    return lambda: ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), METRICS), dict


IR_MEASURES = {
    "nDCG@10": "ndcg@10",
    "RR@10": "mrr@10",
    "AP": "map",
    **{f"R@{k}": f"recall@{k}" for k in (1, 5, 10, 100, 1000)},
    "P@10": "precision@10",
}


def ir_measures_file(folder: Path) -> Way:
    import ir_measures

    measures = [ir_measures.parse_measure(text) for text in IR_MEASURES]
    return lambda: ir_measures.calc_aggregate(
        measures,
        ir_measures.read_trec_qrels(str(folder / "qrels.txt")),
        ir_measures.read_trec_run(str(folder / "run.trec")),
    ), _of_ir_measures


def ir_measures_dicts(folder: Path) -> Way:
    import ir_measures

    measures = [ir_measures.parse_measure(text) for text in IR_MEASURES]
    qrels, run = dictionaries(folder)
    return lambda: ir_measures.calc_aggregate(measures, qrels, run), _of_ir_measures


def _of_ir_measures(found: Any) -> Values:
    return {IR_MEASURES[str(measure)]: float(value) for measure, value in found.items()}


def beir_file(folder: Path) -> Way:
    import pytrec_eval
    from beir.retrieval.evaluation import EvaluateRetrieval

    def work() -> Any:
        with open(folder / "qrels.txt") as file:
            qrels = pytrec_eval.parse_qrel(file)
        with open(folder / "run.trec") as file:
            run = pytrec_eval.parse_run(file)
        return _beir(EvaluateRetrieval, qrels, run)

    return work, dict


def beir_dicts(folder: Path) -> Way:
    from beir.retrieval.evaluation import EvaluateRetrieval

    qrels, run = dictionaries(folder)
    return lambda: _beir(EvaluateRetrieval, qrels, run), dict


def _beir(evaluator: Any, qrels: Any, run: Any) -> Values:
    ndcg, ap, recall, precision = evaluator.evaluate(qrels, run, [1, 5, 10, 100, 1000])
    mrr = evaluator.evaluate_custom(qrels, run, [10], metric="mrr")
    values = {"ndcg@10": ndcg["NDCG@10"], "map": ap["MAP@1000"], "precision@10": precision["P@10"]}
    values |= {f"recall@{k}": recall[f"Recall@{k}"] for k in (1, 5, 10, 100, 1000)}
    return values | {"mrr@10": mrr["MRR@10"]}


FROM_FILE: dict[str, Callable[[Path], Way]] = {
    "harness": harness_file,
    "pytrec_eval": pytrec_eval_file,
    "BEIR": beir_file,
    "ranx": ranx_file,
    "ir_measures": ir_measures_file,
}
FROM_DICTS: dict[str, Callable[[Path], Way]] = {
    "harness": harness_dicts,
    "pytrec_eval": pytrec_eval_dicts,
    "BEIR": beir_dicts,
    "ranx": ranx_dicts,
    "ir_measures": ir_measures_dicts,
}
GROUPS = {"file": FROM_FILE, "dictionaries": FROM_DICTS}
