"""A gate opens for a run that is good enough, and says what fell for one that is not."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import orjson
import pytest
import yaml
from places import EXAMPLES, ROOT
from polling import HANGS
from scipy.stats import binom
from small import in_three_haystacks

from harness.__main__ import main
from harness.analysis.drops import GateOutcome, drops_of
from harness.analysis.gate import GateMinimum, GateRules, NoDrop, drop_check, gate
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.imported import ImportOptions, import_rankings
from harness.runs.folder.run_folder import read_scores
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run


@pytest.fixture
def good(sample_run: Callable[..., Path]) -> Path:
    return sample_run("bm25")


@pytest.fixture
def worse(sample_run: Callable[..., Path]) -> Path:
    return sample_run("random")


def rules(folder: Path, text: str) -> str:
    path = folder / "gate.toml"
    path.write_text(text)
    return str(path)


THRESHOLDS = """
[[at_least]]
metric = "recall@10"
value = {}
[[at_least]]
metric = "hit@10"
slice = "knowledge-update"
value = 0.1
[[at_most]]
metric = "recall@10"
level = "turn>session"
value = 1.0
"""


def test_a_run_that_reaches_every_threshold_passes(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(good), "--config", rules(tmp_path, THRESHOLDS.format(0.5))]) == 0
    said = capsys.readouterr().out
    assert "4 of 4 checks passed" in said
    assert "FAIL" not in said


def test_what_fell_is_named_with_its_number_and_its_signature(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = rules(tmp_path, THRESHOLDS.format(0.99))
    junit = tmp_path / "gate.xml"
    arguments = ["gate", str(good), "--config", config, "--junit", str(junit)]
    assert main([*arguments, "--quiet"]) == 1
    said = capsys.readouterr().out
    found = read_scores(good).protocols[0].slices["all"].metrics["recall@10"]
    assert found.interval is not None
    assert f"{found.value:.4f}, 95% {found.interval.low:.4f}" in said
    assert found.signature in said
    assert "3 of 4 checks passed" in said
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (failed,) = [
        case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None
    ]
    assert failed == "recall@10 (all) >= 0.99"
    assert main([*arguments, "--json"]) == 1
    told = orjson.loads(capsys.readouterr().out)
    assert [check["outcome"] for check in told["checks"]] == ["pass", "fail", "pass", "pass"]


NO_DROP = """
cluster_by = "queries"
[[no_drop]]
metric = "recall@10"
max_drop = {}
"""


def test_a_drop_fails_passes_or_is_inconclusive(
    good: Path, worse: Path, sample: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = run(sample, RetrieverSpec("bm25", {"k1": 1.21}), out=tmp_path)
    score_run(same, sample)

    def status(folder: Path, max_drop: float, more: str = "") -> tuple[int, str]:
        config = rules(tmp_path, more + NO_DROP.format(max_drop))
        found = main(["gate", str(folder), "--config", config, "--baseline", str(good)])
        return found, capsys.readouterr().out

    found, text = status(worse, 0.1)
    assert (found, "FAIL" in text) == (1, True)
    assert "), significantly more than the allowed 0.1 (p " in text
    found, text = status(worse, 0.6)
    assert (found, "significantly less than the allowed 0.6 (p < 0.0001, 90% " in text) == (0, True)
    assert status(same, 0.05)[0] == 0
    found, text = status(worse, 0.45)  # the drop itself
    assert (found, "but not significantly (p = " in text) == (3, True)
    assert "inconclusive  recall@10 (all) drop <= 0.45" in text
    assert "1 of 2 checks passed, 1 inconclusive" in text
    assert status(worse, 0.45, "allow_inconclusive = true\n")[0] == 0
    assert main(["gate", str(worse), "--config", rules(tmp_path, NO_DROP.format(0.1))]) == 2
    assert "name its run with --baseline" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_threshold_that_is_no_number_is_no_gate(
    good: Path, worse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    for text, name in (
        (NO_DROP.format(value), "no_drop.max_drop"),
        (THRESHOLDS.format(value), "at_least"),
    ):
        config = rules(tmp_path, text)
        assert main(["gate", str(worse), "--config", config, "--baseline", str(good)]) == 2
        assert f"{name}" in (said := capsys.readouterr().err)
        assert f" is {value}, which nothing can be compared with" in said
    with pytest.raises(UsageError, match=f"k1 is {value}, with which nothing can be computed"):
        RetrieverSpec("bm25", {"k1": float(value)}).check()


def test_few_haystacks_are_inconclusive_in_every_format(
    good: Path, worse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three haystacks: as text, Markdown, annotations, CSV, JSON and in JUnit XML."""
    good, worse = (in_three_haystacks(folder, tmp_path) for folder in (good, worse))
    three = NO_DROP.format(0.01).replace("queries", "haystacks")
    junit = tmp_path / "gate.xml"

    def printed(form: str, more: str = "", run: Path = worse) -> tuple[int, str]:
        baseline = good if run is worse else worse
        arguments = ["gate", str(run), "--config", rules(tmp_path, more + three)]
        arguments += ["--baseline", str(baseline), "--junit", str(junit), "--format", form]
        return main(arguments), capsys.readouterr().out

    few = "3 haystacks are too few for a test (at least 6 of equal size)"
    allow = "allow_inconclusive = true\n"
    status, text = printed("table")
    assert (status, few in text) == (3, True)
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "1", "0")
    assert few in str(next(suite.iter("error")).get("message"))
    check = orjson.loads(printed("json")[1])["checks"][1]
    assert (check["outcome"], few in check["message"]) == ("inconclusive", True)
    rows = list(csv.DictReader(printed("csv")[1].splitlines()))
    assert [row["outcome"] for row in rows] == ["pass", "inconclusive"]
    assert few in rows[1]["message"]
    text = printed("markdown")[1]
    assert text.splitlines()[0].startswith("| outcome      | rule ")
    assert f"| inconclusive | recall@10 (all) drop <= 0.01 | dropped by {0.4:.1f}" in text
    text = printed("github")[1]
    assert text.startswith("::error title=gate ")
    assert "%3A recall@10 (all) drop <= 0.01::dropped by " in text

    status, text = printed("github", allow)
    assert (status, text.startswith("::warning title=gate ")) == (0, True)
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("errors"), suite.get("skipped")) == ("0", "1")
    assert orjson.loads(printed("json", allow)[1])["passed"] is True
    assert printed("table", run=good)[0] == 3  # an improvement needs a test too


