"""Runs on a Ray cluster: haystacks over its workers, or one haystack in shards over them.

The cluster is found and named in Ray's own ways (RAY_ADDRESS; without it one starts on this
machine). Scheduling, restarting what died and shipping code are Ray's; nothing of them is here.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from harness.dataset.progress import progress
from harness.dataset.shared import VARIABLE, Place
from harness.errors import HarnessError, UsageError
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.extras import need
from harness.retrievers.registry import RetrieverSpec
from harness.runs.execute import LostError
from harness.runs.plan import QUERIES_A_UNIT
from harness.runs.shards import Shard, added, merged
from harness.runs.worker import Outcome, Unit, Worker

_OPTIONS = {"max_restarts": 3, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}
"""Of every worker, unless the user says others: what died is restarted, where there is room."""

_AT_ONCE = 64
"""Questions that the shards are asked at once, so that answers are merged while they go on."""

_NO_ROOM = 60.0
"""Seconds without a worker after which a line says what was asked for."""


@contextmanager
def cluster(options: Mapping[str, Any]) -> Iterator[Cluster]:
    """Ray, connected for as long as the block takes.

    `options` are Ray's of an actor, such as num_cpus, num_gpus, memory; `runtime_env` is that of
    all. Raises UsageError where Ray is not installed, finds no cluster, or knows no such option.
    """
    need("--on ray", "ray")
    # Nobody who starts a run here has asked for anything to be reported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    mine = not ray.is_initialized()
    if mine:
        given = {"runtime_env": env} if (env := options.get("runtime_env")) else {}
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **given)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            at = os.environ.get("RAY_ADDRESS", "a new one on this machine")
            raise UsageError(f"--on ray: no cluster ({at}): {_said(error)}") from None
    found = Cluster({name: value for name, value in options.items() if name != "runtime_env"})
    try:
        yield found
    finally:
        if mine:
            ray.shutdown()


class Cluster:
    """A cluster that is connected, and what is asked of it for each worker."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {**_OPTIONS, **options}

    @property
    def processors(self) -> int:
        """How many workers the processors of the cluster are enough for."""
        import ray

        each = float(self._options.get("num_cpus") or 1)
        return max(1, int(ray.cluster_resources().get("CPU", 1) / each))

    def about(self) -> dict[str, Any]:
        """For a run's record."""
        import ray

        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        return {"engine": f"ray {ray.__version__}", "nodes": nodes}

    def start(self, kind: type, *given: Sequence[Any]) -> list[Any]:
        """Actors of a kind, one for each that is given its arguments. Raises UsageError."""
        import ray

        try:
            made = ray.remote(kind).options(**self._options)
        except (ValueError, TypeError) as error:
            raise UsageError(f"--ray-options: {_said(error)}") from None
        environment = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
        return [made.remote(environment, *arguments) for arguments in given]

    def first(self, asked: Sequence[Any]) -> None:
        """Wait for the first of some answers; say it where there is no room for a worker."""
        import ray

        if not ray.wait([*asked], timeout=_NO_ROOM)[0]:
            wanted = {n: v for n, v in self._options.items() if n not in _OPTIONS}
            free = {n: v for n, v in ray.available_resources().items() if ":" not in n}
            print(
                f"note: no worker has answered for {_NO_ROOM:g} s; each needs {wanted or 'nothing'}"
                f", free in the cluster are {free}",
                file=sys.stderr,
            )

    def end(self, crew: Sequence[Any]) -> None:
        """Tell workers that no more will be asked, and let them go."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.get([worker.close.remote() for worker in crew], timeout=10)
        for worker in crew:
            ray.kill(worker)


class Haystacks:
    """Runs units on workers of a cluster, each with a retriever of its own."""

    def __init__(self, cluster: Cluster, n: int) -> None:
        self._cluster, self._n = cluster, n

    def map(self, worker: Worker, units: Iterable[Unit]) -> Iterator[Outcome]:
        """Outcomes as they come. Raises LostError for a worker that died too often."""
        import ray
        from ray.util import ActorPool

        todo = [*units]
        sent = ray.put(worker)
        crew = self._cluster.start(_Worker, *[(sent,)] * min(self._n, len(todo)))
        try:
            with _lost("worker"):
                self._cluster.first([one.ready.remote() for one in crew])
                pool = ActorPool(crew)
                for answer in pool.map_unordered(lambda one, unit: one.run.remote(unit), todo):
                    if isinstance(answer, HarnessError):
                        raise answer
                    yield answer
        finally:
            self._cluster.end(crew)


class Shards:
    """One retriever whose corpus lies in shards, each indexed and searched where it lies."""

    batch_size = QUERIES_A_UNIT

    def __init__(
        self, cluster: Cluster, n: int, builds: RetrieverSpec | Retriever, seed: int, place: Place
    ) -> None:
        self._cluster, self._n = cluster, n
        self._given = (builds, seed, place)
        self._crew: list[Any] = []

    def index(self, corpus: Corpus) -> None:
        """Cut the corpus and let each shard index its piece; raises what the first of them does."""
        import ray

        self.close()
        pieces = [(*self._given, piece) for piece in corpus.pieces(self._n)]
        self._crew = self._cluster.start(_Shard, *pieces)
        del pieces
        with _lost("shard"), progress(len(corpus), "documents", "index the shards") as bar:
            asked = [shard.index.remote() for shard in self._crew]
            self._cluster.first(asked)
            while asked:
                done, asked = ray.wait(asked)
                bar.update(sum(_good(ray.get(done))))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The best of all shards."""
        import ray

        with _lost("shard"):
            parts = ray.get([shard.statistics.remote(queries) for shard in self._crew])
            statistics = ray.put(added(_good(parts)))
            asked = [
                [
                    shard.search.remote(queries[start : start + _AT_ONCE], k, statistics)
                    for shard in self._crew
                ]
                for start in range(0, len(queries), _AT_ONCE)
            ]
            found = []
            for answers in asked:
                found += merged(_good(ray.get(answers)), k)
        return found

    def close(self) -> None:
        """Let the shards go."""
        crew, self._crew = self._crew, []
        self._cluster.end(crew)


class _Worker:
    """A worker on some machine of the cluster."""

    def __init__(self, environment: Mapping[str, str], worker: Worker) -> None:
        _settle(environment)
        self._worker = worker

    def ready(self) -> None:
        """Answer."""

    def run(self, unit: Unit) -> Outcome | HarnessError:
        """Run a unit; an error of ours is given back, since Ray would wrap it."""
        try:
            return self._worker(unit)
        except HarnessError as error:
            return error

    def close(self) -> None:
        """No more will be asked."""
        self._worker.close()


class _Shard(Shard):
    """A shard on some machine of the cluster."""

    def __init__(self, environment: Mapping[str, str], *given: Any) -> None:
        _settle(environment)
        super().__init__(*given)


def _settle(environment: Mapping[str, str]) -> None:
    """Make a process of the cluster one of this run's."""
    os.environ.update(environment)
    os.environ["TQDM_DISABLE"] = "1"  # nobody sees its bars


def _good(answers: Sequence[Any]) -> Sequence[Any]:
    """The answers; raises the first that is an error."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextmanager
def _lost(what: str) -> Iterator[None]:
    """What Ray gives up becomes an error of ours."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        raise LostError(f"a {what} on the cluster was lost: {_said(error)}") from None


def _said(error: BaseException) -> str:
    """What an error says first; of a trace from elsewhere its last line."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if any("Traceback" in line for line in lines) else lines[0]
