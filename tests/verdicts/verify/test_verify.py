"""An honest folder is verified, and whatever was altered in one is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from harness.dataset.prepare import open_dataset
from harness.errors import UsageError
from harness.files import read_json
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Corpus, Hit, Question
from harness.runs.folder.imported import import_rankings
from harness.runs.folder.scored import score_run
from harness.runs.plan import Settings
from harness.runs.runner import run
from harness.scoring.metrics import parse_metrics
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties
from harness.verdicts.verify.render import lines
from harness.verdicts.verify.verify import Verdict, verify

Runs = Callable[..., Path]
OURS = "plain Python"
THEIRS = "pytrec_eval"


@pytest.fixture
def folder(sample_run: Runs, tmp_path: Path) -> Path:
    """A scored run that may be altered."""
    return Path(shutil.copytree(sample_run("bm25"), tmp_path / "run"))


def shown(verdict: Verdict) -> str:
    return "\n".join(lines(verdict))


def digits(verdict: Verdict) -> dict[tuple[str, str, str], int]:
    """What agrees, by protocol, unit and the first word of the witness's name."""
    return {
        (line.protocol, line.unit, line.by.split()[0] if THEIRS in line.by else line.by): line.digits
        for line in verdict.lines
        if not line.levels
    }


def assert_honest(verdict: Verdict) -> None:
    assert verdict.agrees, shown(verdict)
    assert verdict.means[0] == verdict.means[1] > 0, shown(verdict)
    assert min(line.digits for line in verdict.lines) >= 12, shown(verdict)


# -- honest runs -----------------------------------------------------------------------------------


def test_every_mean_of_an_honest_run_is_recomputed_by_plain_python_and_by_pytrec_eval(
    folder: Path,
) -> None:
    verdict = verify(folder)
    assert_honest(verdict)
    assert digits(verdict) == dict.fromkeys(
        [
            ("memory/1", "turn", OURS),
            ("memory/1", "turn", THEIRS),
            ("memory/1", "turn>session", OURS),
            ("trec/1", "turn", OURS),
            ("trec/1", "turn", THEIRS),
            ("knowledge-update/1", "turn", OURS),
            ("abstention/1", "turn", OURS),
            ("tokens/1", "turn", OURS),
            ("counts", "turn", OURS),
        ],
        15,
    )
    kinds = {kind.partition(".")[0] for kind in verdict.not_verified}
    assert kinds == {"interval", "over_haystacks", "ties", "abstention"}


@pytest.mark.parametrize("ties", list(Ties))
def test_every_order_of_ties_cut_off_and_metric_is_recomputed(folder: Path, ties: Ties) -> None:
    metrics = "ndcg_exp@7,ndcg_b2@4,f1@5,judged@3,precision_returned@20,recall(rel=2)@10,map@8,rprec"
    metrics += ",ndcg,mrr,map(rel=2)"
    choices = Choices(ks=(2, 20), metrics=tuple(parse_metrics(metrics)), ties=ties, answers=True)
    score_run(folder, open_dataset("sample"), choices)
    verdict = verify(folder)
    assert_honest(verdict)
    assert {line.by for line in verdict.lines if line.protocol == "answers/1"} == {OURS, "sacrebleu"}


class Notes(BM25):
    """Answers with texts of its own: of one document, of two, of none, and without any answer."""

    def index(self, corpus: Corpus) -> None:
        super().index(corpus)
        self._texts = corpus.contents

    def search(self, queries: list[Question], k: int) -> list[list[Hit]]:  # type: ignore[override]
        return [
            [self._hit(n + at, [self._texts[int(i)] for i in found.ids[at : at + 2]])
             for at in range(len(found.ids) if n % 7 else 0)]
            for n, found in enumerate(super().search(queries, k))
        ]

    def _hit(self, number: int, texts: list[str]) -> Hit:
        if number % 5 == 3:
            return Hit("zzqx blorp")
        return Hit(" ".join(texts) if number % 5 == 1 else f"Noted: {texts[0]}")


