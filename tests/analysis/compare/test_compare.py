"""Comparisons of real runs: what they say, and what they refuse."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from resealed import reseal
from scored_runs import Bench
from small import in_three_haystacks

from harness import Hit, Settings, open_dataset, score_run
from harness.analysis.compare.compare import compare
from harness.analysis.compare.comparison import Cell, Comparison, Options, Table
from harness.analysis.compare.render import foot, render
from harness.analysis.compare.side_by_side import win_tie_loss
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import read_json
from harness.runs.folder.run_folder import read_scores

MEMORY = ("memory", "turn")


def cell(comparison: Comparison, slice_: str, metric: str, table: int = 0) -> Cell:
    cells = comparison.groups[0].tables[table].cells
    return next(c for c in cells if (c.slice, c.metric) == (slice_, metric))


def hash_of(query: str) -> int:
    return zlib.crc32(query.encode())


def with_haystacks(folder: Path, out: Path, haystack: Callable[[str], object]) -> Path:
    """A copy of a scored run, as if each question had been asked of such a haystack."""
    copy = Path(shutil.copytree(folder, out / folder.name))
    rows = pq.read_table(copy / "scores.parquet")
    column = [[f"{haystack(query)}" for query in rows["query"].to_pylist()]]
    rows = rows.drop(["haystack"]).append_column("haystack", column)
    pq.write_table(rows, copy / "scores.parquet")
    return reseal(copy)


def breaks_on_some(text: str, k: int, corpus: object) -> list[int]:
    if text[0] in "HI":
        raise RuntimeError("broken")
    return list(range(k))


def unresolved_on_some(text: str, k: int, corpus: object) -> list[Any]:
    return [Hit("qzx vbn")] if text[0] in "HI" else list(range(k))


def tables(comparison: Comparison) -> dict[str, Table]:
    return {f"{t.protocol} {t.level}": t for t in comparison.groups[0].tables}


def test_means_are_those_of_the_runs_scores(bench: Bench, pair: tuple[Path, Path]) -> None:
    found = compare(pair, Options(categories=True, resamples=50))
    scores = [read_scores(folder).protocols for folder in pair]
    seen = 0
    for at, table in enumerate(found.groups[0].tables):
        for each in table.cells:
            for run, interval in enumerate(each.means):
                block = scores[run][at]
                expected = block.slices[each.slice].metrics[each.metric]
                assert interval.value == pytest.approx(expected.value, abs=1e-12)
                assert interval.n == expected.n
                seen += 1
    assert seen > 1000


def test_a_pair_has_all_that_is_printed_beside_it(pair: tuple[Path, Path], tmp_path: Path) -> None:
    found = compare([in_three_haystacks(folder, tmp_path) for folder in pair])
    table = tables(found)["memory/1 turn"]
    assert (table.cluster_by, table.clusters) == ("haystacks", 3)
    each = cell(found, "all", "recall@10")
    [against] = each.pairs
    assert against.found.difference.value == pytest.approx(
        each.means[1].value - each.means[0].value  # OLD NEW: above 0 is an improvement
    )
    assert against.found.difference.value < -0.3
    assert all(
        interval.approximate and interval.note == "only 3 clusters" for interval in each.means
    )
    # Three users: t alone shows it, but not beside the tests of every metric and slice.
    assert (table.test, table.tests) == ("t", len(table.cells))
    assert against.found.test.p < 0.05
    assert not against.shown
    assert np.isnan(against.detectable)
    alone = compare(
        [in_three_haystacks(folder, tmp_path / "alone") for folder in pair],
        Options(metrics=("recall@10",), protocols=("memory",)),
    )
    one = cell(alone, "all", "recall@10").pairs[0]
    assert (one.shown, one.detectable < 0.4) == (True, True)
    assert orjson.loads(orjson.dumps(found.as_dict()))["groups"][0]["runs"] == [
        folder.name for folder in pair
    ]


def test_over_queries_more_is_shown_and_slices_and_metrics_are_one_family(
    bench: Bench, pair: tuple[Path, Path]
) -> None:
    metrics = ("recall@10", "ndcg@10", "mrr@10")
    found = compare(pair, Options(cluster_by="queries", protocols=("memory",), metrics=metrics))
    table = found.groups[0].tables[0]
    assert [c.slice for c in table.cells if c.metric == "recall@10"] == [
        *("all", "lookup", "multi-hop", "temporal", "knowledge-update")
    ]
    assert (table.tests, table.test) == (15, "sign flips")
    assert cell(found, "all", "recall@10").pairs[0].shown
    for each in table.cells:
        [against] = each.pairs
        assert against.found.test.p <= against.p
        assert against.detectable > against.found.power.detectable
    assert not any(against.open for each in table.cells for against in each.pairs)
    said = render(found, "terminal", metrics)
    assert "p: sign flips over queries, corrected for all 15 tests of this table (max-T)." in said


def test_the_foot_of_a_single_test_speaks_of_no_correction(pair: tuple[Path, Path]) -> None:
    options = Options(cluster_by="queries", protocols=("memory",), metrics=("recall@10",))
    table = compare(pair, options).groups[0].tables[0]
    first = table.cells[0]
    unshown = replace(first, pairs=(replace(first.pairs[0], p=0.06, shown=False),))
    said = foot(replace(table, tests=1), [unshown])
    assert "p: sign flips over queries.\n" in said
    assert "without a star: the interval is computed by t, p by sign flips" in said
    assert "corrected" not in said
    assert "only p is corrected for the number of tests" in foot(table, [unshown])


def test_what_differs_between_the_settings_is_listed(bench: Bench) -> None:
    folders = [bench.bm25(), bench.bm25(k1=0.9)]
    [group] = compare(folders).groups
    assert [str(row) for row in group.settings] == ["params.k1 1.2 / 0.9"]


def test_three_runs_make_three_pairs_in_one_family(bench: Bench, pair: tuple[Path, Path]) -> None:
    options = Options(protocols=("memory",), metrics=("recall@10",))
    found = compare([*pair, bench.bm25(k1=0.9)], options)
    assert [(p.a, p.b) for p in cell(found, "all", "recall@10").pairs] == [(0, 1), (0, 2), (1, 2)]
    assert found.groups[0].tables[0].tests == 15
    assert set(tables(found)) == {"memory/1 turn", "memory/1 turn>session"}


@pytest.mark.slow
def test_runs_that_do_not_compare_are_refused_with_each_difference(
    bench: Bench, sample: Dataset
) -> None:
    deep, shallow = bench.bm25(), bench.bm25(Settings(k=10, limit=20))
    dated = Bench(bench.results, open_dataset("sample", text="dated")).bm25()
    with pytest.raises(UsageError) as refused:
        compare([deep, shallow])
    said = str(refused.value)
    assert f"queries asked {sample.n_queries} (#" in said
    assert "/ 20 (#" in said
    assert "fingerprint" not in said
    assert said.endswith("`harness compare --force` lists them apart")
    with pytest.raises(UsageError, match=r"data fingerprint .* text official / dated"):
        compare([deep, dated])
    session = Bench(bench.results, open_dataset("sample", granularity="session")).bm25()
    with pytest.raises(UsageError, match="granularity turn / session"):
        compare([deep, session])


@pytest.mark.slow
def test_anyway_they_stand_apart_and_are_not_paired(bench: Bench) -> None:
    folders = [bench.bm25(), bench.bm25(Settings(k=10)), bench.bm25(k1=0.9)]
    found = compare(folders, Options(metrics=("mrr",), force=True))
    assert [row.what for row in found.differences] == ["k"]
    assert [group.runs for group in found.groups] == [
        (folders[0].name, folders[2].name),
        (folders[1].name,),
    ]
    assert found.groups[1].essentials["k"] == "10"
    assert all(not c.pairs for t in found.groups[1].tables for c in t.cells)


@pytest.mark.slow
def test_runs_of_two_depths_compare_by_the_metrics_that_depth_cannot_change(bench: Bench) -> None:
    # Twenty of a haystack's turns, and all of them.
    shallow, deep = bench.bm25(Settings(k=20)), bench.bm25(k1=0.9)
    same = bench.bm25(Settings(k=20), k1=0.9)
    found = compare([shallow, deep])
    assert [str(row) for row in found.groups[0].settings] == ["params.k1 1.2 / 0.9", "k 20 / 100"]
    by_level = {(t.protocol, t.level): t for t in found.groups[0].tables}
    left_out = by_level["trec/1", "turn"].left_out
    remedy = f"run {shallow} (at most 20 deep) again with --k 100"
    assert {name for name in left_out if not name.endswith("@100")} == {"ndcg", "map", "mrr"}
    assert left_out["map"] == f"depth could change it: {remedy}"
    assert left_out["map@100"] == f"not every run is deep enough for it: {remedy}"
    # A shallow run stands for the deep one that it was cut from.
    equal = compare([shallow, same])
    for metric in ("recall@10", "ndcg@10", "mrr@10"):
        assert found[metric].pairs[0].found.difference.value == pytest.approx(
            equal[metric].pairs[0].found.difference.value, abs=1e-12
        )
    assert "ndcg" in {c.metric for t in equal.groups[0].tables for c in t.cells}
    with pytest.raises(UsageError) as refused:
        compare([shallow, deep], Options(metrics=("mrr",)))
    assert f"k 20 / 100; {remedy}; " in str(refused.value)
    both = compare([shallow, deep], Options(metrics=("mrr", "mrr@10"), protocols=("trec",)))
    assert {c.metric for t in both.groups[0].tables for c in t.cells} == {"mrr@10"}
    shown = render(both, "terminal", ("mrr", "mrr@10"), full=True)
    assert f"excluded: mrr: depth could change it: {remedy}" in shown


def test_whole_rankings_of_two_depths_compare_by_every_metric(bench: Bench) -> None:
    found = compare([bench.bm25(), bench.bm25(Settings(k=500))])
    assert not any(table.left_out for table in found.groups[0].tables)
    assert found["map"].pairs[0].found.difference.value == 0


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("harness", "0.0.9", r"metric version .* / 0\.0\.9"),
        ("version", 7, r"protocol memory turn version 1 / version 7"),
        ("ties", "trec64", r"ties of memory turn order / trec64"),
    ],
)
def test_scores_made_by_other_rules_are_refused(
    bench: Bench, pair: tuple[Path, Path], tmp_path: Path, part: str, value: object, said: str
) -> None:
    other = tmp_path / pair[1].name
    shutil.copytree(pair[1], other)
    scores = read_json(other / "scores.json")
    (scores if part == "harness" else scores["protocols"][0])[part] = value
    (other / "scores.json").write_bytes(orjson.dumps(scores))
    reseal(other)
    with pytest.raises(UsageError, match=said):
        compare([pair[0], other])


def test_failed_queries_count_0_in_a_comparison(bench: Bench, pair: tuple[Path, Path]) -> None:
    folder = bench.run(breaks_on_some)
    found = compare([pair[0], folder])
    failed = found.groups[0].failed[1]
    each = cell(found, "all", "recall@10")
    compared = each.pairs[0].found
    assert failed > 0
    # A failure is a result: it is compared as one that found nothing.
    assert each.means[0].n == each.means[1].n == compared.difference.n
    table = found.groups[0].tables[0]
    assert table.dropped == (0, 0)
    assert f"{failed} queries of B failed and count 0." in render(found, "terminal", ("recall@10",))
    assert compared.wins + compared.losses + compared.ties == each.means[1].n
    assert compared.mean_a == pytest.approx(each.means[0].value)


@pytest.mark.slow
def test_haystacks_are_counted_that_hold_a_pair(
    bench: Bench, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    broken = bench.run(unresolved_on_some)
    first = {q: bench.dataset.query(i).text[0] for i, q in enumerate(bench.dataset.query_ids)}

    def haystack(query: str) -> int:
        return 2 if first[query] in "HI" else hash_of(query) % 2

    copies = [with_haystacks(folder, tmp_path, haystack) for folder in (pair[0], broken)]
    table = tables(compare(copies))["memory/1 turn"]
    assert (table.cluster_by, table.clusters) == ("haystacks", 2)


def test_one_haystack_has_a_mean_and_no_interval(pair: tuple[Path, Path], tmp_path: Path) -> None:
    rows = pq.read_table(pair[0] / "scores.parquet")
    names = dict(zip(rows["query"].to_pylist(), rows["ability"].to_pylist(), strict=True))

    def haystack(query: str) -> int:
        return 0 if names[query] == "lookup" else 1 + hash_of(query) % 2

    copies = [with_haystacks(folder, tmp_path, haystack) for folder in pair]
    said = render(compare(copies, Options(metrics=("recall@10",))), "terminal", ["recall@10"])
    assert "nan" not in said
    assert "a single haystack shows no spread: no interval" in said


def test_queries_won_lost_and_tied_add_up(pair: tuple[Path, Path], bench: Bench) -> None:
    found = win_tie_loss(*pair, MEMORY, "recall@10")
    compared = cell(compare(pair), "all", "recall@10").pairs[0].found
    counts = (len(found.wins), len(found.losses), len(found.ties))
    assert counts == (compared.wins, compared.losses, compared.ties)
    every = [*found.wins, *found.losses, *found.ties]
    mean = np.mean([query.difference for query in every])
    assert mean == pytest.approx(compared.difference.value)
    sizes = [query.difference for query in found.wins]
    assert sizes == sorted(sizes, reverse=True)
    assert all(query.difference < 0 for query in found.losses)
    back = win_tie_loss(*reversed(pair), MEMORY, "recall@10")
    assert [q.query for q in back.losses] == [q.query for q in found.wins]


def test_one_haystack_for_all_is_no_cluster(
    pair: tuple[Path, Path], with_evidence: int, tmp_path: Path
) -> None:
    for name, haystack in (("everyone", lambda query: "the collection"), ("own", str)):
        copies = [with_haystacks(folder, tmp_path / name, haystack) for folder in pair]
        table = tables(compare(copies, Options(resamples=50)))["trec/1 turn"]
        assert (table.cluster_by, table.clusters) == ("queries", with_evidence)


def test_pairs_are_found_by_query_whatever_the_order_of_rows(
    bench: Bench, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / pair[1].name
    shutil.copytree(pair[1], other)
    rows = pq.read_table(other / "scores.parquet")
    order = np.random.default_rng(1).permutation(len(rows))
    pq.write_table(rows.take(order), other / "scores.parquet")
    reseal(other)
    options = Options(cluster_by="queries", resamples=50)
    mixed = compare([pair[0], other], options)
    plain = compare(pair, options)
    for one, two in zip(mixed.groups[0].tables, plain.groups[0].tables, strict=True):
        for first, second in zip(one.cells, two.cells, strict=True):
            assert first.means[0] == second.means[0]
            # Every digit of every field; a field that is NaN equals itself in no comparison by ==.
            assert repr(first.pairs) == repr(second.pairs)
    assert win_tie_loss(pair[0], other, MEMORY, "hit@5") == win_tie_loss(*pair, MEMORY, "hit@5")


def test_metrics_that_one_run_lacks_are_named(
    bench: Bench, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    from harness.scoring.metrics import Metric
    from harness.scoring.protocols import Choices

    other = tmp_path / pair[1].name
    shutil.copytree(pair[1], other)
    score_run(other, bench.dataset, Choices(metrics=[Metric.parse("recall@7")]))
    found = compare([pair[0], other])
    left_out = tables(found)["memory/1 turn"].left_out
    assert left_out == {"recall@7": "not every run was scored by it"}


def test_mistakes_are_one_line(bench: Bench, pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two run folders"):
        compare(pair[:1])
    bare = tmp_path / pair[1].name
    shutil.copytree(pair[1], bare)
    (bare / "scores.json").unlink()
    with pytest.raises(UsageError, match=r"has no scores\.json; `harness score"):
        compare([pair[0], bare])
    with pytest.raises(UsageError, match="is a folder of runs"):
        compare([pair[0], tmp_path])
    base = Options()
    for options, said in (
        (replace(base, metrics=("recal@10",)), "did you mean recall@10"),
        (replace(base, protocols=("memry",)), "did you mean memory"),
        (replace(base, cluster_by="users"), "auto, haystacks or queries"),
        (replace(base, level=95), "between 0 and 1"),
    ):
        with pytest.raises(UsageError, match=said):
            compare(pair, options)
    with pytest.raises(UsageError, match="no metric 'map@3'"):
        win_tie_loss(*pair, MEMORY, "map@3")
    with pytest.raises(UsageError, match="no protocol"):
        win_tie_loss(*pair, ("locomo-official", "turn"), "recall@10")
