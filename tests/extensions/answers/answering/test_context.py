"""What a reader is shown: of rankings, of texts of a system's own, of haystacks as of a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from harness import Hit, Result, Settings, open_dataset, run
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.context import Context, ContextBuilder, ContextLimits
from harness.extensions.answers.answering.readers import make_reader
from harness.extensions.answers.answering.templates import (
    ReaderTemplate,
    read_template,
)
from harness.records.answers import BASELINES
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder, count_queries, write_record
from harness.scoring.tokens import text_tokens


class Says:
    """Returns texts of its own: the first document's words, and a thought about nothing."""

    def index(self, corpus):  # type: ignore[no-untyped-def]
        self.texts = corpus.contents

    def search(self, queries, k):  # type: ignore[no-untyped-def]
        return [
            Result(hits=[Hit(text=self.texts[0]), Hit(text="zzz qqq xxx"), Hit(sources=[1])])
            for _ in queries
        ]


def test_a_run_is_shown_as_it_ranked_and_baselines_to_its_measure(
    sample: Dataset, sample_run: Callable[..., Path]
) -> None:
    folder = sample_run("bm25")
    builder = ContextBuilder(sample, ContextLimits(k=7))
    shown = builder.retrieved(folder)
    assert [one.query for one in shown] == [*range(sample.n_queries)]
    rankings = read_rankings(folder / "rankings.parquet")
    ids = sample.documents.column("id").to_pylist()
    first = rankings.document[:7].to_pylist()
    assert [ids[row] for one in shown[0].items for row in one.rows] == first
    for context in shown:
        texts = sample.documents.contents(
            np.array([one.rows[0] for one in context.items], np.int32)
        )
        assert [one.text for one in context.items] == texts
        assert context.tokens == text_tokens(texts).sum()
    for name in BASELINES:
        of = builder.baseline(name, shown)
        assert [one.query for one in of] == [one.query for one in shown]
        for context, beside in zip(of, shown, strict=True):
            rows = [one.rows[0] for one in context.items]
            held = sample.haystack_rows(int(sample.query_haystack[context.query]))
            assert {*rows} <= {*held.tolist()}
            if name == "random":
                assert len(rows) == len({*rows}) == len(beside.items)
            if name == "newest":
                stamps = [one.timestamp for one in context.items]
                assert stamps == sorted(stamps, reverse=True)  # type: ignore[type-var]
                assert context.tokens <= 8000
            if name == "evidence":
                assert {*rows} == builder.evidence(context.query)
            if name == "none":
                assert not rows
    assert builder.baseline("random", shown) == ContextBuilder(sample, ContextLimits(k=7)).baseline(
        "random", shown
    )
    assert builder.baseline("random", shown) != builder.baseline("random", shown, seed=1)
    with pytest.raises(UsageError, match="unknown baseline"):
        builder.baseline("all", shown)


def test_a_budget_takes_the_longest_prefix_that_fits(
    sample: Dataset, sample_run: Callable[..., Path]
) -> None:
    folder = sample_run("bm25")
    whole = ContextBuilder(sample, ContextLimits()).retrieved(folder)
    cut = ContextBuilder(sample, ContextLimits(budget=100)).retrieved(folder)
    for all_, some in zip(whole, cut, strict=True):
        n = len(some.items)
        assert some.items == all_.items[:n]
        assert some.tokens <= 100
        assert n == len(all_.items) or some.tokens + all_.items[n].tokens > 100


def test_texts_of_a_systems_own_are_shown_with_the_documents_that_they_are(
    sample: Dataset, tmp_path: Path
) -> None:
    folder = run(sample, Says(), Settings(limit=5), out=tmp_path)
    shown = ContextBuilder(sample, ContextLimits()).retrieved(folder)
    assert len(shown) == 5
    for context in shown:
        mine, thought, source = context.items
        held = sample.haystack_rows(int(sample.query_haystack[context.query])).tolist()
        texts = sample.documents.contents(np.array(held[:2], np.int32))
        assert (mine.text, source.text) == (texts[0], texts[1])
        assert (thought.text, thought.rows, thought.timestamp) == ("zzz qqq xxx", (), None)
        assert mine.rows[0] == held[0]
        assert source.rows == (held[1],)
        assert source.timestamp is not None
    assert len(ContextBuilder(sample, ContextLimits(k=1)).retrieved(folder)[0].items) == 1


