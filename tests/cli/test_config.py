"""`--config FILE.toml`: the options of a run in a file."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from output import protocols
from places import ROOT

from harness.cli import run
from harness.cli.parser import build_parser
from harness.cli.run_single import SETTINGS
from harness.datasets.registry import choose_config, find
from harness.records.settings import settings_of
from harness.retrievers.registry import RetrieverSpec
from harness.scoring.metrics import parse_metrics

CONFIGS = sorted((ROOT / "configs").glob("*.toml"))


def _run(harness: Callable[..., Any], *more: object) -> dict[str, Any]:
    said = harness("run", "--config", "mine.toml", "--json", *more)
    assert (said.status, said.err) == (0, "")
    values: dict[str, Any] = orjson.loads(said.out)
    return values


def test_every_option_may_stand_in_the_file_and_the_command_line_wins(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(
        'dataset = "sample"\nretriever = "bm25"\nk = 20\nlimit = 12\nseed = 5\nbatch-size = 3\n'
        'protocol = ["memory"]\nks = [2, 4]\nmetrics = "ndcg@7"\nout = "there"\n'
        "[params]\nk1 = 0.9\nb = 0.4\n"
    )
    values = _run(harness)
    assert values["run"]["settings"] == {
        "k": 20,
        "limit": 12,
        "seed": 5,
        "workers": 1,
        "batch_size": 3,
    }
    assert values["run"]["retriever"]["params"]["b"] == 0.4
    assert values["folder"].startswith("there/")
    metrics = protocols(values["scores"])[0].slices["all"].metrics
    assert {"recall@2", "recall@4", "ndcg@7"} <= set(metrics)
    assert {block.protocol for block in protocols(values["scores"])} == {"memory"}

    more = ["--seed", 0, "--k", 5, "--param", "k1=2", "--ks", "3", "--protocol", "trec"]
    values = _run(harness, *more, "--retriever", "bm25")
    assert values["run"]["settings"]["seed"] == 0  # nought is a choice
    assert values["run"]["settings"]["k"] == 5
    assert values["run"]["retriever"]["params"]["k1"] == 2
    assert values["run"]["retriever"]["params"]["b"] == 0.4
    assert {block.protocol for block in protocols(values["scores"])} == {"trec"}


def test_paths_are_taken_from_the_file_s_own_folder(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    place = tmp_path / "project"
    (place / "data").mkdir(parents=True)
    (place / "data" / "documents.jsonl").write_text('{"id": "d", "text": "the key"}\n')
    (place / "data" / "queries.jsonl").write_text('{"id": "q", "text": "key?"}\n')
    (place / "data" / "qrels.jsonl").write_text('{"query": "q", "document": "d"}\n')
    (place / "mine.py").write_text("def find(text, k):\n    return ['d']\n")
    (place / "more.py").write_text(
        "from harness import register_retriever\n"
        "@register_retriever('found-by-config')\ndef find(text, k):\n    return ['d']\n"
    )
    head = 'dataset = "labelled"\nsource = "data"\n'
    (place / "one.toml").write_text(head + 'retriever = "mine.py:find"\n')
    (place / "two.toml").write_text(head + 'retriever = "found-by-config"\nplugin = "more.py"\n')
    for name in ("one", "two"):
        said = harness("run", "--config", f"project/{name}.toml", "--json")
        assert (said.status, said.err) == (0, "")
        assert orjson.loads(said.out)["scores"]["queries"]["asked"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("k = \n", "not valid TOML"),
        ("datset = 'sample'\n", "unknown key 'datset'; did you mean dataset"),
        ("resume = true\n", "unknown key 'resume'"),
        ("k = 'ten'\n", "k must be a whole number, not 'ten'"),
        ("k = 2.5\n", "k must be a whole number, not 2.5"),
        ("workers = true\n", "workers must be a whole number, not True"),
        ("strict = 1\n", "strict must be true or false, not 1"),
        ("dataset = ['sample']\n", "dataset must be a text, not ['sample']"),
        ("params = 3\n", "params must be a table: [params]"),
        ("protocol = [3]\n", "protocol must be a text or a list of texts"),
        ("missing = 'none'\n", "missing must be zero or skip, not 'none'"),
        ("[params]\nk9 = 1\n", "has no parameter 'k9'; did you mean k1?"),
        ("k = 0\n", "--k must be 1 or more, not 0"),
        ("'batch-size' = 1\nbatch_size = 64\n", "'batch-size' and 'batch_size' are one option"),
        (f"match_f1 = {'9' * 400}\n", "an integer has more than 64 bits"),
        (f"max_usd = -{'9' * 400}\n", "an integer has more than 64 bits"),
        (f"[params]\nk1 = [{2**63}]\n", "an integer has more than 64 bits"),
        (f"k = {'9' * 5000}\n", "an integer has more than 64 bits"),
        (f"k = {'[' * 100_000}\n", "nested deeper than 50"),
        (f"k = {'[' * 60}1{']' * 60}\n", "nested deeper than 50"),
        (f"k{'.k' * 5_000} = 1\n", "nested deeper than 50"),
    ],
    ids=lambda given: given[:40],
)
def test_what_is_wrong_in_the_file_is_said_in_one_line(
    harness: Callable[..., Any], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "mine.toml").write_text(text)
    told = harness("run", "--config", "mine.toml", "--dataset", "sample", "--retriever", "bm25")
    assert told.status == 2
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_folder_in_place_of_the_file_is_one_line(harness: Callable[..., Any]) -> None:
    told = harness("run", "--config", ".")
    assert (told.status, told.err) == (2, "harness: --config .: cannot be read (Is a directory)\n")


@pytest.mark.extensions
@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_shipped_config_names_what_there_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.cli.suite import expand

    monkeypatch.setenv("HARNESS_DATA", "/somewhere")
    options = build_parser(load_all=True).parse_args(["run", "--config", str(file)])
    values = tomllib.loads(file.read_text())
    values.pop("nightly", None)
    for one in expand(options, file, values):
        _, variant, name = find(one.dataset)
        choose_config(variant, one.granularity or "", one.text or "", one.split or "", name)
        if one.published:
            assert one.sha256
            assert one.url.startswith("https://")
        else:
            RetrieverSpec(one.retriever, one.params).check()
        if one.metrics:
            assert parse_metrics(one.metrics)
    # Whoever opens the file reads first what it is for.
    assert file.read_text().startswith("# ")


def test_there_are_configs() -> None:
    assert len(CONFIGS) >= 5


def test_every_option_of_run_is_in_a_group_of_the_help() -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    grouped = {
        action.dest for group in parser._action_groups[2:] for action in group._group_actions
    }
    assert grouped == {*settings_of(*SETTINGS), "param", "config", "json", "quiet"}
