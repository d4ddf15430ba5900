"""`harness answer` and `harness judge`, against an endpoint that answers by a known rule."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from answering_rule import DECLINED, Rule
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from openai_endpoint import CHAT, Failure, OpenAIEndpoint
from output import output_schema, protocols

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.extensions.answers.tables import AnsweredTables, repeated
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.project import Project
from harness.io.records import to_plain
from harness.records.scores import MetricResult
from harness.schema import Ability

Harness = Callable[..., Any]
FORMS = Draft202012Validator(output_schema())
BASELINES = ["no context", "newest documents", "random documents", "evidence only"]


@pytest.fixture
def rule(sample: Dataset) -> Rule:
    return Rule(
        sample,
        accuracy_given_evidence=0.85,
        accuracy_given_part=0.3,
        accuracy_given_no_evidence=0.05,
        declines_unanswerable=0.7,
        declines_wrong=0.4,
    )


@pytest.fixture
def endpoint(rule: Rule, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIEndpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with OpenAIEndpoint(rule) as found:
        yield found


@pytest.fixture
def run(sample_run: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_run("bm25"), tmp_path / "results" / "run"))


def _asked(endpoint: OpenAIEndpoint) -> list[str]:
    return ["--model", "gpt-4o-mini", "--endpoint", endpoint.url]


def _answered(told: Any) -> dict[str, dict[str, Any]]:
    """By the name of each system and control: its folder, record and scores."""
    assert told.status == 0, told.err
    FORMS.validate(orjson.loads(told.out))
    return {one["answers"]["name"]: one for one in orjson.loads(told.out)["results"]}


def _cells(one: dict[str, Any], protocol: str, part: str = "all") -> dict[str, MetricResult]:
    block = next(b for b in protocols(one["scores"]) if b.protocol == protocol)
    return block.slices[part].metrics


JUDGED = "judge:plain(gpt-4o-mini)"


@pytest.mark.slow
@pytest.mark.parametrize("usage", [True, False])
def test_usage_is_what_was_billed_and_unknown_where_the_endpoint_does_not_say(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path, tmp_path: Path, usage: bool
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('[prices."*"]\nprompt_tokens = 2\ncompletion_tokens = 3\n')
    endpoint.usage = usage
    # Of the two, one reply is lost after it was billed, and one is no reply.
    endpoint.fail(CHAT, Failure(cut=True), Failure(body=b"{}"))
    paid = ["--endpoint", endpoint.url, "--model", "own", "--prices", prices, "--max-usd", 10]
    told = harness("answer", run, *paid, "--no-baselines", "--k", 1)
    assert told.status == 0, told.err
    assert ("unknown" in told.out) is not usage
    billed = [endpoint.counted()]
    (folder,) = run.parent.glob("*.answers")
    assert harness("judge", folder, "--judge", "plain", *paid).status == 0
    both = endpoint.counted()
    billed.append({name: n - billed[0][name] for name, n in both.items()})
    (judge,) = folder.glob("judgements/*/judge.json")
    for bill, path in zip(billed, (folder / "answers.json", judge), strict=True):
        used = orjson.loads(path.read_bytes())["usage"]
        assert used["calls"] == bill["calls"] > 0
        if usage:
            assert used["prompt_tokens"] == bill["prompt_tokens"]
            cost = 2 * bill["prompt_tokens"] + 3 * bill["completion_tokens"]
            assert used["usd"] == pytest.approx(cost / 1e6)
        else:
            assert used["calls_without_usage"] == bill["calls"]
            assert used.get("usd") is None


@pytest.mark.slow
def test_answers_stand_beside_baselines_and_are_judged_and_compared(
    harness: Harness, endpoint: OpenAIEndpoint, rule: Rule, run: Path, sample: Dataset
) -> None:
    told = harness("answer", run, *_asked(endpoint), "--k", 10, "--json")
    answered = _answered(told)
    assert [*answered] == ["bm25", *BASELINES]
    asked = len(endpoint.calls)
    assert all(one["answers"]["queries"]["failed"] == 0 for one in answered.values())

    # Without a model: what the rule's answers are worth, counted here.
    table = pq.read_table(Path(answered["bm25"]["folder"]) / "answers.parquet").to_pylist()
    rows = {row["query"]: row for row in table}
    assert len(rows) == sample.n_queries
    rows_of = {id_: at for at, id_ in enumerate(sample.query_ids)}
    without = sample.abilities == str(Ability.ABSTENTION)
    right = {id_: rule.truth(rows_of[id_], rows[id_]["answer"]) for id_ in rows}
    mine = [right[id_] for id_ in rows if not without[rows_of[id_]]]
    cells = _cells(answered["bm25"], "answers-text")
    assert cells["exact_match"].value == pytest.approx(sum(mine) / len(mine))
    assert (cells["exact_match"].n, cells["abstained"].n) == (len(mine), sample.n_queries)
    declined = sum(row["answer"] == DECLINED for row in table) / len(table)
    assert cells["abstained"].value == pytest.approx(declined)
    assert 1 <= max(row["items"] for row in table) <= 10

    # With a judge that never errs: the same, of all questions; and where each was lost.
    folders = [one["folder"] for one in answered.values()]
    judged = _answered(harness("judge", *folders, "--judge", "plain", *_asked(endpoint), "--json"))
    assert len(endpoint.calls) <= 2 * asked
    cell = _cells(judged["bm25"], JUDGED)["accuracy"]
    assert cell.value == pytest.approx(sum(right.values()) / len(right))
    assert cell.interval.low < cell.value < cell.interval.high
    assert "|judge:plain/1(gpt-4o-mini)" in cell.signature
    for name in judged:
        _check_losses(_cells(judged[name], JUDGED))
    losses = _cells(judged["bm25"], JUDGED)
    interval = losses["accuracy_given_evidence"].interval
    assert interval.low < 0.85 < interval.high
    assert _cells(judged["evidence only"], JUDGED)["retrieval_error"].value == 0
    assert _cells(judged["no context"], JUDGED)["correct_given_evidence"].value == 0
    assert _cells(judged["no context"], JUDGED)["retrieval_headroom"].value > 0.8

    # As rankings are compared: paired, by ability; the reader is part of what must agree.
    two = [judged[name]["folder"] for name in ("random documents", "bm25")]
    found = orjson.loads(harness("compare", *two, "--metrics", "accuracy", "--json").out)
    assert found["groups"][0]["essentials"]["reader"] == "plain/1(gpt-4o-mini),reasoning:stripped/1"
    text = harness("answer", run, *_asked(endpoint), "--k", 10)
    assert "error attribution: " in text.out  # what was judged is kept
    assert re.search(r"0\.0000 \[0\.000, 0\.\d+\] of \d+: all 12 haystacks have the same", text.out)
    assert "evidence only" in text.out
    assert "sk-very-secret" not in text.out + text.err
    for path in run.parent.rglob("*"):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes()


def _check_losses(cells: dict[str, Any]) -> None:
    classes = (
        "correct_given_evidence",
        "correct_without_evidence",
        "reader_error",
        "wrong_abstention",
    )
    classes += ("partial_retrieval_error", "retrieval_error")
    assert sum(cells[name].value for name in classes) == pytest.approx(1)
    assert cells["correct_abstention"].value + cells["hallucinated"].value == pytest.approx(1)
    lost = cells["partial_retrieval_error"].value + cells["retrieval_error"].value
    assert cells["retrieval_headroom"].value == pytest.approx(lost)


@pytest.mark.slow
def test_the_same_again_costs_nothing_and_another_judge_asks_no_reader(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path, tmp_path: Path
) -> None:
    options = [run, *_asked(endpoint), "--k", 5, "--no-baselines", "--json"]
    first = _answered(harness("answer", *options))["bm25"]
    n = len(endpoint.calls)
    again = _answered(harness("answer", *options))["bm25"]
    assert (len(endpoint.calls), again["folder"]) == (n, first["folder"])
    assert again["answers"]["usage"]["new_calls"] == 0
    assert again["answers"]["usage"]["prompt_tokens"] == first["answers"]["usage"]["prompt_tokens"]
    used, counted = first["answers"]["usage"], endpoint.counted()
    assert {name: used[name] for name in ("prompt_tokens", "completion_tokens")} == {
        name: counted[name] for name in ("prompt_tokens", "completion_tokens")
    }
    usd = (used["prompt_tokens"] * 0.15 + used["completion_tokens"] * 0.6) / 1e6
    assert used["usd"] == pytest.approx(usd)

    folder = Path(first["folder"])
    answers = (folder / "answers.parquet").read_bytes()
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'name = "mine"\nprompt = "Question: {question}\\nSame as {answer}?\\nResponse: '
        '{response}\\nVerdict:"\ncorrect = "RIGHT"\nincorrect = "WRONG"\n'
    )
    for judge in ("plain", mine):
        told = harness("judge", folder, "--judge", judge, *_asked(endpoint), "--json")
        assert told.status == 0, told.err
    assert (folder / "answers.parquet").read_bytes() == answers
    found = protocols(_answered(told)["bm25"]["scores"])
    names = [block.protocol for block in found]
    assert names[0] == "answers-text"
    assert sorted(name.partition("(")[0].partition("#")[0] for name in names[1:]) == [
        "judge:mine",
        "judge:plain",
    ]
    bill = {key: endpoint.bills.count(key) for key in endpoint.bills}
    assert max(bill.values()) == 1


@pytest.mark.slow
def test_what_is_neither_yes_nor_no_is_counted_and_what_is_filtered_left_out(
    harness: Harness, endpoint: OpenAIEndpoint, rule: Rule, run: Path
) -> None:
    endpoint.fail(CHAT, *[Failure(400, code="content_filter")] * 3)
    options = [run, *_asked(endpoint), "--no-baselines", "--concurrency", 1]
    told = harness("answer", *options)
    assert "3 failed answers count 0; the rows" in told.out
    (folder,) = run.parent.glob("*.answers")
    table = pq.read_table(folder / "answers.parquet")
    assert table["error"].drop_null().to_pylist() == ["asked to fail"] * 3
    rule.neither = 0.2
    told = harness("judge", folder, "--judge", "plain", *_asked(endpoint))
    about = orjson.loads(next(folder.glob("judgements/*/judge.json")).read_bytes())
    neither = about["counts"]["undecided"]
    assert 30 < neither < 100
    assert f"318 judgements, {neither} undecided replies excluded" in told.out
    scores = orjson.loads((folder / "scores.json").read_bytes())
    (block,) = [b for b in protocols(scores) if b.protocol == JUDGED]
    accuracy = block.slices["all"].metrics["accuracy"]
    assert (accuracy.n, accuracy.answered_only.n) == (321 - neither, 318 - neither)
    assert accuracy.value * accuracy.n == pytest.approx(
        accuracy.answered_only.value * accuracy.answered_only.n
    )
    assert block.excluded == {}


@pytest.mark.slow
def test_replies_without_an_answer_fail_with_a_reason_and_never_abstain(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    def body(message: dict[str, Any], finish: str = "stop") -> Failure:
        choice = {"message": message, "finish_reason": finish}
        return Failure(body=orjson.dumps({"choices": [choice]}))

    endpoint.fail(
        CHAT,
        body({"content": ""}, "length"),
        body({"content": None, "refusal": "No."}),
        body({"content": [{"type": "text", "text": "In "}, {"type": "text", "text": "May"}]}),
        body({"content": "<think>It is not mentioned.</think>In June"}),
        body({"content": "<think>It is not mentioned, so"}, "length"),
        body({"content": "It was in the month of"}, "length"),
        body({"content": ""}),
    )
    options = (run, *_asked(endpoint), "--no-baselines", "--concurrency", 1)
    told = harness("answer", *options)
    assert told.status == 0, told.err
    assert "5 failed answers count 0" in told.out
    assert re.search(r"^ *3 +truncated at the token limit$", told.out, re.MULTILINE), told.out
    assert "2 of 321 replies contain reasoning" in told.err
    (one,) = _answered(harness("answer", *options, "--json")).values()
    assert one["answers"]["queries"]["reasons"] == {
        "truncated at the token limit": 3,
        "refused by the model: No.": 1,
        "empty reply": 1,
    }
    rows = pq.read_table(Path(one["folder"]) / "answers.parquet").to_pylist()[:7]
    assert [row["answer"] for row in rows] == [None, None, "In May", "In June", None, None, None]
    assert one["scores"]["queries"]["failed"] == 5


@pytest.mark.slow
def test_a_judge_that_reasons_is_noted_and_its_verdict_follows_the_reasoning(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    options = (*_asked(endpoint), "--no-baselines", "--quiet")
    assert harness("answer", run, *options).status == 0
    (folder,) = run.parent.glob("*.answers")
    endpoint.answer = lambda chat: "<think>WRONG? Yes and no.</think> RIGHT"
    told = harness("judge", folder, "--judge", "plain", *_asked(endpoint), "--json")
    assert "321 of 321 replies of judge:plain(gpt-4o-mini) contain reasoning" in told.err
    (one,) = _answered(told).values()
    accuracy = _cells(one, JUDGED)["accuracy"]
    assert (accuracy.value, accuracy.n) == (1.0, 321)
    assert "|judge:plain/1(gpt-4o-mini),reasoning:stripped/1" in accuracy.signature


@pytest.mark.slow
def test_a_reader_that_fails_on_half_has_not_the_accuracy_of_the_other_half(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    asked = (*_asked(endpoint), "--no-baselines", "--concurrency", 1)
    assert harness("answer", run, *asked, "--k", 10, "--quiet").status == 0
    (whole,) = run.parent.glob("*.answers")
    endpoint.fail(CHAT, *[Failure(400, code="content_filter")] * 160)
    assert harness("answer", run, *asked, "--k", 9, "--quiet").status == 0
    (half,) = {*run.parent.glob("*.answers")} - {whole}
    told = harness("judge", whole, half, "--judge", "plain", *_asked(endpoint))

    # The scores: 0 for each failed answer, whatever the measure, and the others beside.
    scores = orjson.loads((half / "scores.json").read_bytes())
    blocks = {block.protocol: block for block in protocols(scores)}
    names = ["exact_match", "token_f1", "containment", "abstained"]
    for protocol, metrics in (("answers-text", names), (JUDGED, ["accuracy"])):
        signature = blocks[protocol].signature
        assert "|missing:zero|" in signature
        assert "|queries:all|" in signature
        for metric in metrics:
            result = blocks[protocol].slices["all"].metrics[metric]
            only = result.answered_only
            assert result.value == pytest.approx(only.value * only.n / result.n), metric
            assert result.value < 0.6 * only.value, metric
    accuracy = blocks[JUDGED].slices["all"].metrics["accuracy"]
    assert (accuracy.n, accuracy.answered_only.n, scores["queries"]["failed"]) == (321, 161, 160)
    losses = {name: r.value for name, r in blocks[JUDGED].slices["all"].metrics.items()}
    _check_losses(blocks[JUDGED].slices["all"].metrics)
    lost = losses["reader_error"], losses["wrong_abstention"], losses["reader_headroom"]
    assert lost[0] + lost[1] == pytest.approx(lost[2])
    assert losses["reader_error"] > blocks[JUDGED].overall["reader_error"].answered_only.value

    # The printed table.
    rows = told.out.split("\n\n")[1].splitlines()
    assert rows[-1].startswith("answered only")
    assert rows[-1].rstrip().endswith(f"{accuracy.answered_only.value:.4f} of 161")
    assert f"{accuracy.value:.4f} [" in rows[-2]
    assert "160 failed answers count 0; the rows" in told.out

    # The comparison: on the failed half the other one wins what it has right.
    found = harness("compare", whole, half, "--protocol", JUDGED, "--metrics", "accuracy")
    assert "160 queries of B failed and count 0." in found.out
    told = harness("compare", whole, half, "--protocol", JUDGED, "--metrics", "accuracy", "--json")
    cells = orjson.loads(told.out)["groups"][0]["tables"][0]["cells"]
    cell = next(one for one in cells if one["slice"] == "all")
    assert [mean["n"] for mean in cell["means"]] == [321, 321]
    assert cell["means"][1]["value"] == pytest.approx(accuracy.value)
    assert cell["means"][0]["value"] - accuracy.value > 0.2
    assert cell["pairs"][0]["shown"]


@pytest.mark.slow
def test_a_failed_repetition_counts_0_and_takes_its_question_from_the_answered_ones(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    endpoint.fail(CHAT, *[Failure(400, code="content_filter")] * 5)  # 2 questions and a half
    options = ["--no-baselines", "--repeat", 2, "--temperature", 0.7, "--concurrency", 1]
    one = _answered(harness("answer", run, *_asked(endpoint), *options, "--json"))["bm25"]
    assert one["answers"]["queries"] == {
        "asked": 321,
        "answers": 642,
        "failed": 5,
        "reasons": {"asked to fail": 5},
    }
    assert one["scores"]["queries"]["failed"] == 3
    abstained = _cells(one, "answers-text")["abstained"]
    assert (abstained.n, abstained.answered_only.n) == (321, 318)
    table = pq.read_table(Path(one["folder"]) / "answers.parquet").to_pylist()
    declined = [row["answer"] == DECLINED for row in table]
    assert abstained.value == pytest.approx(sum(declined) / 642)
    failed = {row["query"] for row in table if row["answer"] is None}
    others = [row["answer"] == DECLINED for row in table if row["query"] not in failed]
    assert abstained.answered_only.value == pytest.approx(sum(others) / 636)
    # The variances are those of the values that the means are over.
    found = one["scores"]["repeats"]["answers-text"]
    n = _cells(one, "answers-text")["token_f1"].n
    assert (found["questions"], found["repeats"]) == (n, 2.0)


@pytest.mark.slow
def test_a_sample_for_people_holds_its_share_of_failed_answers(
    harness: Harness, endpoint: OpenAIEndpoint, rule: Rule, run: Path, sample: Dataset
) -> None:
    asked = (*_asked(endpoint), "--no-baselines", "--concurrency", 1, "--quiet")
    assert harness("answer", run, *asked, "--k", 10).status == 0
    (whole,) = run.parent.glob("*.answers")
    endpoint.fail(CHAT, *[Failure(400, code="content_filter")] * 160)
    assert harness("answer", run, *asked, "--k", 9).status == 0
    (half,) = {*run.parent.glob("*.answers")} - {whole}
    folders = (whole, half)
    assert harness("judge", *folders, "--judge", "plain", *_asked(endpoint), "--quiet").status == 0
    drawn = ("label", "answers", *folders, "--pool-only", "--quiet", "--sample", 120)
    assert harness(*drawn).status == 0
    project = Project.read(Path("labels-of-answers"))
    rows_of = {id_: at for at, id_ in enumerate(sample.query_ids)}
    log = project.annotation_log("ada")
    for one in project.pool[:40]:
        right = rule.truth(rows_of[one.query], project.document(one.query, one.document).text)
        log.append(Annotation(query=one.query, document=one.document, grade=int(right)))
    told = harness("judge", *folders, "--human-labels", "labels-of-answers")
    assert "160 answers failed, but none has a human label" in told.err
    _judge_as(project, "ada", rule, rows_of, but="")
    told = harness("judge", *folders, "--human-labels", "labels-of-answers")
    assert (told.status, told.err) == (0, "")

    table = {r["query"]: r["answer"] for r in pq.read_table(half / "answers.parquet").to_pylist()}
    failed = sum(table[query] is None for query in project.query)
    right = [rule.truth(rows_of[q], table[q]) for q in project.query if table[q] is not None]
    scores = orjson.loads((half / "scores.json").read_bytes())
    people = next(b for b in protocols(scores) if b.protocol == "human")
    accuracy = people.slices["all"].metrics["accuracy"]
    assert (accuracy.n, accuracy.answered_only.n) == (120, 120 - failed)
    assert 30 < failed < 90
    assert accuracy.value == pytest.approx(sum(right) / 120)
    # Agreement is over the answers that came, and so is what is made of it.
    agreement = scores["judge_agreement"][JUDGED]
    assert (agreement["n"], agreement["corrected"]["n"]) == (120 - failed, 161)
    told = orjson.loads(harness("compare", *folders, "--protocol", JUDGED, "--json").out)
    (found,) = told["groups"][0]["tables"][0]["behind"]
    assert (found["failed"], found["with_people"]["people"]) == (160, 120 - failed)
    shown = harness("compare", *folders, "--protocol", JUDGED).out
    assert "160 questions excluded: one of the two failed" in " ".join(shown.split())

    # A file of labels: of all answers that came, and of some.
    lines = [{"question_id": q, "correct": True} for q in table if table[q] is not None]
    (query,) = [q for q in table if table[q] is None][:1]
    for some, more, n in (
        (lines, [], 321),
        (lines[:9], [{"question_id": query, "correct": False}], 10),
    ):
        Path("mine.jsonl").write_bytes(b"".join(orjson.dumps(o) + b"\n" for o in some + more))
        assert harness("judge", half, "--human-labels", "mine.jsonl").status == 0
        scores = orjson.loads((half / "scores.json").read_bytes())
        people = next(b for b in protocols(scores) if b.protocol == "human")
        accuracy = people.slices["all"].metrics["accuracy"]
        assert (accuracy.n, accuracy.value) == (n, pytest.approx(len(some) / n))
    Path("mine.jsonl").write_bytes(orjson.dumps({"question_id": query, "correct": True}))
    told = harness("judge", half, "--human-labels", "mine.jsonl")
    assert (told.status, "failed, so it is not correct" in told.err) == (2, True)


@pytest.mark.slow
def test_a_budget_is_the_same_for_all_and_a_dry_run_asks_nothing(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    options = [run, *_asked(endpoint), "--budget", 60, "--json"]
    told = harness("answer", *options, "--dry-run")
    FORMS.validate(orjson.loads(told.out))
    plan = orjson.loads(told.out)["conditions"]
    assert [one["condition"] for one in plan] == [
        "retrieved",
        "none",
        "newest",
        "random",
        "evidence",
    ]
    assert (len(endpoint.calls), plan[0]["new_calls"]) == (0, 321)
    answered = _answered(harness("answer", *options))
    for name in ("bm25", "newest documents", "random documents"):
        table = pq.read_table(Path(answered[name]["folder"]) / "answers.parquet")
        assert max(table["context_tokens"].to_pylist()) <= 60, name
    spent = sum(one["answers"]["usage"]["usd"] for one in answered.values())
    assert 0 < spent <= sum(one["max_usd"] for one in plan)
    before = endpoint.counted()
    folders = [one["folder"] for one in answered.values()]
    told = harness("judge", *folders, "--judge", "plain", *_asked(endpoint), "--max-usd", 0.012)
    assert (told.status, "--max-usd 0.012: " in told.err) == (1, True)
    used = {name: n - before[name] for name, n in endpoint.counted().items()}
    usd = (used["prompt_tokens"] * 0.15 + used["completion_tokens"] * 0.6) / 1e6
    assert 0.005 < usd <= 0.012, "one limit for all folders of a command"
    told = harness("answer", run, *_asked(endpoint), "--k", 3, "--max-usd", 0.001)
    assert told.status == 1
    assert "--max-usd 0.001: " in told.err
    assert len(told.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_repeated_answers_have_their_own_seeds_and_count_once_a_question(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path, sample: Dataset
) -> None:
    options = ["--no-baselines", "--repeat", 3, "--temperature", 0.7, "--json"]
    one = _answered(harness("answer", run, *_asked(endpoint), *options))["bm25"]
    assert len(endpoint.calls) == 3 * sample.n_queries
    seeds = {call.body["seed"] for call in endpoint.calls}
    assert (seeds, {call.body["temperature"] for call in endpoint.calls}) == ({0, 1, 2}, {0.7})
    assert _cells(one, "answers-text")["abstained"].n == sample.n_queries
    assert one["scores"]["reader"] == (
        "plain/1(gpt-4o-mini),temperature:0.7,repeat:3,reasoning:stripped/1"
    )
    # The rule answers a prompt in one way, whatever the seed: all varies between questions.
    found = one["scores"]["repeats"]["answers-text"]
    assert (found["within"], found["of_experiment"], found["repeats"]) == (0.0, 0.0, 3.0)
    assert found["between"] > 0.1
    assert found["repeats_needed"] is None
    size = found["questions"] / len(set(sample.query_shares.tolist()))
    assert found["questions_needed"] == math.ceil(found["haystacks_needed"] * size)
    (answered,) = AnsweredTables.read([Path(one["folder"])])
    for needed, said in (
        ({}, "more repetitions do not suffice"),
        ({"repeats_needed": 1}, "like these), or 1 repetition"),
        (dict.fromkeys(("questions_needed", "haystacks_needed")), "no estimate for ±0.02"),
    ):
        repeats = {of: replace(it, **needed) for of, it in answered.scores.repeats.items()}
        scores = replace(answered.scores, repeats=repeats)
        shown = repeated([dataclasses.replace(answered, scores=scores)])
        assert (said in shown, "needs 0" in shown) == (True, False), shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "m"], "OPENAI_API_KEY is not set"),
        ([], "returned no answers (Result(answer=...))"),
        (["--model", "m", "--endpoint", "localhost"], "is no address"),
        (["--model", "m", "--reader", "plane"], "did you mean plain"),
        (["--model", "m", "--baselines", "nothing"], "unknown baseline 'nothing'"),
        (["--model", "m", "--baselines", "none", "--no-baselines"], "exclude each other"),
        (["--model", "m", "--max-usd", "1"], "m has no price"),
        (["--model", "m", "--budget", "0"], "--budget must be 1 or more"),
        (["--model", "m", "--dataset", "sample"], "--dataset has no effect for a run"),
        (["--model", "m", "--timeout", "x"], "give seconds"),
        (["--model", "m", "--reader-source", "."], "is for the official readers"),
    ],
)
def test_wrong_use_is_told_in_a_line(
    harness: Harness,
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    said: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if said != "OPENAI_API_KEY is not set" and options and "--endpoint" not in options:
        options = [*options, "--endpoint", "http://127.0.0.1:9/v1"]
    told = harness("answer", run, *options)
    assert (told.status, said in told.err) == (2, True), told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not list(run.parent.glob("*.answers"))


def test_judging_what_is_no_folder_of_answers_is_refused(harness: Harness, run: Path) -> None:
    for path, said in (
        (run, "a folder without answers"),
        (run / "gone", "no such folder of answers"),
    ):
        told = harness("judge", path, "--judge", "plain", "--model", "m")
        assert told.status == 2
        assert said in told.err


@pytest.mark.slow
def test_a_folder_names_all_answers_below_it_and_a_unique_beginning_names_one(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "answers"
    asked = ("--k", 1, "--baselines", "none", *_asked(endpoint))
    harness("answer", run, *asked, "--out", out, "--quiet")
    judged = _answered(harness("judge", out, "--judge", "plain", *_asked(endpoint), "--json"))
    assert [*judged] == ["bm25", "no context"]
    two = (out / "sample-turn-no", out / "sample-turn-bm25")
    assert harness("compare", *two, "--metrics", "accuracy", "--quiet").status == 0
    several = harness("compare", out / "sample", two[1])
    assert several.status == 2


def test_hypotheses_are_exported_for_the_official_script(
    harness: Harness, longmemeval: list[str], tmp_path: Path
) -> None:
    ids = ["e47becba", "852ce960"]
    lines = [{"question_id": id_, "hypothesis": f"so {id_}"} for id_ in ids]
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in lines))
    one = _answered(harness("answer", path, *longmemeval, "--json"))["mine"]
    out = tmp_path / "hypotheses.jsonl"
    export = ("export", one["folder"], "--format", "longmemeval-hypotheses", "--out", out)
    assert harness(*export).status == 0
    assert [orjson.loads(line) for line in out.read_bytes().splitlines()] == lines
    told = harness(*export)
    assert (told.status, "exists; name a new file" in told.err) == (2, True)


@pytest.mark.slow
def test_kept_replies_are_listed_and_cleared_by_name_alone(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path
) -> None:
    assert harness("answer", run, *_asked(endpoint), "--no-baselines", "--quiet").status == 0
    assert orjson.loads(harness("cache", "--json").out)["replies"] == {"gpt-4o-mini": 321}
    assert harness("cache", "clear", "--quiet").status == 0
    assert "gpt-4o-mini" in harness("cache").out  # they were paid
    assert harness("cache", "clear", "--replies").status == 0
    assert orjson.loads(harness("cache", "--json").out)["replies"] == {}


def _judge_as(project: Project, name: str, rule: Rule, rows_of: dict[str, int], but: str) -> None:
    """Everything of a project by the rule's own truth, the other way round for one question."""
    log = project.annotation_log(name)
    for one in project.pool:
        text = project.document(one.query, one.document).text
        right = rule.truth(rows_of[one.query], text) != (one.query == but)
        log.append(Annotation(query=one.query, document=one.document, grade=int(right)))


