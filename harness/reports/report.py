"""Builds a report as one JSON object, and the HTML page that draws it.

Every number on the page is in that object.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import harness
from harness.analysis.board.entries import distinct_params, labels, read_board
from harness.analysis.compare.compare import compare
from harness.analysis.compare.comparison import Comparison, Group, Options, Pair, Table
from harness.analysis.compare.render import foot, shown_of
from harness.analysis.scored_run import Block, ScoredRun
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.scores import MetricResult, ProtocolResult
from harness.reports.curves import by_k, by_tokens, latency, risk
from harness.reports.html import metric_order, page
from harness.reports.material import Material, ReportContext, Texts, added_sections
from harness.reports.questions import causes, questions
from harness.reports.records import (
    ComparedMetric,
    ComparedRun,
    ComparisonData,
    Mean,
    PairResult,
    ReportData,
    ReportProtocol,
    ReportRun,
    ReportSlice,
    SettingRow,
)
from harness.schema import Ability
from harness.scoring.protocols import PROTOCOLS
from harness.scoring.scores import depth_message, main_metrics
from harness.scoring.signatures import digest

SHOWN = 10
"""Ranks of each ranking that a page shows by default."""

_ORDER = (*(str(ability) for ability in Ability), "answerable", "all")
_NONE = MetricResult(value=None, n=0)  # of a slice in which no query has the metric
_LEADING = {"memory": "recall@10", "trec": "ndcg@10"}


def report_data(
    folders: Sequence[Path], dataset: Dataset, *, shown: int = SHOWN, share: bool = False
) -> ReportData:
    """Builds the report of one run, or of two that can be compared.

    `share` excludes all texts of the dataset and of the system; ids and numbers stay. Raises
    UsageError for folders that are not scored runs, and for two that cannot be compared, naming
    each difference.
    """
    compared = _compared(folders) if len(folders) == 2 else []
    materials = [Material.read(folder, dataset) for folder in folders]
    shallow, deepest = (pick(materials, key=lambda m: m.depth) for pick in (min, max))
    if shallow.depth < deepest.depth:
        raise UsageError(
            f"the runs of a report need the same depth: run {shallow.run.folder} (--k "
            f"{shallow.depth}) again with --k {deepest.depth}, or use `harness compare`"
        )
    first = materials[0].run
    shared = [b for b in first.blocks if all(b in m.run.blocks for m in materials)]
    drawn = _drawn(shared, first)
    missed, causes_of = causes(materials)
    asked = materials[0].answered.asked
    names = missed.names if missed else []
    texts = Texts(share=share)
    queries = questions(materials, shown, names, causes_of, texts, share=share)
    context = ReportContext(materials, np.flatnonzero(asked), texts, share)
    return ReportData(
        harness=harness.__version__,
        share=share,
        shown=shown,
        dataset=first.scores.dataset,
        depth=first.scores.depth,
        asked=int(asked.sum()),
        in_dataset=dataset.n_queries,
        digest=digest(first.asked),
        runs=[_run(material.run) for material in materials],
        settings=setting_rows(compared[0].groups[0]) if compared else [],
        protocols=[_protocol(materials, block, compared) for block in shared],
        main=shared.index(drawn) if drawn else 0,
        by_k=[by_k(material, drawn) for material in materials] if drawn else [],
        by_k_of=first.blocks[drawn].name if drawn else None,
        by_tokens=[by_tokens(material) for material in materials],
        tokenizer=first.scores.tokens.tokenizer if first.scores.tokens else None,
        risk=[risk(material) for material in materials],
        latency=latency(materials),
        queries=queries,
        sections=added_sections(context),
        causes=missed,
    )


def report_page(data: ReportData, *, home: str = "") -> bytes:
    """Returns one self-contained file; needs no network and opens from the disk.

    `home` is the address of the board, for a page from a server.
    """
    return page(data.title, "report", data, home=home)


def check_pair(folders: Sequence[Path]) -> None:
    """Raises UsageError for more than two runs, or the same one twice."""
    if len(folders) > 2:
        raise UsageError("a report takes one run or two; `harness compare` takes more")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError(f"{folders[0]}: is named twice; name two different runs")


def _drawn(blocks: Sequence[Block], run: ScoredRun) -> Block | None:
    """Returns the protocol that a page opens with and draws against k.

    `memory` if there are several abilities, else `trec`, as in the table of a run.
    """
    own = {name: (name, at) for name, at in blocks if at == run.scores.dataset.granularity}
    memory = own.get("memory")
    if memory and "trec" in own:
        abilities = [s for s in run.blocks[memory].columns if s in set(Ability)]
        return memory if len(abilities) > 1 else own["trec"]
    named = [block for name, block in own.items() if name in PROTOCOLS]
    return memory or own.get("trec") or next(iter(named), None)


def _compared(folders: Sequence[Path]) -> list[Comparison]:
    """Returns a comparison in every metric, then one in the metrics that `harness compare` shows.

    The second has the p values of that command: they are corrected for fewer tests.
    """
    protocols, metrics, _ = shown_of(folders[0])
    return [
        compare(folders, options)
        for options in (Options(), Options(protocols=protocols, metrics=metrics))
    ]


def _run(run: ScoredRun) -> ReportRun:
    record, scores = run.run_record, run.scores
    retriever = record.retriever
    return ReportRun(
        name=run.folder.resolve().name,
        system=record.title,
        retriever=retriever.name,
        version=retriever.version,
        revision=retriever.revision,
        params=retriever.params,
        sees_gold_labels=retriever.sees_gold_labels,
        finished=record.finished,
        submitted_by=record.submitted_by,
        failed=scores.queries.failed,
        without_ranking=scores.queries.without_ranking,
        depth_message=depth_message(scores.returned, scores.depth, requested=record.executed),
        knowledge_update=scores.knowledge_update,
        changes=scores.changes,
        abstention=scores.abstention,
        warnings=scores.warnings,
    )


def _protocol(
    materials: Sequence[Material], block: Block, compared: Sequence[Comparison]
) -> ReportProtocol:
    """Returns one protocol: each run's results by slice and metric, and differences of the pair."""
    found = [material.run.blocks[block] for material in materials]
    names = [n for n in _ORDER if all(n in one.columns for one in found)]
    if "answerable" in names and _same_n(found[0], "answerable", "all"):
        names.remove("answerable")
    if len(names) == 2:  # one ability: the same queries twice
        names = ["all"]
    known = [one.overall if names else {} for one in found]
    metrics = [m for m in known[0] if all(m in other for other in known)]
    main = [name for name in main_metrics(known[0]) if name in metrics]
    metrics = main + sorted(set(metrics) - set(main), key=metric_order)
    lead = _LEADING.get(block[0], "")
    tables = _tables(block, compared)
    pairs: dict[str, dict[str, PairResult]] = {}
    for table in tables:
        for cell in table.cells:
            pairs.setdefault(cell.slice, {})[cell.metric] = pair_result(cell.pairs[0], table.tests)
    return ReportProtocol(
        protocol=found[0].name,
        level=block[1],
        description=found[0].description,
        excluded=[one.excluded for one in found],
        metrics=metrics,
        main_metrics=main,
        lead=lead if lead in metrics else _first_at_10(metrics),
        slices=[ReportSlice(name=n, n=found[0].columns[n].n) for n in names],
        results=[
            {name: {m: one.slices[name].metrics.get(m, _NONE) for m in metrics} for name in names}
            for one in found
        ],
        pairs=pairs,
        dropped=list(tables[0].dropped) if tables else [],
    )


