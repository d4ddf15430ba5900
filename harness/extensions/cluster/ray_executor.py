"""The executor `ray`: haystacks over the workers of a Ray cluster, or one haystack in shards.

The cluster is found and named in Ray's own ways (RAY_ADDRESS; without it one starts on this
machine). Scheduling, restarting what died and shipping code are Ray's; nothing of them is here.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.datasets.progress import progress
from harness.datasets.remote_store import VARIABLE, DatasetLocation
from harness.errors import HarnessError, UsageError, WorkerDiedError
from harness.extensions.cluster.shards import (
    Shard,
    add_reports,
    add_statistics,
    can_be_cut,
    merge_answers,
)
from harness.records.run import ClusterRecord, Params
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.registry import RetrieverSpec, need
from harness.runs.executors import Execution, InProcess, Workload
from harness.runs.provenance import file_digests, versions
from harness.runs.request import QUERIES_PER_ITEM
from harness.runs.results import WorkItem, WorkResult
from harness.runs.worker import Worker

_log = logging.getLogger(__name__)

_NOT_OURS = {
    *("concurrency_groups", "get_if_exists", "lifetime", "max_concurrency", "name", "namespace"),
    "num_returns",
}
"""Options of Ray that would let workers be taken for each other, or answer in another way."""

_ANY = 1 << 30
_LISTENS = 10.0
"""Seconds in which the head of a cluster must take a connection."""

_NO_ROOM = 60.0
"""Seconds without an answer after which a line says where there is no room for a worker."""

_AT_ONCE = 64
"""Questions that the shards are asked at once, so that answers are merged while they go on."""

_TO_CLOSE = 10.0
"""Seconds that shards have for closing what they hold."""


@contextmanager
def ray_cluster(workload: Workload) -> Iterator[Execution]:
    """Execute a workload on a cluster, connected for as long as the block takes."""
    settings, dataset = workload.settings, workload.dataset
    location, builds = DatasetLocation.of(dataset), workload.builds
    haystacks = {item.haystack for item in workload.items}
    in_shards = len(haystacks) == 1 and can_be_cut(workload.built)
    with connected_cluster(settings.ray_options, SHARD if in_shards else TASK) as ray:
        location.put()
        n = settings.workers or ray.processors
        if not in_shards:
            yield Execution(Haystacks(ray, n), builds, location, n, ray.about())
            return
        n = max(1, min(n, *map(dataset.haystack_size, haystacks)))
        shards = Shards(ray, n, (builds, settings.seed, workload.batch_size, location))
        about = replace(ray.about(), shards=n)
        try:
            yield Execution(InProcess(), shards, location, n, about, shards.batch_size)
        finally:
            shards.close()


@dataclass(frozen=True)
class Remote:
    """A function or class that a cluster is to run, and Ray's options unless the user says others.

    `holds`: how many processors it has to itself while it lives, if nothing else is asked for;
    `fixed` are options that Ray takes for the function alone.
    """

    thing: Any
    options: Mapping[str, object]
    holds: int
    fixed: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def connected_cluster(options: Mapping[str, object], of: Remote) -> Iterator[Cluster]:
    """Connect Ray for as long as the block takes.

    `options` are Ray's of a task or an actor, such as num_cpus, num_gpus, memory; `runtime_env` is
    that of all. Raises UsageError where Ray is not installed, finds no cluster, or knows no such
    option.
    """
    need("--backend ray", "ray")
    # Nobody who starts a run here has asked for anything to be reported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    environment = options.get("runtime_env", {})
    if not isinstance(environment, dict):
        raise UsageError('--ray-options: runtime_env is a table: runtime_env={"working_dir": "."}')
    mine = not ray.is_initialized()
    # A program that is connected already has its own; then it is that of each worker.
    own = {name: value for name, value in options.items() if not (mine and name == "runtime_env")}
    found = Cluster(own, of)
    try:
        if mine:
            _check_address(os.environ.get("RAY_ADDRESS", ""))
            _connect(
                {**_new_cluster_options(), **({"runtime_env": environment} if environment else {})}
            )
        yield found
    finally:
        if mine:
            ray.shutdown()


def _connect(given: Mapping[str, object]) -> None:
    import ray

    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **given)
    except (ConnectionError, ValueError, TypeError, RuntimeError, OSError) as error:
        at = os.environ.get("RAY_ADDRESS", "one on this machine")
        raise UsageError(f"--backend ray: no cluster ({at}): {_message(error)}") from None


class Cluster:
    """A cluster that is connected, and what is asked of it for each task or shard."""

    def __init__(self, options: Mapping[str, object], of: Remote) -> None:
        """Raises UsageError for an option that Ray does not know."""
        import ray

        if refused := _NOT_OURS.intersection(options):
            raise UsageError(f"--ray-options: {min(refused)} is of no use here; leave it out")
        self._options = options
        self._holds = of.holds
        self._told_of_room = False
        made = ray.remote(**of.fixed)(of.thing) if of.fixed else ray.remote(of.thing)
        try:
            self.remote: Any = made.options(**{**of.options, **options})
        except (ValueError, TypeError) as error:
            said = _message(error).partition(" Valid ones are")[0]
            kind = type(made)
            raise UsageError(
                f"--ray-options: {said} They are those of {kind.__module__}.{kind.__name__}.options"
            ) from None

    @property
    def processors(self) -> int:
        """For how many workers there is room, one a processor if nothing else is asked for."""
        return max(1, self._room(1))

    def about(self) -> ClusterRecord:
        """Return what a run's record says of the cluster."""
        import ray

        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        return ClusterRecord(engine=f"ray {ray.__version__}", nodes=nodes)

    def some(
        self, asked: Sequence[Any], n: int, *, every: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Answers that are there (one at least; `every`: all, or after a minute those that are),
        and what is to be waited for. Says it where n workers have no room."""
        import ray

        wanted = len(asked) if every else 1
        while True:
            done, rest = ray.wait([*asked], num_returns=wanted, timeout=_NO_ROOM)
            if done:
                return done, rest
            if not self._told_of_room and (fit := self._room(self._holds)) < n:
                self._told_of_room = True
                _log.warning(
                    f"note: the cluster has room for {fit} of {n} workers with "
                    f"{dict(self._options)}; the run waits for more nodes (or stop it, and go on "
                    "with --resume and fewer --workers)"
                )

    def _room(self, holds: int) -> int:
        """Return for how many there is room, if nobody else uses the cluster; each `holds` so many
        processors if the user says nothing else."""
        import ray

        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        each = {names[name]: n for name, n in self._options.items() if name in names}
        resources = self._options.get("resources")
        each = {"CPU": holds, **each, **(resources if isinstance(resources, Mapping) else {})}
        wanted = {name: n for name, n in each.items() if n}
        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not wanted:
            return _ANY if there else 0
        # None is spread over two machines.
        return sum(int(min(has.get(name, 0) / n for name, n in wanted.items())) for has in there)


class Haystacks:
    """Runs items as tasks of a cluster, `n` at a time."""

    def __init__(self, cluster: Cluster, n: int) -> None:
        self._cluster, self._n = cluster, n

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results as they come.

        Raises WorkerDiedError for a task whose process died too often.
        """
        import ray

        todo = iter(items)
        held = uuid.uuid4().hex, [put_object(worker)], Told.of(worker.builds)

        def begin(n: int) -> list[Any]:
            return [self._cluster.remote.remote(*held, item) for item in islice(todo, n)]

        with translated_errors("worker"):
            asked = begin(self._n)
            try:
                while asked:
                    done, asked = self._cluster.some(asked, 1)
                    asked += begin(len(done))
                    yield from raise_first_error(ray.get(done))
            finally:
                for one in asked:
                    ray.cancel(one, force=True)


_kept: dict[str, Worker] = {}
"""The worker of a run, in a process of the cluster: it serves one task after another."""


def _run(name: str, held: Sequence[Any], said: Told, item: WorkItem) -> WorkResult | HarnessError:
    """Run an item as a task of the run `name`; an error of ours is given back, Ray would wrap
    it."""
    import ray

    try:
        if name not in _kept:
            for earlier in _kept.values():
                earlier.close()
            _kept.clear()
            said.settle()
            _kept[name] = ray.get(held[0])
        result = _kept[name].whole(item)
        _kept[name].release()  # nobody knows whether this process has a next task
    except HarnessError as error:
        return error
    # Process numbers of two machines may be equal.
    result.process = int(ray.get_runtime_context().get_worker_id()[:15], 16)
    return result


TASK = Remote(_run, {"max_retries": 3, "scheduling_strategy": "SPREAD"}, 1, {"max_calls": 0})
"""Items as tasks: begun anew where a process died; one process serves many, with a GPU too."""


def put_object(given: Any) -> Any:
    """Put something on the cluster, for as long as the result is held here.

    Raises UsageError for a retriever that cannot be sent.
    """
    import ray

    try:
        return ray.put(given)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"the retriever cannot be sent to other processes ({_message(error)}); name it as "
            "file.py:Class"
        ) from None


