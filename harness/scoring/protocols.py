"""Named scoring protocols, as data, and the options of scoring.

A protocol defines the queries, the qrels, the order of ties and the metrics. Two values are
comparable only under the same protocol. `version` is increased whenever a protocol would give
another value for the same rankings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.errors import UsageError, suggest
from harness.records.scores import RequestedScores
from harness.scoring.metrics import Metric
from harness.scoring.ranks import Ties


@dataclass(frozen=True)
class Protocol:
    """Rules by which a run is scored.

    `metrics` are templates with `{k}`. `key` names the qrels set. A query is scored if it is
    answerable (unless `unanswerable`), has a judgement (if `judged`) and a relevant document (if
    `relevant`); `empty` is the value of a metric without relevant documents. `session_metrics`:
    turn rankings are also scored at session level by LongMemEval's rule; with `renamed`, turns of a
    gold session that are not gold count as another session (its `noans_` ids). `module` computes
    metrics that are not those of `scoring.metrics`. `of_users`: for datasets with users, over the
    queries that have one.
    """

    name: str
    version: int
    about: str
    metrics: tuple[str, ...]
    ks: tuple[int, ...]
    key: str = "default"
    ties: Ties = Ties.ORDER
    unanswerable: bool = False
    judged: bool = False
    relevant: bool = False
    empty: Mapping[str, float] = field(default_factory=dict)
    session_metrics: tuple[str, ...] = ()
    renamed: bool = False
    fixed_ks: bool = False
    source: str = ""
    module: str = ""
    of_users: bool = False


_LONGMEMEVAL = ("hit@{k}", "recall_all@{k}", "ndcg_b2@{k}")
_LONGMEMEVAL_KS = (1, 3, 5, 10, 30, 50)

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "memory",
            1,
            "all abilities, normalised qrels; recall, hit (any) and recall_all (all)",
            ("recall@{k}", "hit@{k}", "recall_all@{k}", "precision@{k}", "ndcg@{k}", "mrr@{k}"),
            (1, 3, 5, 10, 25, 50),
            unanswerable=True,
            relevant=True,
            session_metrics=("recall@{k}", "hit@{k}", "recall_all@{k}"),
        ),
        Protocol(
            "trec",
            1,
            "trec_eval -c: every judged query, score then id order, missing queries count 0",
            (
                "ndcg@{k}",
                "mrr@{k}",
                "map@{k}",
                "recall@{k}",
                "precision@{k}",
                "hit@{k}",
                "judged@{k}",
                "ndcg",
                "map",
                "mrr",
                "rprec",
            ),
            (1, 5, 10, 100, 1000),
            ties=Ties.TREC,
            unanswerable=True,
            judged=True,
            source="trec_eval 9.0.8, pytrec_eval",
        ),
        Protocol(
            "longmemeval-official",
            1,
            "LongMemEval's retrieval metrics over questions with evidence on the user's side",
            _LONGMEMEVAL,
            _LONGMEMEVAL_KS,
            key="longmemeval-official",
            relevant=True,
            session_metrics=_LONGMEMEVAL,
            renamed=True,
            fixed_ks=True,
            source="xiaowu0162/LongMemEval src/retrieval/eval_utils.py at 9e0b455",
        ),
        Protocol(
            "longmemeval-470",
            1,
            "like its printing script: without abstention, with questions that have no evidence",
            _LONGMEMEVAL,
            _LONGMEMEVAL_KS,
            key="longmemeval-official",
            empty={"recall_all": 1.0},
            session_metrics=_LONGMEMEVAL,
            renamed=True,
            fixed_ks=True,
            source="xiaowu0162/LongMemEval src/evaluation/print_retrieval_metrics.py at 9e0b455",
        ),
        Protocol(
            "locomo-official",
            1,
            "LoCoMo's recall with unchanged evidence strings; questions without evidence count 1",
            ("recall@{k}",),
            (5, 10, 25, 50),
            key="locomo-official",
            unanswerable=True,
            empty={"recall": 1.0},
            fixed_ks=True,
            source="snap-research/locomo task_eval/evaluation.py at 3eb6f2c",
        ),
        Protocol(
            "locomo-official-aggregate",
            1,
            "like its aggregating script: questions without evidence count 0",
            ("recall@{k}",),
            (5, 10, 25, 50),
            key="locomo-official",
            unanswerable=True,
            fixed_ks=True,
            source="snap-research/locomo task_eval/evaluation_stats.py at 3eb6f2c",
        ),
        Protocol(
            "realmem-official",
            1,
            "RealMem's retrieval metrics over the sessions that an answer used",
            _LONGMEMEVAL,
            (5, 10, 20),
            key="realmem-official",
            relevant=True,
            fixed_ks=True,
            source="AvatarMemory/RealMemBench eval/compute_auto_metrics_for_realmem.py",
        ),
        Protocol(
            "scope",
            1,
            "returned documents that the query's user may not read (leaks; lower is better), and "
            "recall without them; queries with a user",
            ("leak_rate@{k}", "query_leak_rate@{k}", "recall_in_scope@{k}"),
            (1, 3, 5, 10, 25, 50),
            unanswerable=True,
            module="harness.scoring.scope",
            of_users=True,
        ),
        Protocol(
            "precisionmembench-official",
            1,
            "PrecisionMemBench's precision and recall of all returned beliefs; cases without "
            "evidence have precision 0, or none if nothing is returned",
            ("retrieval_precision", "retrieval_recall"),
            (),
            key="precisionmembench-official",
            unanswerable=True,
            fixed_ks=True,
            source="tenurehq/precisionMemBench src/retrieval.external.eval.test.ts at 18c7955",
            module="harness.scoring.precisionmembench",
        ),
    )
}


ANSWERS = Protocol(
    name="answers",
    version=1,
    about="returned texts against the reference answers, best of the top k; queries that have none "
    "are not scored",
    metrics=(),
    ks=(1, 5, 10),
)
"""Protocol of texts instead of documents; not listed, as it is used on request, and for systems
that return texts. See extensions/answers/scoring/returned_texts.py."""


def protocol(name: str) -> Protocol:
    """Returns the protocol called `name`, or NAME/VERSION. Raises UsageError if it is unknown."""
    plain, _, version = name.partition("/")
    if plain in PROTOCOLS and version == str(PROTOCOLS[plain].version):
        return PROTOCOLS[plain]
    if name not in PROTOCOLS:
        raise UsageError(f"unknown protocol {name!r}{suggest(name, list(PROTOCOLS))}")
    return PROTOCOLS[name]


def metric_name(text: str) -> str:
    """Returns the name of a metric in scores.json; protocols have metrics of their own.

    Raises UsageError for an unknown metric.
    """
    own = {
        name.partition("@")[0] for one in PROTOCOLS.values() if one.module for name in one.metrics
    }
    text = text.strip()
    return text if text.partition("@")[0] in own else str(Metric.parse(text))


def choose_protocols(
    keys: Sequence[str],
    names: Sequence[str] = (),
    where: str = "this dataset at this granularity",
    *,
    users: bool = False,
) -> list[Protocol]:
    """Selects the protocols for which a dataset has qrels (and `users`); only `names`, if given.

    `where` names the dataset in errors. Raises UsageError for unknown names and for protocols that
    do not fit.
    """
    known = [p for p in PROTOCOLS.values() if p.key in keys and (users or not p.of_users)]
    chosen = [protocol(name) for name in names]
    for one in chosen:
        if one not in known:
            fit = ", ".join(p.name for p in known)
            needed = "users" if one.of_users else f"the qrels {one.key!r}"
            raise UsageError(
                f"protocol {one.name!r} needs {needed}, which {where} does not have; these fit: "
                f"{fit}"
            )
    return chosen or known


@dataclass(frozen=True)
class Choices:
    """Options of scoring. Default: every applicable protocol with its own cutoffs and metrics, to
    which `ks` and `metrics` are added.

    `answers`: also score returned texts against reference answers, as is always done for systems
    that return texts.
    """

    protocols: Sequence[str] = ()
    ks: Sequence[int] = ()
    metrics: Sequence[Metric] = ()
    ties: Ties | None = None
    missing: str = "zero"
    answers: bool = False

    def record(self) -> RequestedScores:
        """Converts these choices to the record in scores.json."""
        return RequestedScores(
            protocols=[*self.protocols],
            ks=[*self.ks],
            metrics=[*map(str, self.metrics)],
            answers=self.answers,
        )

    def wider(self, earlier: RequestedScores) -> Choices:
        """Adds the choices of an earlier scoring, so that scoring again removes no results.

        The order of ties and the rule for missing queries are not changed.
        """
        known = earlier.protocols
        return replace(
            self,
            protocols=[*dict.fromkeys([*known, *self.protocols])]
            if known and self.protocols
            else (),
            ks=sorted({*earlier.ks, *self.ks}),
            metrics=[*dict.fromkeys([*map(Metric.parse, earlier.metrics), *self.metrics])],
            answers=self.answers or earlier.answers,
        )
