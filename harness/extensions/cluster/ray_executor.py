"""Ray executor: distributes haystacks over the workers of a cluster, or shards of one haystack.

The cluster is selected by Ray's own settings (RAY_ADDRESS; without it one starts on this machine).
Ray does all scheduling, restarting and code distribution.
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

from harness.datasets.remote_store import VARIABLE, DatasetLocation
from harness.errors import HarnessError, UsageError, WorkerDiedError
from harness.extensions.cluster.corpus_shards import split_corpus
from harness.extensions.cluster.shards import (
    Shard,
    add_reports,
    add_statistics,
    can_be_cut,
    merge_answers,
)
from harness.io.packages import require_packages
from harness.io.progress import progress
from harness.records.run import ClusterRecord, Params
from harness.retrievers.contract import Corpus, Question, Result, Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.executors import Execution, InProcess
from harness.runs.provenance import file_digests, versions
from harness.runs.request import QUERIES_PER_ITEM, RunRequest
from harness.runs.results import WorkItem, WorkResult
from harness.runs.worker import Worker

_log = logging.getLogger(__name__)

_NOT_OURS = {
    *("concurrency_groups", "get_if_exists", "lifetime", "max_concurrency", "name", "namespace"),
    "num_returns",
}
"""Ray options that would mix up workers or change results."""

_ANY = 1 << 30
_LISTENS = 10.0
"""Timeout in seconds for a connection to the head of a cluster."""

_NO_ROOM = 60.0
"""Seconds without a result before a note reports a lack of resources."""

_AT_ONCE = 64
"""Number of queries sent to the shards at once, so that merging and searching overlap."""

_TO_CLOSE = 10.0
"""Seconds that shards have to close."""


@contextmanager
def ray_cluster(request: RunRequest) -> Iterator[Execution]:
    """Executes a run on a cluster, connected while the block runs."""
    settings, dataset = request.settings, request.dataset
    location, builds = DatasetLocation.of(dataset), request.builds
    haystacks = {item.haystack for item in request.items}
    in_shards = len(haystacks) == 1 and can_be_cut(request.built)
    with connected_cluster(settings.backend_options, SHARD if in_shards else TASK) as ray:
        location.put()
        n = settings.workers or ray.processors
        if not in_shards:
            yield Execution(Haystacks(ray, n), builds, location, n, ray.about())
            return
        n = max(1, min(n, int(dataset.haystack_sizes[[*haystacks]].min())))
        shards = Shards(ray, n, (builds, settings.seed, request.batch_size, location))
        about = replace(ray.about(), shards=n)
        try:
            yield Execution(InProcess(), shards, location, n, about, shards.batch_size)
        finally:
            shards.close()


@dataclass(frozen=True)
class Remote:
    """A function or class to run on a cluster, and its default Ray options.

    `holds` is the default number of processors that it reserves; `fixed` are options that Ray
    accepts only for functions.
    """

    thing: Any
    options: Mapping[str, object]
    holds: int
    fixed: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def connected_cluster(options: Mapping[str, object], of: Remote) -> Iterator[Cluster]:
    """Connects Ray while the block runs.

    `options` are Ray's options of a task or an actor, such as num_cpus, num_gpus, memory;
    `runtime_env` applies to all. Raises UsageError if Ray is not installed, finds no cluster, or
    rejects an option.
    """
    require_packages("--backend ray", "ray")
    # Disable usage reports, which the user did not request.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    environment = options.get("runtime_env", {})
    if not isinstance(environment, dict):
        raise UsageError(
            '--backend-options: runtime_env is a table: runtime_env={"working_dir": "."}'
        )
    mine = not ray.is_initialized()
    # A program that is already connected has a runtime_env, which applies to each worker.
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
    """A connected cluster, and the options of each task or shard."""

    def __init__(self, options: Mapping[str, object], of: Remote) -> None:
        """Raises UsageError for an option that Ray rejects."""
        import ray

        if refused := _NOT_OURS.intersection(options):
            raise UsageError(f"--backend-options: {min(refused)} is not supported here; remove it")
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
                f"--backend-options: {said} They are those of "
                f"{kind.__module__}.{kind.__name__}.options"
            ) from None

    @property
    def processors(self) -> int:
        """Returns how many workers fit, with one processor each by default."""
        return max(1, self._room(1))

    def about(self) -> ClusterRecord:
        """Returns the description of the cluster for the run record."""
        import ray

        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        return ClusterRecord(engine=f"ray {ray.__version__}", nodes=nodes)

    def some(
        self, asked: Sequence[Any], n: int, *, every: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Returns finished results (at least one; with `every` all, or those of one minute), and
        what is pending. Notes if n workers do not fit.
        """
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
                    f"{dict(self._options)}; the run waits for more nodes (or stop it, and "
                    "continue with --resume and fewer --workers)"
                )

    def _room(self, holds: int) -> int:
        """Returns how many workers fit on the empty cluster; each `holds` processors by default."""
        import ray

        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        each = {names[name]: n for name, n in self._options.items() if name in names}
        resources = self._options.get("resources")
        each = {"CPU": holds, **each, **(resources if isinstance(resources, Mapping) else {})}
        wanted = {name: n for name, n in each.items() if n}
        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not wanted:
            return _ANY if there else 0
        # A worker never spans two machines.
        return sum(int(min(has.get(name, 0) / n for name, n in wanted.items())) for has in there)