def _new_cluster_options() -> dict[str, str]:
    """Return that a new cluster is wanted, where what Ray remembers of the last one here is
    dead."""
    last = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    if os.environ.get("RAY_ADDRESS") or not last.is_file():
        return {}
    try:
        _check_address(last.read_text().strip())
    except UsageError:
        return {"address": "local"}
    return {}


def _check_address(address: str) -> None:
    """Raises UsageError where nobody listens: Ray itself would go on trying for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")  # of IPv6
    if not (host and port.isdecimal()):  # "auto", "local", or nothing
        return
    try:
        socket.create_connection((host, int(port)), timeout=_LISTENS).close()
    except OSError as error:
        raise UsageError(
            f"--backend ray: nobody listens at RAY_ADDRESS={address} ({error.strerror or error}): "
            "start the cluster there, or unset it to start one on this machine"
        ) from None


def raise_first_error(answers: Sequence[Any]) -> Sequence[Any]:
    """Return the answers; raises the first that is an error."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Turn what Ray gives up into an error of ours."""
    import ray

    try:
        yield
    except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
        raise UsageError(
            f"--backend ray: a {what} cannot begin ({_message(error)}): install the harness with "
            "its extras on the machines, or name it in runtime_env"
        ) from None
    except ray.exceptions.RayError as error:
        raise WorkerDiedError(f"a {what} on the cluster was lost: {_message(error)}") from None