def test_as_of_a_time_nothing_later_is_shown(tmp_path: Path) -> None:
    dataset = open_dataset("sample", split="test-as-of")
    folder = run(dataset, "bm25", Settings(limit=40), out=tmp_path)
    builder = ContextBuilder(dataset, ContextLimits(window=100_000))
    shown = builder.retrieved(folder)
    stamps = dataset.query_table["timestamp"].to_pylist()
    for name in ("newest", "random"):
        for context in builder.baseline(name, shown):
            said = [one.timestamp for one in context.items]
            assert all(at is not None and at <= stamps[context.query] for at in said)


def test_a_reader_is_asked_a_question_that_failed_with_nothing_found(
    sample: Dataset, sample_run: Callable[..., Path], tmp_path: Path
) -> None:
    import shutil

    folder = Path(shutil.copytree(sample_run("bm25"), tmp_path / "run"))
    table = pq.read_table(folder / "queries.parquet")
    failed = np.zeros(len(table), bool)
    failed[3] = True
    at = table.column_names.index("failed")
    table = table.set_column(at, "failed", [failed])
    pq.write_table(table, folder / "queries.parquet")
    write_record(folder, replace(RunFolder(folder).record, queries=count_queries(table)))
    contexts = ContextBuilder(sample, ContextLimits()).retrieved(folder)
    assert [one.query for one in contexts] == list(range(len(table)))
    assert [one.query for one in contexts if not one.items] == [3]


# -- Templates -------------------------------------------------------------------------------------

MINE = """
name = "mine"
version = 2
prompt = "{documents} ? {question} {date} {never} {{ }"
document = "{number}:{text}"
separator = " | "
empty = "nothing"
order = "rank"
[params]
max_tokens = 9
"""


def test_a_template_of_ones_own_is_filled_in_and_signed(sample: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace(" {never}", ""))
    by = make_reader(str(path), sample, "m")
    assert by.signature == f"mine/2#{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"
    rows = sample.haystack_rows(0)[:2].tolist()
    shown = tuple(ContextBuilder(sample, ContextLimits()).items(0, rows))
    (full,) = by.prompts([Context(0, shown)])
    query = sample.query(0)
    texts = sample.documents.contents(np.array(rows, np.int32))
    assert full.messages[0].content.startswith(f"1:{texts[0]} | 2:{texts[1]} ? {query.text} 20")
    assert full.messages[0].content.endswith(" {{ }")
    assert full.params == {"max_tokens": 9}
    (empty,) = by.prompts([Context(0, ())])
    assert empty.messages[0].content.startswith("nothing ? ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{documents} ", "", "prompt: the placeholder {documents} is missing"),
        ("{number}", "{no}", "document: unknown placeholder {no}"),
        ('order = "rank"', 'order = "luck"', "order: invalid enum value 'luck'"),
        ("version = 2", "version = true", "version: expected int, got bool"),
        ("max_tokens = 9", "model = 'x'", "without model"),
        ('name = "mine"', "", "name: is missing"),
        ('order = "rank"', 'oder = "rank"', "did you mean order"),
        ('empty = "nothing"', "empty = 5", "empty: expected str, got int"),
        ("{never}", "{never}", "prompt: unknown placeholder {never}"),
    ],
)
def test_a_template_that_is_not_as_it_must_be_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "mine.toml"
    text = MINE if old == "{never}" else MINE.replace(" {never}", "")
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError) as told:
        read_template(path, ReaderTemplate)
    assert said in str(told.value)
