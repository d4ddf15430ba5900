"""One haystack in shards on a Ray cluster, as one retriever."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from harness.dataset.progress import progress
from harness.dataset.remote_store import DatasetLocation
from harness.errors import HarnessError
from harness.records.run import Params
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.elsewhere import Told
from harness.runs.on_ray import Cluster, Remote, good, lost, sent
from harness.runs.plan import QUERIES_PER_ITEM
from harness.runs.shards import Shard, added, merged, summed

_AT_ONCE = 64
"""Questions that the shards are asked at once, so that answers are merged while they go on."""

_TO_CLOSE = 10.0
"""Seconds that shards have for closing what they hold."""


class Shards:
    """One retriever whose corpus lies in shards, each indexed and searched where it lies."""

    batch_size = QUERIES_PER_ITEM

    def __init__(
        self,
        cluster: Cluster,
        n: int,
        builds: RetrieverSpec | Retriever,
        seed: int,
        batch_size: int,
        place: DatasetLocation,
    ) -> None:
        """`batch_size`: how many questions a shard's retriever is asked at once."""
        self._cluster, self._n = cluster, n
        self._given = (builds, seed, batch_size, place)
        self._at_once = max(batch_size, _AT_ONCE)
        self._told = Told.of(builds)
        self._crew: list[tuple[Any, Any]] = []

    def index(self, corpus: Corpus) -> None:
        """Cut the corpus and let each shard index its piece; raises what the first of them does."""
        import ray

        self.close()
        for piece in corpus.pieces(self._n):
            # Held here for as long as the shard may have to be restarted.
            held = [sent((*self._given, piece))], self._told
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
                self._ask("search", queries[start : start + self._at_once], k, statistics)
                for start in range(0, len(queries), self._at_once)
            ]
            found = []
            for answers in asked:
                found += merged(self._all(answers), k)
        return found

    def report(self) -> Params:
        """What the shards say of themselves: sums, and each."""
        with lost("shard"):
            return summed(self._all(self._ask("report")))

    def close(self) -> None:
        """Let the shards go."""
        import ray

        with suppress(ray.exceptions.RayError):  # also one that is at long work
            for failed in filter(None, ray.get(self._ask("close"), timeout=_TO_CLOSE)):
                print(f"note: a shard did not close well: {failed}", file=sys.stderr)
        for shard, _ in self._crew:
            ray.kill(shard)
        self._crew = []

    def _ask(self, what: str, *given: Any) -> list[Any]:
        return [shard.ask.remote(*held, what, *given) for shard, held in self._crew]

    def _all(self, asked: Sequence[Any]) -> Sequence[Any]:
        import ray

        rest = [*asked]
        while rest:
            _, rest = self._cluster.some(rest, self._n, every=True)
        return good(ray.get([*asked]))


class _Shard:
    """A shard on some machine of the cluster, which may take the place of one that died.

    So it is told at every call what it holds, and fetches that once.
    """

    _shard: Shard | None = None

    def ask(self, held: Sequence[Any], said: Told, what: str, *given: Any) -> Any:
        import ray

        if self._shard is None:
            try:
                said.settle()
            except HarnessError as error:  # given back, since Ray would wrap it
                return error
            self._shard = Shard(*ray.get(held[0]))
        return getattr(self._shard, what)(*given)


SHARD = Remote(
    _Shard, {"max_restarts": 3, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}, 0
)
"""Shards as actors: one that died is begun anew, where there is room."""
