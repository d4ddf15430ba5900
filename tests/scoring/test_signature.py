"""Every number carries a signature, and what changes a number changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import lists, one_corpus, prepared

from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.io.records import decode, encode
from harness.records.scores import ScoreReport, fill_signature
from harness.runfiles.rankings import Run
from harness.schema import Ability
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus
from harness.scoring.signature_meaning import explain, formula_of, parse_signature, rules_of
from harness.scoring.signatures import Signature

parts = st.text(min_size=1) | st.sampled_from(
    ["all", "category:a|b", "x:y", "50%", "a\nb", " ", "\u3000"]
)


@given(
    st.builds(Signature, *[parts] * 7, st.integers(0), parts, parts, st.integers(1), parts, parts)
)
def test_parse_and_print_are_inverse(signature: Signature) -> None:
    assert parse_signature(str(signature)) == signature
    assert "\n" not in str(signature)


WHOLE = (
    "recall@10|protocol:memory/1|data:locomo#ff853148|level:turn|text:official|split:test|"
    "slice:all|n:1982|queries:all|ties:order|depth:50|missing:zero|v:0.1.0"
)


def test_a_signature_says_what_each_of_its_parts_means() -> None:
    signature = parse_signature(f"  {WHOLE}\n")
    assert str(signature) == WHOLE
    explained = {part: (value, meaning) for part, value, meaning in explain(signature)}
    assert explained["n"][0] == "1982"
    assert all(meaning for _, meaning in explained.values())
    assert "pieces of evidence" in formula_of(signature).lower()
    assert "all abilities" in rules_of(signature)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recall@10", "lacks 'protocol'"),
        (WHOLE.replace("|n:1982", ""), "lacks 'n'"),
        (WHOLE.replace("n:1982", "n:many"), "n and depth must be numbers"),
        (WHOLE + "|colour:red", "has ['colour']"),
        (WHOLE + "|n:7", "not as they are printed"),
        (WHOLE.replace("|n:", "|rubbish|n:"), "has ['rubbish']"),
        ("", "lacks 'protocol'"),
    ],
)
def test_what_is_no_signature_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match="not a signature") as error:
        parse_signature(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


# -- of a summary ---------------------------------------------------------------------------------

IDS = [f"d{i}" for i in range(8)]
RUN = {f"q{i}": IDS[i:] + IDS[:i] for i in range(6)}
KINDS: list[dict[str, Any]] = [
    {"ability": Ability.KNOWLEDGE_UPDATE, "category": "odd|category: 100%"},
    {"ability": Ability.KNOWLEDGE_UPDATE},
    {"ability": Ability.ABSTENTION},
    {"ability": Ability.TEMPORAL},
    {},
    {},
]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return small(tmp_path / "data")


def small(folder: Path, text: str = "x", **view: Any) -> Dataset:
    """Six queries of several abilities over eight turns of four sessions."""

    def fill(out: DatasetWriter) -> None:
        rows = [
            out.document(id_, text, session=f"s{i // 2}", timestamp=100 * i)
            for i, id_ in enumerate(IDS)
        ]
        out.haystack("all", rows)
        for i, kind in enumerate(KINDS):
            out.query(f"q{i}", "?", "all", **kind)
            if kind.get("ability") is not Ability.ABSTENTION:
                out.qrel(f"q{i}", rows[1])
                out.qrel(f"q{i}", rows[4], 2)

    return prepared(folder, fill, **view)


def test_every_score_carries_a_signature_with_its_own_n(dataset: Dataset) -> None:
    answered = QueryStatus.everything(6)
    answered.failed[5] = True
    scores = score(dataset, lists(RUN), Choices(ks=(1, 3)), answered=answered)
    report = scores.report
    seen = 0
    for protocol in report.protocols:
        for slice_, part in protocol.slices.items():
            for metric, result in part.metrics.items():
                parsed = parse_signature(result.signature)
                assert parsed.metric == metric
                assert parsed.slice == slice_
                assert parsed.n == result.n
                assert (parsed.level, parsed.ties) == (protocol.level, protocol.ties)
                assert parsed.protocol == protocol.name
                assert parsed.missing == protocol.missing
                assert formula_of(parsed)
                assert rules_of(parsed)
                seen += 1
        excluded = [q for ids in scores.excluded[protocol.protocol].values() for q in ids]
        assert protocol.slices["all"].n == len(RUN.keys() - excluded)
    assert seen > 40
    updates = report.knowledge_update
    assert updates is not None
    assert {parse_signature(s).n for s in updates.signatures.values()} == {updates.n} == {2}
    assert set(updates.signatures) == set(updates.values)
    tokens = report.tokens
    assert tokens is not None
    for budget, found in tokens.recall_within_budget.items():
        metric = f"recall_in_tokens@{budget}"
        parsed = parse_signature(fill_signature(tokens.signature, metric, "answerable", found.n))
        assert formula_of(parsed)
        assert (parsed.metric, parsed.n) == (metric, 5)


def test_the_numbers_of_abstention_carry_signatures_with_their_own_n(dataset: Dataset) -> None:
    run = {q: {d: float(8 - i + int(q[1])) for i, d in enumerate(ids)} for q, ids in RUN.items()}
    found = score(dataset, run).report.abstention
    assert found is not None
    signed = {name: parse_signature(text) for name, text in found.signatures.items()}
    assert signed["false_positive_rate"].n == found.n_unanswerable == 1
    assert signed["auroc"].n == found.n == 6
    assert all(formula_of(s) and rules_of(s) for s in signed.values())
    assert {"auroc", "at_threshold", "aurc"} <= set(signed)


def test_scores_are_the_same_after_writing_and_reading(dataset: Dataset) -> None:
    report = score(dataset, lists(RUN), Choices(ks=(1, 3))).report
    read = decode(encode(report), ScoreReport, "scores.json")
    assert read == report
    assert [one.slices for one in read.protocols] == [one.slices for one in report.protocols]


def fail_one(i: int) -> QueryStatus:
    answered = QueryStatus.everything(6)
    answered.failed[i] = True
    return answered


@pytest.mark.parametrize(
    "change",
    [
        {"choices": Choices(ties=Ties.TREC)},
        {"choices": Choices(ties=Ties.TREC64)},
        {"choices": Choices(missing="skip")},
        {"depth": 9},
        {"data": {"text": "y"}},
        {"data": {"granularity": "session"}},
        {"data": {"split": "dev"}},
        {"data": {"name": "other"}},
    ],
    ids=str,
)
def test_a_change_of_any_setting_changes_the_signature(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    def signature(folder: str, data: Any = None, **arguments: Any) -> str:
        arguments = {"choices": Choices(ks=(1,)), "depth": 8} | arguments
        dataset = small(tmp_path / folder, **(data or {}))
        report = score(dataset, lists(RUN), **arguments).report
        plain = ("memory", dataset.manifest.granularity)
        (found,) = [one for one in report.protocols if (one.protocol, one.level) == plain]
        return next(iter(found.overall.values())).signature

    assert signature("plain") == signature("again")
    assert signature("changed", **change) != signature("plain2")


def test_runs_that_failed_on_different_queries_compare_as_failures_count_0(
    dataset: Dataset,
) -> None:
    def first(answered: QueryStatus) -> tuple[int, str]:
        cells = score(dataset, lists(RUN), answered=answered).report.protocols[0].slices
        cell = next(iter(cells["all"].metrics.values()))
        return cell.n, cell.signature

    (n, one), (again, other) = first(fail_one(3)), first(fail_one(4))
    assert n == again == 5
    assert one == other


def test_the_metric_of_a_signature_is_what_was_asked_for(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", ["a", "b"], {"q": {"a": 2}})
    run: Run = {"q": {"a": 1.0}}
    choices = Choices(["trec"], metrics=[Metric.parse("P(rel=2)@1")])
    (block,) = score(dataset, run, choices).report.protocols
    cell = block.slices["all"].metrics["precision(rel=2)@1"]
    assert parse_signature(cell.signature).metric == "precision(rel=2)@1"


def test_an_unknown_rule_for_missing_queries_is_refused(dataset: Dataset) -> None:
    with pytest.raises(
        UsageError, match="as 0 \\('zero'\\) or are excluded \\('skip'\\), not 'ignore'"
    ):
        score(dataset, lists(RUN), Choices(missing="ignore"))