def _same_n(protocol: ProtocolResult, *names: str) -> bool:
    return len({protocol.columns[name].n for name in names}) == 1


def _first_at_10(metrics: Sequence[str]) -> str:
    return next((m for m in metrics if m.endswith("@10")), metrics[0] if metrics else "")


def _tables(block: Block, compared: Sequence[Comparison]) -> list[Table]:
    """Returns the tables of comparisons under a protocol."""
    return [
        table
        for one in compared
        for group in one.groups
        for table in group.tables
        if (table.protocol.partition("/")[0], table.level) == block
    ]


# -- A comparison of several runs as a page: what `harness compare` prints of them -----------------


def comparison_page(folders: Sequence[Path], *, home: str = "") -> bytes:
    """Returns one self-contained file; `home` is the address of the board on a server.

    Raises UsageError for runs that cannot be compared.
    """
    data = comparison_data(folders)
    return page(f"{len(folders)} runs on {data.dataset}", "compare", data, home=home)


def comparison_data(folders: Sequence[Path]) -> ComparisonData:
    """Builds the data of the page, with the metrics that `harness compare` shows.

    Raises UsageError as `compare` does.
    """
    protocols, metrics, level = shown_of(folders[0])
    compared = compare(folders, Options(protocols=protocols, metrics=metrics))
    group = compared.groups[0]
    table = next(one for one in group.tables if level in (None, one.level))
    entries = [entry for folder in folders for entry in read_board(folder).entries]
    return ComparisonData(
        harness=harness.__version__,
        dataset=group.essentials["dataset"],
        protocol=table.protocol,
        level=table.level,
        clusters=table.clusters,
        cluster_by=table.cluster_by,
        runs=[
            ComparedRun(
                run=entry.run,
                name=label,
                distinct_params=params,
                finished=entry.provenance.finished,
            )
            for entry, label, params in zip(
                entries, labels(entries), distinct_params(entries), strict=True
            )
        ],
        settings=setting_rows(group),
        slices=list(dict.fromkeys(cell.slice for cell in table.cells)),
        metrics=list(dict.fromkeys(cell.metric for cell in table.cells)),
        results=_results(table),
        footnotes=_footnotes(compared, table),
        command=shlex.join(["harness", "compare", *(folder.name for folder in folders)]),
    )


def setting_rows(group: Group) -> list[SettingRow]:
    """Returns what differs between the settings of the runs."""
    return [SettingRow(setting=row.what, values=list(row.values)) for row in group.settings]


def pair_result(pair: Pair, tests: int) -> PairResult:
    """Returns the difference between a pair of runs in one metric over one slice; `tests` is the
    number of tests for which its p is corrected."""
    found = pair.found
    return PairResult(
        a=pair.a,
        b=pair.b,
        difference=found.difference.value,
        low=found.difference.low,
        high=found.difference.high,
        p=pair.p,
        shown=pair.shown,
        detectable=pair.detectable,
        effect_size=found.effect_size,
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
        tests=tests,
    )


def _results(table: Table) -> dict[str, dict[str, ComparedMetric]]:
    found: dict[str, dict[str, ComparedMetric]] = {}
    for cell in table.cells:
        found.setdefault(cell.slice, {})[cell.metric] = ComparedMetric(
            n=cell.means[0].n,
            means=[Mean(value=mean.value, low=mean.low, high=mean.high) for mean in cell.means],
            pairs=[pair_result(pair, table.tests) for pair in cell.pairs],
        )
    return found


def _footnotes(compared: Comparison, table: Table) -> list[str]:
    """Returns notes on how the numbers were computed, and on queries that no mean includes."""
    lines = foot(table, table.cells).splitlines()
    for name, n in zip(compared.runs, table.dropped, strict=False):
        if n:
            lines.append(f"{n} queries of {name} excluded: another run has no value for them")
    return lines