@pytest.mark.slow
def test_judges_stand_beside_people_who_judged_a_sample(
    harness: Harness, endpoint: OpenAIEndpoint, rule: Rule, run: Path, sample: Dataset
) -> None:
    rule.sensitivity, rule.specificity = 0.93, 0.85
    assert harness("answer", run, *_asked(endpoint), "--no-baselines", "--quiet").status == 0
    (folder,) = run.parent.glob("*.answers")
    drawn = ("label", "answers", folder, "--pool-only", "--sample")
    told = harness(*drawn, 80)
    assert (told.status, "labels-of-answers: 80 questions, 80 answers" in told.out) == (0, True)
    told = harness("judge", folder, "--human-labels", "labels-of-answers")
    assert (told.status, "no answer is judged without conflict yet" in told.err) == (2, True)
    first = set(Project.read(Path("labels-of-answers")).query)
    assert harness(*drawn, 120, "--quiet").status == 0
    project = Project.read(Path("labels-of-answers"))
    assert first < project.query.keys()
    shown = {key for one in project.queries for key in to_plain(one)}
    assert not {"ability", "system", "haystack"} & shown

    rows_of = {id_: at for at, id_ in enumerate(sample.query_ids)}
    _judge_as(project, "ada", rule, rows_of, but="")
    _judge_as(project, "ben", rule, rows_of, but=project.queries[0].id)
    told = harness("label", "status", "labels-of-answers")
    assert "next: harness label adjudicate labels-of-answers" in told.out
    assert "conflicts: 1 open" in told.out
    asked = len(endpoint.calls)
    told = harness("judge", folder, "--human-labels", "labels-of-answers")
    assert (told.status, "1 answers are in conflict and excluded" in told.err) == (0, True)
    assert len(endpoint.calls) == asked
    told = harness("judge", folder, "--judge", "plain", *_asked(endpoint))
    assert "plain(gpt-4o-mini) against human labels on bm25: kappa " in told.out
    scores = orjson.loads((folder / "scores.json").read_bytes())
    beside = scores["judge_agreement"][JUDGED]
    assert beside["n"] == 119
    kappa = beside["kappa"]
    assert 0.5 < kappa["low"] < kappa["value"] < kappa["high"] <= 1
    notes = {kappa["note"], *(beside[name]["note"] for name in ("corrected", "prediction_powered"))}
    assert notes == {"only 12 haystacks"}
    table = pq.read_table(folder / "answers.parquet").to_pylist()
    true = sum(rule.truth(rows_of[one["query"]], one["answer"]) for one in table) / len(table)
    for rate in (beside["corrected"], beside["prediction_powered"]):
        assert rate["low"] < true < rate["high"]
        assert (rate["n"], rate["human"]) == (321, 119)
    people = next(b for b in protocols(scores) if b.protocol == "human")
    assert people.slices["all"].metrics["accuracy"].n == 119

    copied = shutil.copytree(folder, folder.with_name("copied.answers"))
    for words, said in (
        (("label", "export", "labels-of-answers"), "cannot be exported"),
        ((*drawn, 0), "--sample must be 1 or more"),
        ((*drawn, 9, "--seed", 4), "was created with seed 0"),
        (("label", "answers", folder, copied, "--pool-only"), "was created with other answers"),
        (
            ("judge", folder, "--human-labels", "labels-of-answers", "--model", "m"),
            "--model has no effect",
        ),
    ):
        told = harness(*words)
        assert (told.status, said in told.err) == (2, True), told.err


