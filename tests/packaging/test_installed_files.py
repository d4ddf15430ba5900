"""Every shipped config and example is used from an installed wheel, in an empty folder."""

from __future__ import annotations

import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
import yaml
from environments import TOP, Environment, tracked
from polling import listens, wait_until

pytestmark = pytest.mark.packaging

SOURCES = {
    "field": "",
    "leaderboard": "",
    "locomo-reference": "locomo/locomo10.json",
    "longmemeval-dated": "longmemeval/longmemeval_s_sample.json",
    "longmemeval-official": "longmemeval/longmemeval_s_sample.json",
    "longmemeval-turns": "longmemeval/longmemeval_s_sample.json",
    "nightly": "",
    "sample": "",
    "scifact": "beir/scifact",
    "trec-dl19": "",
}
"""Where the real data is that stands for a download; none where a config needs no `--source`."""


def test_every_config_is_tried_here() -> None:
    assert sorted(SOURCES) == sorted(path.stem for path in (TOP / "configs").glob("*.toml"))


@pytest.mark.parametrize("config", [name for name, source in SOURCES.items() if source])
def test_a_config_runs_by_name_over_data_that_is_there(
    config: str, data: Path, installed: Environment, empty: Path
) -> None:
    given = ("--source", data / SOURCES[config], "--limit", 4, "--json")
    done = installed.run(empty, "harness", "run", "--config", config, *given)
    assert done.returncode == 0, done.stderr
    assert f"/cli/data/configs/{config}.toml" in done.stderr.splitlines()[0]
    assert orjson.loads(done.stdout)["scores"]["queries"]["asked"] > 0
    assert [path.name for path in empty.iterdir()] == ["results"]


def test_the_config_of_trec_dl19_runs_over_its_official_files(
    data: Path, installed: Environment, empty: Path
) -> None:
    official = data / "msmarco" / "official"
    source = empty / "msmarco"
    source.mkdir()
    shutil.copy(official / "qrels.dl19-passage.txt", source / "2019qrels-pass.txt")
    topics = (official / "topics.dl19-passage.txt").read_text()
    (source / "msmarco-test2019-queries.tsv").write_text(topics)
    judged = dict.fromkeys(
        line.split()[2] for line in (source / "2019qrels-pass.txt").read_text().splitlines()
    )
    words = [line.split("\t")[1] for line in topics.splitlines()]
    (source / "collection.tsv").write_text(
        "".join(f"{id_}\t{words[n % len(words)]} {n}\n" for n, id_ in enumerate(judged))
    )
    given = ("--config", "trec-dl19", "--source", "msmarco", "--json")
    said = orjson.loads(installed.runs(empty, "harness", "run", *given))
    assert said["run"]["retriever"]["params"]["k1"] == 0.9
    assert said["scores"]["queries"]["asked"] == 43


def test_the_configs_that_need_no_data_run_as_they_are(installed: Environment, empty: Path) -> None:
    installed.runs(empty, "harness", "run", "--config", "sample")
    said = installed.runs(empty, "harness", "run", "--config", "nightly", "--json")
    assert len(orjson.loads(said)["runs"]) == 6
    assert (empty / "results" / "nightly" / "summary.md").is_file()
    installed.runs(empty, "harness", "report", "results/nightly")


def test_the_board_s_config_goes_on_where_data_and_packages_are_missing(
    installed: Environment, empty: Path
) -> None:
    board = ("harness", "run", "--config", "leaderboard", "--limit", "4")
    done = installed.run(empty, *board)
    assert done.returncode == 2
    assert "set the variable of the environment in '$HARNESS_DATA/" in done.stderr
    done = installed.run(empty, *board, HARNESS_DATA="not/there")
    assert done.returncode == 1
    missing = empty / "not" / "there" / "locomo" / "locomo10.json"
    assert f"bm25 on locomo turn: --source {missing}: no such file or folder" in done.stderr
    assert (empty / "results" / "board" / "leaderboard.json").is_file()