def test_a_run_of_texts_is_recomputed_from_what_they_were_matched_to(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    made = run(dataset, Notes(), Settings(k=20), out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    assert any(line.protocol == "hits" for line in verdict.lines)
    hits = pq.read_table(made / "hits.parquet")
    pq.write_table(hits.slice(1), made / "hits.parquet")
    assert "hits.parquet" in [check.what for check in verify(made).checks if not check.ok]


@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_locomo_is_recomputed_with_its_official_protocols(
    data: Path, tmp_path: Path, granularity: str
) -> None:
    source = data / "locomo" / "locomo10.json"
    dataset = open_dataset("locomo", granularity=granularity, source=source)
    made = run(dataset, "bm25", Settings(k=50, limit=160), out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    protocols = {line.protocol for line in verdict.lines}
    assert {"locomo-official/1", "locomo-official-aggregate/1", "abstention/1"} <= protocols


@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_longmemeval_is_recomputed_with_its_official_protocols(
    data: Path, tmp_path: Path, granularity: str
) -> None:
    source = data / "longmemeval" / "longmemeval_s_sample.json"
    dataset = open_dataset("longmemeval/s", granularity=granularity, source=source)
    made = run(dataset, "bm25", Settings(k=60), out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    protocols = {line.protocol for line in verdict.lines}
    assert {"longmemeval-official/1", "longmemeval-470/1", "knowledge-update/1"} <= protocols


def test_scifact_is_recomputed_by_pytrec_eval(data: Path, tmp_path: Path) -> None:
    dataset = open_dataset("beir/scifact", source=data / "beir" / "scifact")
    made = run(dataset, "bm25", Settings(k=100, limit=60), out=tmp_path)
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    assert digits(verdict)["trec/1", "passage", THEIRS] >= 14


def test_rankings_from_elsewhere_with_gaps_ties_and_strangers_are_recomputed(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    queries, documents = dataset.query_ids, dataset.documents.column("id").to_pylist()
    rows = [
        f"{query} Q0 {document} 0 {(at // 3) * 0.5 + 1e-9 * (at % 2)} r"
        for n, query in enumerate([*queries[::2], "who-is-this"])
        for at, document in enumerate([*documents[n : n + 40], documents[n], "no-such-document"])
    ]
    (tmp_path / "run.trec").write_text("\n".join(rows) + "\n")
    made = import_rankings(
        tmp_path / "run.trec", dataset, out=tmp_path, name="r", k=None, strict=False
    )
    score_run(made, dataset)
    verdict = verify(made)
    assert_honest(verdict)
    score_run(made, dataset, Choices(missing="skip"))
    assert not [d for d in verify(made).differences if d.protocol in ("memory/1", "trec/1")]


# -- submissions -----------------------------------------------------------------------------------


def sent(folder: Path, to: Path, *names: str) -> Path:
    """A submission by hand: a few lines, and some files of a run."""
    to.mkdir()
    for name in names:
        shutil.copy(folder / name, to / name)
    about = {
        "system": "theirs",
        "dataset": "sample",
        "granularity": "turn",
        "fingerprint": read_json(folder / "run.json")["dataset"]["fingerprint"][:12],
        "k": 100,
    }
    (to / "run.json").write_bytes(orjson.dumps(about))
    return to


def test_a_submission_by_hand_is_recomputed(folder: Path, tmp_path: Path) -> None:
    theirs = sent(folder, tmp_path / "theirs", "rankings.trec", "scores.json", "queries.parquet")
    verdict = verify(theirs)
    assert_honest(verdict)
    assert "theirs on sample" in shown(verdict)


def test_a_submission_without_scores_has_nothing_to_verify(folder: Path, tmp_path: Path) -> None:
    theirs = sent(folder, tmp_path / "theirs", "rankings.trec")
    with pytest.raises(UsageError, match="holds no scores.json"):
        verify(theirs)


# -- what was altered ------------------------------------------------------------------------------


def edit_scores(folder: Path, edit: Callable[[Any], None]) -> None:
    scores = read_json(folder / "scores.json")
    edit(scores)
    (folder / "scores.json").write_bytes(orjson.dumps(scores))


def cell(scores: Any, metric: str = "recall@10") -> Any:
    return scores["protocols"][0]["slices"]["all"]["metrics"][metric]


def test_a_mean_that_is_off_in_the_fifth_digit_is_told_with_both_values(folder: Path) -> None:
    before = cell(read_json(folder / "scores.json"))["value"]
    edit_scores(folder, lambda scores: cell(scores).update(value=before + 2e-5))
    verdict = verify(folder)
    assert not verdict.agrees
    assert {d.what for d in verdict.differences} == {"recall@10"}
    assert {(d.slice, d.published, d.recomputed) for d in verdict.differences} == {
        ("all", before + 2e-5, pytest.approx(before, abs=1e-12))
    }
    assert {d.by.split()[0] for d in verdict.differences} == {"plain", THEIRS}
    said = shown(verdict)
    assert "recall@10 (all) is published as 0.628225, recomputed as 0.628205" in said
    assert "no value by query differs" in said


def _exchange(path: Path) -> str:
    """Exchange the documents of two lines of a TREC run; gives their query."""
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    query = "mira-05"
    at = next(i for i, row in enumerate(rows) if row[0] == query)
    rows[at][2], rows[at + 9][2] = rows[at + 9][2], rows[at][2]
    path.write_text("\n".join(map(" ".join, rows)) + "\n")
    return query


def test_two_lines_exchanged_in_one_file_of_rankings_are_told(folder: Path) -> None:
    query = _exchange(folder / "rankings.trec")
    verdict = verify(folder)
    (wrong, *_) = [check for check in verdict.checks if not check.ok]
    assert wrong.what == "rankings.trec"
    assert repr(query) in wrong.found


def test_two_lines_exchanged_in_all_files_are_told_by_the_query_that_differs(folder: Path) -> None:
    query = _exchange(folder / "rankings.trec")
    rows = [line.split(" ") for line in (folder / "rankings.trec").read_text().splitlines()]
    table = pq.read_table(folder / "rankings.parquet")
    document = pa.array([row[2] for row in rows])
    at = table.column_names.index("document")
    pq.write_table(table.set_column(at, "document", document), folder / "rankings.parquet")
    verdict = verify(folder)
    assert all(check.ok for check in verdict.checks)
    assert verdict.differences
    assert {q for d in verdict.differences for q, _, _ in d.queries} == {query}
    assert f"{query}: 1.0000 published" in shown(verdict) or f"{query}: 0" in shown(verdict)


def test_a_value_by_query_that_was_altered_is_told(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    values = table["mrr@10"].to_pylist()
    at = next(i for i, v in enumerate(values) if v)
    values[at] -= 1e-4
    column = table.column_names.index("mrr@10")
    pq.write_table(
        table.set_column(column, "mrr@10", pa.array(values, pa.float64())),
        folder / "scores.parquet",
    )
    verdict = verify(folder)
    assert "scores.parquet averages to scores.json" in [c.what for c in verdict.checks if not c.ok]
    assert {d.what for d in verdict.differences} == {"mrr@10"}
    query = table["query"][at].as_py()
    assert all(query == q for d in verdict.differences for q, _, _ in d.queries)


def test_means_and_values_altered_to_fit_each_other_are_told(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    at = table.column_names.index("recall@10")
    better = pc.if_else(pc.is_valid(table["recall@10"]), 1.0, None)
    pq.write_table(table.set_column(at, "recall@10", better), folder / "scores.parquet")

    def edit(scores: Any) -> None:
        for block in scores["protocols"]:
            for part in block["slices"].values():
                if "recall@10" in part["metrics"]:
                    part["metrics"]["recall@10"]["value"] = 1.0

    edit_scores(folder, edit)
    verdict = verify(folder)
    assert all(check.ok for check in verdict.checks)
    assert {"recall@10"} == {d.what for d in verdict.differences}


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("signatures", lambda s: cell(s).update(signature=cell(s)["signature"].replace("65", "80"))),
        ("signatures", lambda s: s.update(depth=99)),
        ("dataset", lambda s: s["dataset"].update(fingerprint="0" * 64)),
        (
            "queries that memory leaves out",
            lambda s: s["protocols"][0]["left_out"].update({"no evidence in the answer key": 14}),
        ),
    ],
)
def test_files_that_do_not_belong_together_are_told(
    folder: Path, what: str, edit: Callable[[Any], None]
) -> None:
    edit_scores(folder, edit)
    verdict = verify(folder)
    assert what in [check.what for check in verdict.checks if not check.ok], shown(verdict)


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("n of recall@10", lambda s: cell(s).update(n=80)),
        ("chance of recall@10", lambda s: cell(s).update(chance=0.01)),
        ("ceiling of recall@10", lambda s: cell(s).update(ceiling=0.9)),
        ("over_haystacks.value of recall@10", lambda s: cell(s)["over_haystacks"].update(value=0.9)),
        ("interval.units of recall@10", lambda s: cell(s)["interval"].update(units=65)),
        ("newest_found@5", lambda s: s["knowledge_update"].update({"newest_found@5": 1.0})),
        ("confidence.auroc", lambda s: s["abstention"]["confidence"].update(auroc=0.9)),
        (
            "recall_within_budget.500.recall",
            lambda s: s["tokens"]["recall_within_budget"]["500"].update(recall=0.9),
        ),
        ("queries.failed", lambda s: s["queries"].update(failed=1)),
        ("hit@10", lambda s: s["protocols"][0]["slices"].pop("temporal")),
    ],
)
def test_every_kind_of_number_is_held(
    folder: Path, what: str, edit: Callable[[Any], None]
) -> None:
    edit_scores(folder, edit)
    assert what in {d.what for d in verify(folder).differences}


def test_what_nobody_recomputes_is_named_and_not_passed(folder: Path) -> None:
    def edit(scores: Any) -> None:
        scores["protocols"].append({**scores["protocols"][0], "protocol": "mine"})
        cells = scores["protocols"][0]["slices"]["all"]["metrics"]
        cells["goodness@10"] = {**cells["recall@10"], "value": 1.0}

    edit_scores(folder, edit)
    verdict = verify(folder)
    done, all_ = verdict.means
    assert done < all_
    assert verdict.not_verified["mine/1 recall@10"] > 0
    assert verdict.not_verified["memory/1 goodness@10"] == 2  # its value and n
    assert f"{done:,} of {all_:,} published means recomputed" in shown(verdict)


# -- wrong use -------------------------------------------------------------------------------------


def test_what_cannot_be_verified_is_refused(folder: Path, tmp_path: Path) -> None:
    for name, match in (
        ("rankings.*", "holds no rankings"),
        ("scores.json", "no published number"),
        ("run.json", "no such file"),
    ):
        broken = Path(shutil.copytree(folder, tmp_path / f"without {name[:6]}"))
        for path in broken.glob(name):
            path.unlink()
        with pytest.raises(UsageError, match=match):
            verify(broken)
    (folder / "scores.json").write_text('{"score_version": 1, "protocols": [{}]}')
    with pytest.raises(UsageError, match="not as the harness writes it"):
        verify(folder)
    with pytest.raises(UsageError, match="no such folder"):
        verify(tmp_path / "nowhere")


# -- the program trec_eval -------------------------------------------------------------------------

STAND_IN = """\
import sys
if "-v" in sys.argv:
    sys.exit("trec_eval version 9.0.8")
import pytrec_eval
qrels, run, measures, cut = {}, {}, set(), None
arguments = sys.argv[1:]
for line in open(arguments.pop(-2)):
    query, _, document, grade = line.split()
    qrels.setdefault(query, {})[document] = int(grade)
for line in open(arguments.pop()):
    query, _, document, _, score, _ = line.split()
    run.setdefault(query, {})[document] = float(score)
level = 1
while arguments:
    one = arguments.pop(0)
    if one == "-m":
        measures.add(arguments.pop(0))
    elif one.startswith("-M"):
        cut = int(one[2:])
    elif one.startswith("-l"):
        level = int(one[2:])
    else:
        assert one == "-q", one
if cut:
    best = lambda found: sorted(found, key=lambda d: (found[d], d), reverse=True)[:cut]
    run = {q: {d: found[d] for d in best(found)} for q, found in run.items()}
found = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=level).evaluate(run)
for query, values in found.items():
    for name, value in values.items():
        print(f"{name:22}\\t{query}\\t{value:6.4f}")
print("map \\tall\\t0.1234")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that reads, prints and rounds as trec_eval does; what computes is pytrec_eval."""
    path = tmp_path / "trec_eval"
    path.write_text(f"#!{sys.executable}\n{STAND_IN}")
    path.chmod(0o755)
    return path


def test_trec_eval_agrees_to_the_digits_that_it_prints(folder: Path, program: Path) -> None:
    verdict = verify(folder, program=program)
    assert verdict.agrees, shown(verdict)
    found = [line for line in verdict.lines if line.by == "trec_eval 9.0.8"]
    assert {(line.protocol, line.digits) for line in found} == {("memory/1", 4), ("trec/1", 4)}
    edit_scores(folder, lambda scores: cell(scores, "mrr@10").update(value=0.4614))
    differences = verify(folder, program=program).differences
    assert "trec_eval 9.0.8" in {d.by for d in differences if d.what == "mrr@10"}


def test_another_program_is_refused(folder: Path, tmp_path: Path) -> None:
    for other, match in ((Path("/bin/echo"), "is not trec_eval"), (tmp_path / "no", "cannot be run")):
        with pytest.raises(UsageError, match=match):
            verify(folder, program=other)


# -- independence ----------------------------------------------------------------------------------


def test_nothing_of_the_scorer_is_loaded_while_numbers_are_verified(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.verdicts.verify.verify import verify\n"
        f"assert verify(Path({str(folder)!r})).agrees\n"
        "print([name for name in sys.modules if name.startswith(('harness.scoring', "
        "'harness.statistics', 'harness.runs', 'harness.verdicts.board'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