@pytest.mark.slow
def test_a_difference_behind_a_judge_holds_the_truth_between_two_systems(
    harness: Harness, endpoint: OpenAIEndpoint, rule: Rule, run: Path, sample: Dataset
) -> None:
    rule.sensitivity, rule.specificity = 0.9, 0.8
    asked = ("--baselines", "evidence", "--quiet")
    assert harness("answer", run, *_asked(endpoint), *asked).status == 0
    folders = sorted(run.parent.glob("*.answers"))
    assert harness("label", "answers", *folders, "--pool-only", "--quiet").status == 0
    rows_of = {id_: at for at, id_ in enumerate(sample.query_ids)}
    _judge_as(Project.read(Path("labels-of-answers")), "ada", rule, rows_of, but="")
    assert harness("judge", *folders, "--human-labels", "labels-of-answers", "--quiet").status == 0
    assert harness("judge", *folders, "--judge", "plain", *_asked(endpoint), "--quiet").status == 0

    told = orjson.loads(harness("compare", *folders, "--protocol", JUDGED, "--json").out)
    (found,) = told["groups"][0]["tables"][0]["behind"]
    truth = []
    for folder in folders:
        table = pq.read_table(folder / "answers.parquet").to_pylist()
        right = [rule.truth(rows_of[row["query"]], row["answer"]) for row in table]
        truth.append(sum(right) / len(right))
    difference = truth[1] - truth[0]
    assert abs(found["judged"]) < abs(difference)
    assert found["with_people"]["people"] == 100
    assert found["with_people"]["low"] < difference < found["with_people"]["high"]
    shown = harness("compare", *folders, "--protocol", JUDGED).out
    assert "Difference in accuracy (slice=all), corrected by human labels:" in shown
    assert found["with_people"]["note"] == "only 12 haystacks"