EVERY = ("recall@10", "hit@10", "ndcg@10", "mrr@10", "recall_all@10")
SLICES = ("all", "lookup", "temporal", "multi-hop", "knowledge-update")


def test_all_drops_are_one_family_whatever_their_metrics_and_slices(
    good: Path, sample_run: Callable[..., Path]
) -> None:
    """p of a larger drop is Holm's over all rules; p of a smaller one is not corrected."""
    tfidf = sample_run("tfidf")

    def p_of(rules: list[NoDrop]) -> list[str]:
        checks = gate(tfidf, GateRules(no_drop=rules, cluster_by="queries"), good)
        found = [re.findall(r"p [=<] ([^,)]+)", check.message) for check in checks[1:]]
        return [p for (p,) in found]

    one = NoDrop(metric="ndcg@10", max_drop=0.03)
    (alone,) = p_of([one])
    assert 0.002 < float(alone) < 0.05
    others = [NoDrop(metric=m, slice=s, max_drop=1) for m in EVERY for s in SLICES]
    together = p_of([one, *others])
    assert float(together[0].split()[0]) == pytest.approx(26 * float(alone), rel=0.3)
    assert together[0].endswith(" for 26 tests")
    assert together[1] == p_of(others)[0]


@pytest.mark.slow
def test_at_most_5_percent_of_gates_fail_where_every_drop_is_the_allowed_one() -> None:
    """Five metrics by five slices that share their queries, and a drop of exactly 0.02.

    Of 300 gates with a true rate of 5%, 28 or fewer fail with probability 0.999. That all 25 pass
    is rarer still.
    """
    generator, gates = np.random.default_rng(0), 300
    slices = generator.integers(0, 4, 100)
    outcomes = []
    for _ in range(gates):
        before = generator.integers(0, 3, (100, 1)) / 4 + generator.uniform(0.2, 0.5, (100, 5))
        shared = generator.normal(0.02, 0.1, (100, 1))
        now = before - shared - generator.normal(0, 0.05, (100, 5))
        parts = [np.where((slices == k) | (k == 4), 1.0, np.nan)[:, None] for k in range(5)]
        a, b = (np.concatenate([x * part for part in parts], axis=1) for x in (before, now))
        found = drops_of(a, b, [0.02] * 25, None, "queries", 0.05)
        outcomes.append({drop.outcome for drop in found})
    most = binom.ppf(0.999, gates, 0.05)
    assert sum(GateOutcome.FAIL in one for one in outcomes) <= most
    assert sum(one == {GateOutcome.PASS} for one in outcomes) <= most


