"""Runs on a cluster of Ray, of several nodes on this machine: the same bytes, whatever dies."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import labelled
from polling import HANGS, wait_until

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError, WorkerDiedError
from harness.extensions.cluster import ray_executor
from harness.extensions.cluster.ray_executor import (
    SHARD,
    TASK,
    Remote,
    _new_cluster_options,
    connected_cluster,
)
from harness.retrievers.bm25 import BM25
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.provenance import versions
from harness.runs.run import run
from harness.runs.settings import Settings

pytestmark = pytest.mark.ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"

MORTAL = """
    import os, time
    from pathlib import Path
    from harness.retrievers.bm25 import BM25

    class Mortal(BM25):
        '''Dies in a search once, or while a file is there; or waits in it until a file is there.'''

        supports_sharding = True

        def __init__(self, once: str = "", while_: str = "", until: str = "") -> None:
            super().__init__()
            self.once, self.while_, self.until = once, while_, until

        def search(self, queries, k):
            if self.once and not Path(self.once).exists():
                Path(self.once).touch()
                os.kill(os.getpid(), 9)
            if self.while_ and Path(self.while_).exists():
                os.kill(os.getpid(), 9)
            if self.until:
                import ray
                Path(self.until + "." + ray.get_runtime_context().get_node_id()).touch()
                while not Path(self.until).exists():
                    time.sleep(0.05)
            return super().search(queries, k)
"""


def cluster_of(nodes: int) -> Any:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=2, include_dashboard=False) for _ in range(nodes)]
    return made


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    made = cluster_of(2)
    yield made
    made.shutdown()


@pytest.fixture
def address(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of the cluster, by which runs find it."""
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    return str(nodes.address)


@pytest.fixture
def scifact(data: Path) -> Dataset:
    return open_dataset("beir/scifact", source=data / "beir" / "scifact")


@pytest.fixture
def locomo(data: Path) -> Dataset:
    return open_dataset("locomo", source=data / "locomo" / "locomo10.json")


@pytest.fixture(params=["in-shards", "as-tasks"])
def dataset(request: pytest.FixtureRequest, scifact: Dataset, locomo: Dataset) -> Dataset:
    """One haystack, which is cut, or many."""
    return scifact if request.param == "in-shards" else locomo


@pytest.fixture
def mortal(tmp_path: Path) -> Callable[..., RetrieverSpec]:
    file = tmp_path / "mortal.py"
    file.write_text(textwrap.dedent(MORTAL))
    return lambda **params: RetrieverSpec(f"{file}:Mortal", {n: str(p) for n, p in params.items()})


def on_ray(workers: int | None = None, **settings: Any) -> Settings:
    return Settings(backend="ray", workers=workers, **settings)


def rankings(folder: Path) -> bytes:
    return RunFolder(folder).rankings.read_bytes()


def scored(folder: Path) -> pa.Table:
    """What was found, in its order, with ranks and scores."""
    return pq.read_table(RunFolder(folder).rankings)


def cluster_said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((folder / "run.json").read_bytes())["settings"]["cluster"]
    return found


def test_rankings_are_the_same_bytes_with_1_2_and_7_shards(
    tmp_path: Path, scifact: Dataset, address: str
) -> None:
    expected = rankings(run(scifact, "bm25", out=tmp_path / "here"))
    for n in (1, 2, 7):
        folder = run(scifact, "bm25", on_ray(n), out=tmp_path / str(n))
        assert rankings(folder) == expected
        assert cluster_said(folder)["shards"] == n
        assert cluster_said(folder)["nodes"] == 3


def test_rankings_are_the_same_bytes_from_one_process_from_several_and_from_tasks(
    tmp_path: Path, locomo: Dataset, address: str
) -> None:
    expected = rankings(run(locomo, "bm25", out=tmp_path / "here"))
    assert rankings(run(locomo, "bm25", Settings(workers=2), out=tmp_path / "two")) == expected
    folder = run(locomo, "bm25", on_ray(3), out=tmp_path / "ray")
    assert rankings(folder) == expected
    assert "shards" not in cluster_said(folder)