class Haystacks:
    """Runs items as tasks of a cluster, `n` at a time."""

    def __init__(self, cluster: Cluster, n: int) -> None:
        self._cluster, self._n = cluster, n

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results in order of completion.

        Raises WorkerDiedError for a task that lost its process too often.
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
"""Returns the worker of a run in this process, which serves consecutive tasks."""


def _run(name: str, held: Sequence[Any], said: Told, item: WorkItem) -> WorkResult | HarnessError:
    """Runs an item as a task of the run `name`; returns errors, because Ray would wrap them."""
    import ray

    try:
        if name not in _kept:
            for earlier in _kept.values():
                earlier.close()
            _kept.clear()
            said.settle()
            _kept[name] = ray.get(held[0])
        result = _kept[name].run_item(item)
        _kept[name].release()  # this process may not get another task
    except HarnessError as error:
        return error
    # Two machines may have equal process ids.
    result.process = int(ray.get_runtime_context().get_worker_id()[:15], 16)
    return result


TASK = Remote(_run, {"max_retries": 3, "scheduling_strategy": "SPREAD"}, 1, {"max_calls": 0})
"""Items as tasks: restarted if their process dies; one process serves many, also with a GPU."""


def put_object(given: Any) -> Any:
    """Stores an object on the cluster while the result is referenced here.

    Raises UsageError for a retriever that cannot be pickled.
    """
    import ray

    try:
        return ray.put(given)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"the retriever cannot be sent to other processes ({_message(error)}); pass it as "
            "file.py:Class"
        ) from None


def _new_cluster_options() -> dict[str, str]:
    """Returns options for a new cluster if the last local one, which Ray remembers, is gone."""
    last = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    if os.environ.get("RAY_ADDRESS") or not last.is_file():
        return {}
    try:
        _check_address(last.read_text().strip())
    except UsageError:
        return {"address": "local"}
    return {}