def _message(error: BaseException) -> str:
    """Return what an error says first; of a trace from elsewhere its last line."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if any("Traceback" in line for line in lines) else lines[0]


@dataclass(frozen=True)
class Told:
    """Part of the environment, versions, and digests of a retriever's own files."""

    environment: Mapping[str, str]
    versions: Mapping[str, str]
    builds: RetrieverSpec | None
    digests: Mapping[str, str]

    @classmethod
    def of(cls, builds: Any) -> Told:
        """Return what to tell processes that build a retriever from `builds`."""
        spec = builds if isinstance(builds, RetrieverSpec) else None
        environment = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
        return cls(environment, versions(), spec, file_digests(spec) if spec else {})

    def settle(self) -> None:
        """Make this process one of the run's.

        Raises UsageError where it would work otherwise: with other versions, or other code.
        """
        os.environ.update(self.environment)
        os.environ["TQDM_DISABLE"] = "1"  # nobody sees its bars
        here = {**versions(), **(file_digests(self.builds) if self.builds else {})}
        for name, there in {**self.versions, **self.digests}.items():
            if here.get(name) != there:
                raise UsageError(
                    f"--backend ray: {platform.node()} has {name} {here.get(name, 'not at all')}, "
                    f"and where the run was started it is {there}: numbers could differ; install "
                    "the same there, or name it in runtime_env"
                )


class Shards:
    """One retriever whose corpus lies in shards, each indexed and searched where it lies."""

    batch_size = QUERIES_PER_ITEM

    def __init__(
        self,
        cluster: Cluster,
        n: int,
        given: tuple[RetrieverSpec | Retriever, int, int, DatasetLocation],
    ) -> None:
        """`given` is what every shard takes before its piece; see `Shard`."""
        builds, _, batch_size, _ = self._given = given
        self._cluster, self._n = cluster, n
        self._at_once = max(batch_size, _AT_ONCE)
        self._told = Told.of(builds)
        self._crew: list[tuple[Any, Any]] = []

    def index(self, corpus: Corpus) -> None:
        """Cut the corpus and let each shard index its piece; raises what the first of them does."""
        import ray

        self.close()
        for piece in corpus.pieces(self._n):
            # Held here for as long as the shard may have to be restarted.
            held = [put_object((*self._given, piece))], self._told
            self._crew.append((self._cluster.remote.remote(), held))
        with (
            translated_errors("shard"),
            progress(len(corpus), "documents", "index the shards") as bar,
        ):
            asked = self._ask("index")
            while asked:
                done, asked = self._cluster.some(asked, self._n)
                bar.update(sum(raise_first_error(ray.get(done))))

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Return the best of all shards."""
        import ray

        with translated_errors("shard"):
            statistics = ray.put(add_statistics(self._all(self._ask("statistics", queries))))
            asked = [
                self._ask("search", queries[start : start + self._at_once], k, statistics)
                for start in range(0, len(queries), self._at_once)
            ]
            found = []
            for answers in asked:
                found += merge_answers(self._all(answers), k)
        return found

    def report(self) -> Params:
        """Return what the shards say of themselves: sums, and each."""
        with translated_errors("shard"):
            return add_reports(self._all(self._ask("report")))

    def close(self) -> None:
        """Let the shards go."""
        import ray

        with suppress(ray.exceptions.RayError):  # also one that is at long work
            for failed in filter(None, ray.get(self._ask("close"), timeout=_TO_CLOSE)):
                _log.warning(f"note: a shard did not close well: {failed}")
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
        return raise_first_error(ray.get([*asked]))


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