def test_nobody_is_asked_about_a_dataset_without_texts(
    harness: Harness, endpoint: OpenAIEndpoint
) -> None:
    ids = open_dataset("longmemeval/s-ids", granularity="session", quiet=True).query_ids
    Path("found.json").write_bytes(orjson.dumps({ids[0]: ["answer_280352e9"]}))
    scored = ("score", "found.json", "--dataset", "longmemeval/s-ids", "--quiet")
    assert harness(*scored).status == 0
    (folder,) = Path("results").iterdir()
    told = harness("answer", folder, *_asked(endpoint), "--dry-run")
    assert (told.status, "holds ids alone, no texts" in told.err) == (2, True), told.err
    assert not endpoint.calls


def test_people_judge_once_what_two_systems_answer_alike(
    harness: Harness, longmemeval: list[str], tmp_path: Path
) -> None:
    answers = {"one": ("alike", "apart"), "two": ("alike", "another")}
    folders = []
    for name, texts in answers.items():
        ids = ("e47becba", "852ce960")
        lines = [{"question_id": i, "hypothesis": t} for i, t in zip(ids, texts, strict=True)]
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        found = _answered(harness("answer", path, *longmemeval, "--json"))[name]
        folders.append(found["folder"])
    drawn = ("label", "answers", *folders, "--source", longmemeval[-1], "--pool-only")
    told = harness(*drawn, "--json")
    assert orjson.loads(told.out)["candidates"] == 3
    project = Project.read(Path("labels-of-answers"))
    for one in project.pool:
        right = project.document(one.query, one.document).text == "alike"
        line = Annotation(query=one.query, document=one.document, grade=int(right))
        project.annotation_log("ada").append(line)
    told = harness(
        "judge", *folders, "--human-labels", "labels-of-answers", "--source", longmemeval[-1]
    )
    assert told.status == 0, told.err
    compared = harness("compare", *folders, "--protocol", "human")
    assert (compared.status, "corrected by human" in compared.out) == (
        0,
        False,
    )  # they are no judge
    compared = harness("compare", *folders, "--protocol", "judge:nobody")
    assert (compared.status, "scored under judge:nobody" in compared.err) == (2, True)
    for folder in folders:
        rows = pq.read_table(Path(folder) / "judgements/human/judgements.parquet").to_pylist()
        assert {row["query"]: row["correct"] for row in rows} == {
            "e47becba": True,
            "852ce960": False,
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question_id": "nobody", "correct": true}', "has no answer to 'nobody'"),
        ('{"question_id": "mira-01", "correct": "yes"}', "correct: expected bool, got str"),
        ('{"question_id": "mira-01", "correct": null}', "labels no answer yet"),
        ("{", 'expected {"question_id": id'),
    ],
)
def test_lines_of_people_that_say_nothing_of_an_answer_are_refused(
    harness: Harness, endpoint: OpenAIEndpoint, run: Path, line: str, said: str
) -> None:
    assert harness("answer", run, *_asked(endpoint), "--no-baselines", "--quiet").status == 0
    (folder,) = run.parent.glob("*.answers")
    Path("wrong.jsonl").write_text(line)
    told = harness("judge", folder, "--human-labels", "wrong.jsonl")
    assert (told.status, said in told.err) == (2, True), told.err