def test_other_versions_on_the_machines_are_an_error(
    tmp_path: Path, scifact: Dataset, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_executor, "versions", lambda: {**versions(), "PyStemmer": "0.1"})
    with pytest.raises(UsageError, match=r"has PyStemmer .* but the run was started with 0.1"):
        run(scifact, "bm25", on_ray(2), out=tmp_path)


def test_what_cannot_be_cut_into_shards_is_run_whole(
    tmp_path: Path, scifact: Dataset, address: str
) -> None:
    expected = rankings(run(scifact, "tfidf", out=tmp_path / "here"))
    folder = run(scifact, "tfidf", on_ray(2), out=tmp_path / "ray")
    assert rankings(folder) == expected
    assert "shards" not in cluster_said(folder)


def test_vectors_in_shards_score_as_in_one_process(
    tmp_path: Path, scifact: Dataset, address: str
) -> None:
    texts = scifact.documents.contents()[:90]
    records = [{"id": f"d{i}", "text": text[:200]} for i, text in enumerate(texts)]
    queries = [{"id": f"q{i}", "text": text[:60]} for i, text in enumerate(texts[:9])]
    small = labelled(tmp_path / "raw", records, queries, {f"q{i}": [f"d{i}"] for i in range(9)})
    tables = [
        pq.read_table(RunFolder(run(small, "minilm", one, out=tmp_path / name)).rankings)
        for name, one in (("here", Settings()), ("ray", on_ray(3)))
    ]
    here, there = (
        {(row["query"], row["document"]): row["score"] for row in table.to_pylist()}
        for table in tables
    )
    assert here == pytest.approx(there, abs=1e-6)


def test_a_worker_that_is_killed_changes_no_byte(
    tmp_path: Path,
    dataset: Dataset,
    address: str,
    mortal: Callable[..., RetrieverSpec],
) -> None:
    spec = mortal(once=tmp_path / "died")
    found = scored(run(dataset, spec, on_ray(2), out=tmp_path / "ray"))
    assert (tmp_path / "died").exists()
    assert found == scored(run(dataset, BM25(), out=tmp_path / "here"))


def test_what_dies_again_and_again_is_an_error_with_a_count_and_no_run(
    tmp_path: Path,
    dataset: Dataset,
    address: str,
    mortal: Callable[..., RetrieverSpec],
) -> None:
    deadly = tmp_path / "deadly"
    deadly.touch()
    spec, out = mortal(while_=deadly), tmp_path / "ray"
    total = dataset.n_queries
    with pytest.raises(
        WorkerDiedError, match=f"lost: .*; 0 of {total} queries are answered and kept"
    ):
        run(dataset, spec, on_ray(2), out=out)
    assert not [*out.glob("[!.]*")]
    deadly.unlink()
    found = scored(run(dataset, spec, on_ray(2), out=out, mode=Mode.RESUME))
    assert found == scored(run(dataset, BM25(), out=tmp_path / "here"))


def test_a_node_that_dies_changes_no_byte(
    tmp_path: Path, scifact: Dataset, mortal: Callable[..., RetrieverSpec], monkeypatch: Any
) -> None:
    nodes = cluster_of(3)
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    waits = tmp_path / "wait"

    def kill_one() -> None:
        by_id = {node.node_id: node for node in nodes.workers}
        wait_until(lambda: bool([*tmp_path.glob("wait.*")]))
        held = next(tmp_path.glob("wait.*")).suffix[1:]
        nodes.remove_node(by_id.get(held, nodes.workers[0]), allow_graceful=False)
        waits.touch()

    deed = threading.Thread(target=kill_one)
    deed.start()
    try:
        found = scored(run(scifact, mortal(until=waits), on_ray(3), out=tmp_path / "ray"))
    finally:
        deed.join()
        nodes.shutdown()
    assert found == scored(run(scifact, BM25(), out=tmp_path / "here"))


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "harness", "run", "--out", str(out), *more]