def test_a_number_that_did_not_change_passes_if_the_queries_rule_out_the_drop() -> None:
    values = np.random.default_rng(1).random((40, 1)).round(1)
    haystacks = [str(at % 8) for at in range(40)]
    for labels, outcome in (
        (haystacks, "pass"),
        (None, "pass"),
        (haystacks[:4] * 10, "inconclusive"),
    ):
        (same,) = drops_of(values, values.copy(), [0.1], labels, "queries", 0.05)
        assert drop_check("recall@10 (all)", same).outcome == outcome
        assert str(same).startswith(f"did not change ({values.mean():.4f})")
    (same,) = drops_of(values, values.copy(), [0.05], None, "queries", 0.05)
    assert same.outcome is GateOutcome.INCONCLUSIVE
    whole = np.ones((40, 1))
    (drop,) = drops_of(whole, np.zeros((40, 1)), [0.1], haystacks, "haystacks", 0.05)
    assert drop.outcome is GateOutcome.FAIL
    (drop,) = drops_of(whole, whole * np.nan, [0.1], haystacks, "haystacks", 0.05)
    assert (drop.outcome, str(drop)[:14]) == (GateOutcome.FAIL, "not measurable")


def test_a_baseline_that_no_rule_compares_with_is_refused(good: Path) -> None:
    rules = GateRules(at_least=[GateMinimum(metric="recall@10", value=0.1)])
    with pytest.raises(UsageError, match=r"no rule uses the baseline .*: add a \[\[no_drop\]\]"):
        gate(good, rules, Path("/nonexistent"))


def test_a_gate_is_held_against_runs_that_compare_and_numbers_that_there_are(
    good: Path, sample_run: Callable[..., Path]
) -> None:
    shallow = sample_run("bm25", k=20)
    for rule, baseline, said in (
        (
            NoDrop(metric="mrr", max_drop=0.05),
            shallow,
            rf"mrr does not .*: run {shallow} \(at most 20 deep\) again",
        ),
        (NoDrop(metric="recall@10", slice="temporl", max_drop=0.05), good, "did you mean temporal"),
        (NoDrop(metric="recall@7", max_drop=0.05), good, "--metrics recall@7` adds it"),
    ):
        with pytest.raises(UsageError, match=said):
            gate(good, GateRules(no_drop=[rule]), baseline)
    with pytest.raises(UsageError, match="cluster_by must be"):
        gate(
            good,
            GateRules(no_drop=[NoDrop(metric="recall@10", max_drop=0.05)], cluster_by="users"),
            good,
        )
    assert (
        gate(good, GateRules(no_drop=[NoDrop(metric="recall@10", max_drop=0.05)]), shallow)[
            1
        ].outcome
        == "pass"
    )