def test_without_references_answers_stand_unjudged_and_without_dates_nothing_is_newest(
    harness: Harness, endpoint: OpenAIEndpoint, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    texts = [f'{{"id": "d{i}", "text": "note number{i}"}}\n' for i in range(5)]
    (files / "documents.jsonl").write_text("".join(texts))
    (files / "queries.jsonl").write_text('{"id": "q", "text": "number1"}\n')
    (files / "qrels.jsonl").write_text('{"query": "q", "document": "d1"}\n')
    run = ["--dataset", "labelled", "--source", files, "--retriever", "bm25", "--name", "b"]
    assert harness("run", *run, "--quiet").status == 0
    endpoint.answer = lambda chat: "one"
    told = harness("answer", "b", *_asked(endpoint))
    assert (told.status, "evidence only" in told.out, "newest" in told.out) == (0, True, False)
    n = len(endpoint.calls)
    told = harness("answer", "b", *_asked(endpoint), "--baselines", "newest", "--k", 1)
    assert (told.status, "documents have no dates" in told.err) == (2, True)
    assert len(endpoint.calls) == n, "what cannot be had is said before anything is paid"
    (folder,) = Path("results").glob("*-b.plain-*.answers")
    told = harness("judge", folder, "--judge", "plain", *_asked(endpoint))
    assert (told.status, "has no reference answers" in told.err) == (2, True)