def test_a_head_that_dies_leaves_what_is_done_and_resume_goes_on(
    tmp_path: Path, locomo: Dataset, mortal: Callable[..., RetrieverSpec]
) -> None:
    nodes = cluster_of(1)
    waits, out = tmp_path / "wait", tmp_path / "ray"
    name = mortal().name
    wanted = ["--dataset", "locomo", "--retriever", name, "--param", f"until={waits}"]
    begun = subprocess.Popen(
        command(out, *wanted, "--backend", "ray", "--workers", "2", "--quiet"),
        env={**os.environ, "RAY_ADDRESS": nodes.address},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: bool([*tmp_path.glob("wait.*")]), begun)
    nodes.remove_node(nodes.head_node, allow_graceful=False)
    _, said = begun.communicate(timeout=HANGS)
    assert begun.returncode == 1
    assert (
        said.strip().splitlines()[-1].endswith("finished queries are saved: continue with --resume")
    )
    assert not [*out.glob("[!.]*")]
    nodes.shutdown()
    waits.touch()
    subprocess.run(command(out, *wanted, "--resume", "--backend", "ray", "--quiet"), check=True)
    (folder,) = out.glob("[!.]*")
    assert scored(folder) == scored(run(locomo, BM25(), out=tmp_path / "here"))


@pytest.mark.parametrize(
    ("options", "of", "fit", "workers"),
    [
        ({}, SHARD, 9, 4),  # shards hold no processor
        ({}, TASK, 4, 4),
        ({"num_cpus": 2}, SHARD, 2, 2),
        ({"num_cpus": 3}, TASK, 0, 1),  # no node has so many
        ({"resources": {"fast_disk": 1}}, SHARD, 0, 1),
    ],
)
def test_what_has_room_is_counted_node_by_node(
    address: str, options: dict[str, Any], of: Remote, fit: int, workers: int
) -> None:
    with connected_cluster(options, of) as found:
        assert min(9, found._room(of.holds)) == fit
        assert found.processors == workers


def test_what_ray_says_of_a_death_is_not_in_the_json(
    tmp_path: Path, scifact: Dataset, address: str, mortal: Callable[..., RetrieverSpec]
) -> None:
    wanted = ["--dataset", "beir/scifact", "--retriever", mortal().name, "--json"]
    more = ["--param", f"once={tmp_path / 'died'}", "--backend", "ray", "--workers", "2"]
    done = subprocess.run(command(tmp_path, *wanted, *more), capture_output=True, check=True)
    assert orjson.loads(done.stdout)["run"]["queries"]["answered"] == 300


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide a folder from a node")
def test_a_node_without_a_file_of_ours_takes_all_from_an_object_store(
    tmp_path: Path, home: Path, scifact: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    store.start()
    _, port = store.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HARNESS_SHARED": "s3://bench/all?scheme=http&region=us-east-1"
        f"&endpoint_override=127.0.0.1:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
    s3.create_bucket(Bucket="bench")
    nodes = cluster_of(0)
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    # Over the cache folder lies an empty one, for this node alone.
    start = (
        f"mount -t tmpfs none {home} && exec {Path(sys.executable).parent / 'ray'} start --block"
    )
    node = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", f"{start} --address={nodes.address} --num-cpus=2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    needs_it = {"backend_options": {"num_cpus": 1}}  # the head has none
    try:
        found = run(scifact, "bm25", on_ray(2, **needs_it), out=tmp_path / "ray")
    finally:
        os.killpg(node.pid, 9)
        nodes.shutdown()
        store.stop()
    assert rankings(found) == rankings(run(scifact, "bm25", out=tmp_path / "here"))


@pytest.mark.parametrize(
    ("options", "address", "said"),
    [
        ({"nonsense": 1}, "", "--backend-options: Invalid option keyword nonsense for actors."),
        ({"max_concurrency": 4}, "", "--backend-options: max_concurrency is not supported here"),
        ({"runtime_env": "here"}, "", "--backend-options: runtime_env is a table"),
        ({}, "127.0.0.1:9", "cannot connect to RAY_ADDRESS=127.0.0.1:9"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path,
    scifact: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    address: str,
    said: str,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match=said):
        run(scifact, "bm25", on_ray(2, backend_options=options), out=tmp_path)


def test_a_cluster_that_died_here_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:9")
    assert _new_cluster_options() == {"address": "local"}


def test_an_object_that_cannot_be_sent_says_so(
    tmp_path: Path, locomo: Dataset, address: str
) -> None:
    with pytest.raises(UsageError, match="cannot be sent to other processes"):
        run(locomo, BM25(), on_ray(2), out=tmp_path)