def test_a_drop_in_one_query_of_many_passes(good: Path, sample: Dataset, tmp_path: Path) -> None:
    lines = (good / "rankings.trec").read_text().splitlines(keepends=True)
    judged = sample.qrels()
    gold = {
        (sample.query_ids[query], document)
        for query, document in zip(judged.query, judged.document_id.to_pylist(), strict=True)
    }
    rows = [tuple(line.split()) for line in lines]
    lost = next(i for i, r in enumerate(rows) if (r[0], r[2]) in gold and int(r[3]) <= 10)
    file = tmp_path / "less.trec"
    file.write_text("".join(lines[:lost] + lines[lost + 1 :]))
    less = import_rankings(file, sample, ImportOptions(tmp_path, "less", 100))
    score_run(less, sample)
    config = rules(tmp_path, NO_DROP.format(0.03))
    before = import_rankings(good / "rankings.trec", sample, ImportOptions(tmp_path, "before", 100))
    score_run(before, sample)
    assert main(["gate", str(less), "--config", config, "--baseline", str(before)]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no checks"),
        ("at_leest = 3", "at_leest: unknown field; did you mean at_least"),
        ("[[at_least]]\nmetric = 3\nvalue = 1", "at_least[0].metric: expected str, got int"),
        (f'[[at_least]]\nmetric = "recall@10"\nvalue = {"9" * 400}', "more than 64 bits"),
        ('[[at_least]]\nmetric = "recall@10"', "at_least[0].value: is missing"),
        ('[[at_least]]\nmetric = "recal@10"\nvalue = 1', "recal"),
        ('[[at_least]]\nmetric = "recall@7"\nvalue = 1', "--metrics recall@7` adds it"),
        (
            '[[at_least]]\nmetric = "recall@10"\nvalue = 1\nslice = "temporl"',
            "did you mean temporal",
        ),
        ('[[at_least]]\nmetric = "recall@10"\nvalue = 1\nlevel = "page"', "was not scored by"),
        ('[[no_drop]]\nmetric = "recall@10"', "no_drop[0].max_drop: is missing"),
        ('[[no_drop]]\nmetric = "recall@10"\nmax_drop = 0', "no_drop[0].max_drop: expected"),
        ("not toml", "not valid TOML"),
    ],
)
def test_rules_that_cannot_be_checked_are_wrong_use(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert main(["gate", str(good), "--config", rules(tmp_path, text)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


MINE = """
class Mine:
    def index(self, corpus):
        self.n = len(corpus)
        self.words = [set(text.lower().split()) for text in corpus.contents]

    def search(self, queries, k):
        asked = [set(query.text.lower().split()) for query in queries]
        scores = [[{}len(a & words) for words in self.words] for a in asked]
        return [sorted(range(self.n), key=lambda i: -s[i])[:k] for s in scores]
"""


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """Somebody's repository with the examples copied into it."""
    shutil.copy(EXAMPLES / "ci" / "pre-commit-config.yaml", tmp_path / ".pre-commit-config.yaml")
    gate = (EXAMPLES / "ci" / "gate.toml").read_text()
    gate = gate.replace("0.53", "0.30").replace("0.45", "0.30")
    (tmp_path / "gate.toml").write_text(gate)
    (tmp_path / "mine.py").write_text(MINE.format(""))
    return tmp_path


def call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PRE_COMMIT_HOME": str(folder / ".cache")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGS
    )


@pytest.mark.docs
def test_the_pre_commit_example_lets_a_good_retriever_in_and_keeps_a_bad_one_out(
    project: Path,
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    assert call(["git", "init", "-q"], project).returncode == 0
    assert call(["pre-commit", "install"], project).returncode == 0
    call(["git", "add", "mine.py", "gate.toml", ".pre-commit-config.yaml"], project)
    good = call([*git, "commit", "-qm", "good"], project)
    assert good.returncode == 0, good.stdout + good.stderr
    (project / "mine.py").write_text(MINE.format("-"))
    call(["git", "add", "mine.py"], project)
    bad = call([*git, "commit", "-qm", "bad"], project)
    assert bad.returncode == 1
    assert "FAIL" in bad.stdout + bad.stderr
    assert call(["git", "log", "--oneline"], project).stdout.count("\n") == 1


def steps_of(action: Path, inputs: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The commands of a composite action with their environments, as GitHub fills them in."""
    content = yaml.safe_load(action.read_text())
    assert {*inputs} <= {*content["inputs"]}
    values = {f"inputs.{name}": one.get("default", "") for name, one in content["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    values["github.action_path"] = str(action.parent)
    for step in content["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input is no code"
        yield (
            step["run"],
            {
                name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)
                for name, text in step["env"].items()
            },
        )


@pytest.mark.docs
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_action_and_its_example_run_step_by_step(project: Path, sign: str) -> None:
    """With a good retriever, and with a bad one, which has a drop too."""
    workflow = yaml.safe_load((EXAMPLES / "ci" / "github-workflow.yml").read_text())
    (used,) = [s for s in workflow["jobs"]["gate"]["steps"] if s.get("uses") == "./.harness"]
    summary = project / "summary.md"
    summary.write_text("Before\n")
    shared = {"GITHUB_STEP_SUMMARY": str(summary)}

    def act(inputs: dict[str, str]) -> tuple[int, str]:
        printed = ""
        for text, variables in steps_of(ROOT / "action.yml", inputs):
            command = ["env", *(f"{name}={value}" for name, value in (shared | variables).items())]
            if "pip install" in text:
                assert text == 'python -m pip install --quiet "$SOURCE${EXTRAS:+[$EXTRAS]}"'
                continue  # it is installed here
            bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
            done = call([*command, *bash], project)
            printed += done.stdout
            if done.returncode:
                return done.returncode, printed + done.stderr
        return 0, printed

    status, printed = act(used["with"])
    assert (status, "::error" in printed) == (0, False), printed
    assert ElementTree.parse(project / "gate.xml").getroot().get("failures") == "0"
    assert summary.read_text().startswith("Before\n## Retrieval quality\n\n| outcome")
    assert call(["mv", "results", "before"], project).returncode == 0
    (project / "mine.py").write_text(MINE.format(sign))
    rule = '[[no_drop]]\nmetric = "recall@10"\nmax_drop = 0.03\n'
    (project / "gate.toml").write_text(rule)
    (before,) = (project / "before").glob("sample-turn-*")
    status, printed = act({**used["with"], "baseline": str(before), "arguments": "--k 20"})
    if sign:
        assert (status, "::error title=gate action%3A recall@10 (all) drop" in printed) == (1, True)
        assert "| FAIL      | recall@10 (all) drop <= 0.03 | dropped by " in summary.read_text()
    else:
        assert (status, "action: 2 of 2 checks passed" in printed) == (0, True), printed
