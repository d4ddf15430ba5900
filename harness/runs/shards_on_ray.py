"""One haystack in shards on a Ray cluster, as one retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from harness.dataset.progress import progress
from harness.dataset.shared import Place
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.on_ray import Cluster, Remote, environment, good, lost, sent, settled
from harness.runs.plan import QUERIES_A_UNIT
from harness.runs.shards import Found, Shard, added, merged

_AT_ONCE = 64
"""Questions that the shards are asked at once, so that answers are merged while they go on."""


class Shards:
    """One retriever whose corpus lies in shards, each indexed and searched where it lies."""

    batch_size = QUERIES_A_UNIT

    def __init__(
        self, cluster: Cluster, n: int, builds: RetrieverSpec | Retriever, seed: int, place: Place
    ) -> None:
        self._cluster, self._n = cluster, n
        self._given = (builds, seed, place)
        self._crew: list[tuple[Any, Any]] = []

    def index(self, corpus: Corpus) -> None:
        """Cut the corpus and let each shard index its piece; raises what the first of them does."""
        import ray

        self.close()
        for piece in corpus.pieces(self._n):
            # Held here for as long as the shard may have to be restarted.
            held = [sent((*self._given, piece))], environment()
            self._crew.append((self._cluster.remote.remote(), held))
        with lost("shard"), progress(len(corpus), "documents", "index the shards") as bar:
            asked = self._ask("index")
            while asked:
                done, asked = self._cluster.some(asked, self._n)
                bar.update(sum(good(ray.get(done))))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The best of all shards."""
        import ray

        with lost("shard"):
            statistics = ray.put(added(self._all(self._ask("statistics", queries))))
            asked = [
                self._ask("search", queries[start : start + _AT_ONCE], k, statistics)
                for start in range(0, len(queries), _AT_ONCE)
            ]
            found = []
            for answers in asked:
                found += merged(self._all(answers), k)
        return found

    def close(self) -> None:
        """Let the shards go."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.get(self._ask("close"), timeout=10)
        for shard, _ in self._crew:
            ray.kill(shard)
        self._crew = []

    def _ask(self, what: str, *given: Any) -> list[Any]:
        return [getattr(shard, what).remote(*held, *given) for shard, held in self._crew]

    def _all(self, asked: Sequence[Any]) -> Sequence[Any]:
        import ray

        rest = [*asked]
        while rest:
            _, rest = self._cluster.some(rest, self._n)
        return good(ray.get([*asked]))


class _Shard:
    """A shard on some machine of the cluster, which may take the place of one that died.

    So it is told at every call what it holds, and fetches that once.
    """

    _shard: Shard | None = None

    def _of(self, held: Sequence[Any], environment: Mapping[str, str]) -> Shard:
        if self._shard is None:
            self._shard = Shard(*settled(held, environment))
        return self._shard

    def index(self, held: Sequence[Any], environment: Mapping[str, str]) -> int | Exception:
        return self._of(held, environment).index()

    def statistics(
        self, held: Sequence[Any], environment: Mapping[str, str], queries: Sequence[Question]
    ) -> Mapping[str, int] | Exception:
        return self._of(held, environment).statistics(queries)

    def search(
        self,
        held: Sequence[Any],
        environment: Mapping[str, str],
        queries: Sequence[Question],
        k: int,
        statistics: Mapping[str, int],
    ) -> Found | Exception:
        return self._of(held, environment).search(queries, k, statistics)

    def close(self, held: Sequence[Any], environment: Mapping[str, str]) -> None:
        if self._shard is not None:
            self._shard.close()


SHARD = Remote(_Shard, {"max_restarts": 3, "max_task_retries": -1, "scheduling_strategy": "SPREAD"})
"""Shards as actors: one that died is begun anew, where there is room."""
