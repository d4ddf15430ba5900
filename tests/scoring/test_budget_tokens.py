"""What retrieved text costs, and what is found within a budget of it."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from unicodedata import name

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small import lists, one_corpus, prepared

from harness.datasets.writer import DatasetWriter
from harness.records.scores import TokenSummary
from harness.retrievers.bm25.tokenizer import OTHER_SCRIPT
from harness.schema import Ability
from harness.scoring.protocols import Choices
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus
from harness.scoring.tokens import TokenCounts, text_tokens, token_counts

TOKEN = re.compile(rb"[\w\x80-\xff]+|[!-~]")
RATES = {"CJK": 1.35, "HIRAGANA": 1.35, "HANGUL": 1.3, "THAI": 2.1}
texts = st.text(st.sampled_from("ab1_ .,'\t\n\x00\x1f\x7fé東🦊-") | st.characters(codec="utf-8"))
unspaced = st.text(st.sampled_from("a é東京新の서울บัน🦊"))


def counted(text: str) -> int:
    """The tokens of a text, by the name of each character; only for the scripts in RATES."""
    if not text.isascii() and OTHER_SCRIPT.search(text) and set(text) - set("a é東京新の서울บัน🦊"):
        return int(text_tokens([text])[0])  # scripts that this function does not know
    runs = [(rate, len([*run])) for rate, run in groupby(text, rate_of) if rate]
    rest = "".join(" " if rate_of(character) else character for character in text)
    return sum(max(1, round(n / rate)) for rate, n in runs) + len(TOKEN.findall(rest.encode()))


def rate_of(character: str) -> float:
    return RATES.get(name(character, "").split(" ")[0], 0)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我将要参加金融科技精英论坛。", 10),
        ("昨日、東京駅で靴を買った", 9),
        ("สวัสดีครับ", 5),
        ("서울역에서 만나요", 6),
    ],
)
def test_scripts_without_spaces_count_by_characters(text: str, tokens: int) -> None:
    assert text_tokens([text, "a b", f"{text} and {text}"]).tolist() == [tokens, 2, 2 * tokens + 1]


@given(st.lists(st.tuples(texts | unspaced, texts), max_size=30))
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_tokens_are_what_the_regular_expression_finds_in_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[str, str]]
) -> None:
    def fill(out: DatasetWriter) -> None:
        for i, (text, title) in enumerate(documents):
            out.document(str(i), text, title=title)
        out.haystack("all")

    dataset = prepared(tmp_path_factory.mktemp("tokens") / "data", fill)
    expected = [sum(map(counted, d)) for d in documents]
    rows = np.arange(len(documents), dtype=np.int32)
    assert token_counts(dataset, rows).tolist() == expected
    # In any order, several times, and with documents that are not there.
    picked = np.concatenate([rows[::-1], rows[::2], np.array([-1], np.int32)])
    assert token_counts(dataset, picked).tolist() == expected[::-1] + expected[::2] + [0]


def test_many_documents_are_counted_block_by_block_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scoring.tokens._LET_GO", 1000)  # of the file's pages, in the midst

    def fill(out: DatasetWriter) -> None:
        for i in range(40_000):
            out.document(str(i), "a " * (i % 7), title="t" if i % 3 == 0 else "")
        out.haystack("all")

    dataset = prepared(tmp_path / "data", fill)
    rows = np.random.default_rng(0).permutation(40_000).astype(np.int32)
    expected = rows % 7 + (rows % 3 == 0)
    assert (token_counts(dataset, rows) == expected).all()
    counts = TokenCounts(dataset)
    for some in (slice(100), slice(50, 30_000), slice(None)):  # known ones, and new ones
        assert (counts.of(rows[some]) == expected[some]).all()


def test_recall_within_a_budget_is_that_of_the_longest_prefix_that_fits(tmp_path: Path) -> None:
    sizes = {"a": 300, "b": 200, "c": 1, "d": 600, "e": 4000}
    words = {id_: "w " * n for id_, n in sizes.items()}
    dataset = one_corpus(
        tmp_path / "data",
        list(sizes),
        {
            "q": {"b": 1, "c": 1},
            "late": {"d": 1},
            "short": {"a": 1},
            "none": {"e": 1},
            "missing": {"a": 1},
        },
        texts=words,
        query={"late": {"ability": Ability.TEMPORAL}, "none": {"ability": Ability.ABSTENTION}},
    )
    run = {"q": ["a", "b", "c"], "late": ["e", "a", "d"], "short": ["x", "b"], "none": ["e"]}
    tokens = score(dataset, lists(run)).report.tokens
    within = tokens.recall_within_budget
    # q: a and b cost 500 exactly, c comes after; late: 4,300 before d, 4,900 with it; short: x is
    # no document and costs nothing; missing: nothing found.
    assert within["500"].recall == pytest.approx((1 / 2 + 0 + 0 + 0) / 4)
    assert within["1000"].recall == pytest.approx((1 + 0 + 0 + 0) / 4)
    assert within["5000"].recall == pytest.approx((1 + 1 + 0 + 0) / 4)
    assert {part.n for part in within.values()} == {4}
    # How many rankings ended with the budget unspent: a longer one might have found more.
    ended = {budget: part.ended for budget, part in within.items()}
    assert ended == {"500": 2, "1000": 3, "2000": 3, "5000": 4}
    by_ability = within["5000"].by_ability
    assert by_ability["temporal"].recall == 1
    assert by_ability["temporal"].n == 1
    assert by_ability["lookup"].recall == pytest.approx(1 / 3)
    assert by_ability["lookup"].n == 3
    assert "abstention" not in by_ability
    costs = [501, 4900, 200, 4000, 0]
    spent = tokens.per_query
    assert spent.n == 5
    assert spent.mean == pytest.approx(np.mean(costs))
    assert (spent.p50, spent.p95) == tuple(np.percentile(costs, [50, 95]))


def test_tokens_of_the_top_ten_stop_at_rank_ten(tmp_path: Path) -> None:
    ids = [f"d{i:02}" for i in range(12)]
    words = {id_: "w " * (1 + i) for i, id_ in enumerate(ids)}
    dataset = one_corpus(
        tmp_path / "data", ids, {"q": {"d00": 1}, "failed": {"d01": 1}}, texts=words
    )
    answered = QueryStatus.everything(2)
    answered.failed[1] = True
    run = lists({"q": ids, "failed": ids})
    tokens = score(dataset, run, Choices(["trec"]), answered=answered).report.tokens
    assert tokens.per_query.mean == sum(range(1, 13))
    assert tokens.per_query_top_10.mean == sum(range(1, 11))
    assert tokens.per_query.n == 1


def test_no_mean_is_taken_of_nothing(tmp_path: Path) -> None:
    dataset = one_corpus(tmp_path / "data", ["a"], {"q": {}})
    answered = QueryStatus.everything(1)
    answered.asked[0] = False
    report = score(dataset, lists({"q": ["a"]}), answered=answered).report
    assert report.tokens is not None
    assert report.tokens.per_query == TokenSummary(n=0, mean=None, p50=None, p95=None)
    assert report.tokens.recall_within_budget["500"].recall is None
    assert all(protocol.slices == {} for protocol in report.protocols)
    assert report.abstention is None