def test_the_field_s_config_takes_in_what_was_published(
    data: Path, installed: Environment, empty: Path
) -> None:
    field = ("harness", "run", "--config", "field", "--json")
    done = installed.run(empty, *field, HARNESS_DATA=str(data))
    assert done.returncode == 1  # the extra of minilm is not there, and nothing else fails
    failed = [line for line in done.stderr.splitlines() if line.startswith("harness: [")]
    assert len(failed) == 2
    assert all("] minilm on locomo" in line for line in failed)
    assert len(orjson.loads(done.stdout)["runs"]) == 14
    board = orjson.loads((empty / "results" / "field" / "leaderboard.json").read_bytes())
    systems = {entry["system"] for one in board["boards"] for entry in one["entries"]}
    assert {"Letta", "MemPalace hybrid", "memory-core", "cogito-ergo", "bm25"} <= systems


def example(installed: Environment, folder: Path, name: str) -> Path:
    """The path that is printed for an example: one in the environment, not of a checkout."""
    path = Path(installed.runs(folder, "harness", "examples", name).strip())
    assert path.is_file()
    assert path.is_relative_to(installed.packages)
    return path


def test_every_example_of_the_repository_is_listed(installed: Environment, empty: Path) -> None:
    rows = orjson.loads(installed.runs(empty, "harness", "examples", "--json"))["examples"]
    files = (name for name in tracked() if name.startswith("examples/"))
    there = [name for name in files if not name.endswith(".md")]
    assert sorted(f"examples/{row['name']}" for row in rows) == sorted(there)
    for row in rows:
        assert Path(row["path"]).read_bytes() == (TOP / "examples" / row["name"]).read_bytes()


def test_the_example_of_a_command_runs(installed: Environment, empty: Path) -> None:
    path = example(installed, empty, "command.py")
    installed.runs(
        *(empty, "harness", "run", "--dataset", "sample", "--retriever", "command"),
        *("--param", f"run=python {path}"),
    )


def test_the_example_of_a_service_runs(installed: Environment, empty: Path) -> None:
    path = example(installed, empty, "http_server.py")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        port = free.server_address[1]
    process = subprocess.Popen([installed.bin("python"), path, str(port)], cwd=empty)
    try:
        wait_until(lambda: listens(port), process)
        installed.runs(
            *(empty, "harness", "run", "--dataset", "sample", "--retriever", "http"),
            *("--param", f"url=http://127.0.0.1:{port}"),
        )
    finally:
        process.kill()
        process.wait()


def test_the_example_of_an_ab_test_runs(installed: Environment, empty: Path) -> None:
    path = example(installed, empty, "ab_test.py")
    installed.runs(empty, "python", path, "--readers", "30")
    assert "bm25" in installed.runs(empty, "harness", "abtest", "ab-test/split.jsonl")


def test_the_example_of_a_log_runs(installed: Environment, empty: Path) -> None:
    path = example(installed, empty, "log_requests.py")
    installed.runs(empty, "python", path, "recalls.jsonl")
    installed.runs(empty, "harness", "score", "recalls.jsonl", "--log", "--dataset", "sample")


def test_the_example_of_a_gate_passes_where_it_is_and_the_others_are_whole(
    installed: Environment, empty: Path
) -> None:
    run = ("harness", "run", "--dataset", "sample", "--retriever", "bm25", "--json")
    folder = orjson.loads(installed.runs(empty, *run))["folder"]
    gate = example(installed, empty, "ci/gate.toml")
    installed.runs(empty, "harness", "gate", folder, "--config", gate)
    for name in (
        "github-workflow.yml",
        "leaderboard-workflow.yml",
        "nightly-workflow.yml",
        "pre-commit-config.yaml",
    ):
        assert yaml.safe_load(example(installed, empty, f"ci/{name}").read_text())