def _check_address(address: str) -> None:
    """Raises UsageError if nothing listens; Ray itself would retry for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")  # of IPv6
    if not (host and port.isdecimal()):  # "auto", "local", or empty
        return
    try:
        socket.create_connection((host, int(port)), timeout=_LISTENS).close()
    except OSError as error:
        raise UsageError(
            f"--backend ray: cannot connect to RAY_ADDRESS={address} ({error.strerror or error}): "
            "start the cluster there, or unset it to start one on this machine"
        ) from None


def raise_first_error(answers: Sequence[Any]) -> Sequence[Any]:
    """Returns the values; raises the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Translates Ray's errors."""
    import ray

    try:
        yield
    except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
        raise UsageError(
            f"--backend ray: a {what} cannot start ({_message(error)}): install the harness with "
            "its extras on the machines, or add it to runtime_env"
        ) from None
    except ray.exceptions.RayError as error:
        raise WorkerDiedError(f"a {what} on the cluster was lost: {_message(error)}") from None


def _message(error: BaseException) -> str:
    """Returns the first line of an error, or the last line of a remote traceback."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if any("Traceback" in line for line in lines) else lines[0]


@dataclass(frozen=True)
class Told:
    """Settings of remote processes: environment, versions, digests of retriever files."""

    environment: Mapping[str, str]
    versions: Mapping[str, str]
    builds: RetrieverSpec | None
    digests: Mapping[str, str]

    @classmethod
    def of(cls, builds: Any) -> Told:
        """Returns the settings for processes that build a retriever from `builds`."""
        spec = builds if isinstance(builds, RetrieverSpec) else None
        environment = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
        return cls(environment, versions(), spec, file_digests(spec) if spec else {})

    def settle(self) -> None:
        """Applies the settings to this process.

        Raises UsageError if its versions or code differ.
        """
        os.environ.update(self.environment)
        os.environ["TQDM_DISABLE"] = "1"  # its progress bars are invisible
        here = {**versions(), **(file_digests(self.builds) if self.builds else {})}
        for name, there in {**self.versions, **self.digests}.items():
            if here.get(name) != there:
                raise UsageError(
                    f"--backend ray: {platform.node()} has {name} {here.get(name, 'not at all')}, "
                    f"but the run was started with {there}: numbers could differ; install the "
                    "same version there, or add it to runtime_env"
                )


class Shards:
    """A retriever over a corpus in shards, each indexed and searched where it is stored."""

    batch_size = QUERIES_PER_ITEM

    def __init__(
        self,
        cluster: Cluster,
        n: int,
        given: tuple[RetrieverSpec | Retriever, int, int, DatasetLocation],
    ) -> None:
        """`given` are the arguments of every shard before its piece; see `Shard`."""
        builds, _, batch_size, _ = self._given = given
        self._cluster, self._n = cluster, n
        self._at_once = max(batch_size, _AT_ONCE)
        self._told = Told.of(builds)
        self._crew: list[tuple[Any, Any]] = []

    def index(self, corpus: Corpus) -> None:
        """Splits the corpus and lets each shard index its piece; raises the first error."""
        import ray

        self.close()
        for piece in split_corpus(corpus, self._n):
            # Keep a reference, because a restarted shard loads its piece again.
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
        """Merges the best results of all shards."""
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
        """Returns the reports of the shards: sums, and each."""
        with translated_errors("shard"):
            return add_reports(self._all(self._ask("report")))

    def close(self) -> None:
        """Closes the shards."""
        import ray

        with suppress(ray.exceptions.RayError):  # also one that is still working
            for failed in filter(None, ray.get(self._ask("close"), timeout=_TO_CLOSE)):
                _log.warning(f"note: a shard did not close cleanly: {failed}")
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
    """A shard on a machine of the cluster, which may replace a lost one.

    Every call therefore names its piece, which it loads once.
    """

    _shard: Shard | None = None

    def ask(self, held: Sequence[Any], said: Told, what: str, *given: Any) -> Any:
        import ray

        if self._shard is None:
            try:
                said.settle()
            except HarnessError as error:  # returned, since Ray would wrap it
                return error
            self._shard = Shard(*ray.get(held[0]))
        return getattr(self._shard, what)(*given)


SHARD = Remote(
    _Shard, {"max_restarts": 3, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}, 0
)
"""Shards as actors: restarted when lost, if resources allow."""
