"""A run's published numbers, each made again by a second way and held against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset, open_prepared
from harness.datasets.verify import verify as verify_content
from harness.errors import UsageError
from harness.io.files import TemporaryFolder
from harness.records.scores import ChangesResult, KnowledgeUpdateResult
from reference import changes, sections
from reference.blocks import SESSIONS, Block, Material, Values, answer_values
from reference.export_qrels import export_key
from reference.formulas import Metric
from reference.hearing import PLAIN, Difference, Hearing, Line
from reference.key import FOR_NO_RUN, RULES, Key, Outcomes, slices
from reference.published import Check, Folder, signature_check
from reference.rankings import FILES, Run, cleaned, differing, read_run
from reference.texts import (
    UNRESOLVED,
    Hits,
    document_texts,
    read_hits,
    same_rankings,
)

_TEXTS = 300_000
"""Of more returned documents the texts are not read: neither tokens nor answers are verified."""


@dataclass(frozen=True)
class Verdict:
    """All that was found.

    `numbers`: how many scores.json has; `not_verified`: how many of them nobody recomputed, by
    kind. `means`: how many means of protocols were recomputed, and how many there are.
    """

    folder: Folder
    lines: list[Line]
    checks: list[Check]
    differences: list[Difference]
    numbers: int
    means: tuple[int, int]
    not_verified: dict[str, int]
    notes: list[str]

    @property
    def recomputed(self) -> int:
        """How many numbers were recomputed."""
        return self.numbers - sum(self.not_verified.values())

    @property
    def agrees(self) -> bool:
        """Whether nothing differs and everything belongs together."""
        return not self.differences and all(check.ok for check in self.checks)


def verify(path: Path, *, source: str | None = None) -> Verdict:
    """Recompute what a run folder, or a submission, publishes in scores.json.

    `source`: the raw files of its dataset, where they are not prepared here. Raises UsageError for
    a folder that is no such, or publishes nothing, and for data that are not those it names.
    """
    folder = Folder.read(path)
    dataset = _dataset(folder, source)
    name, run = _rankings(folder)
    texts = len({d for ranking in run.values() for d in ranking.documents}) <= _TEXTS
    with TemporaryFolder("verify") as aside:
        named = {query: [*ranking.documents, query] for query, ranking in run.items()}
        export_key(dataset, Path(aside), named, texts=texts)
        recount = Recount(folder, Key.read(Path(aside)), run, texts=texts)
        recount.protocols()
        recount.others()
    hearing = recount.hearing
    checks = [_content(folder, dataset), *_other_rankings(folder, name, run), *recount.checks()]
    notes = []
    if not texts:
        notes.append(f"more than {_TEXTS:,} documents were returned: no texts were read")
    if not hearing.means()[1]:
        raise UsageError(
            f"{folder.path / 'scores.json'}: publishes no mean, so nothing is verified"
        )
    return Verdict(
        folder,
        hearing.lines,
        checks,
        hearing.differences,
        len(hearing.numbers()),
        hearing.means(),
        hearing.not_verified(),
        notes,
    )


class Recount:
    """One use: all that a folder's numbers are made of, and the `hearing` of them."""

    def __init__(self, folder: Folder, key: Key, run: Run, *, texts: bool) -> None:
        """`run`: the rankings as their file has them; `texts`: those of documents are in `key`."""
        self._folder, self._key, self._run, self._texts = folder, key, run, texts
        clean = {q: cleaned(ranking, key.left_out(q)) for q, ranking in run.items()}
        self._repeated = sum(again for _, again in clean.values())
        outcomes = Outcomes.read(folder.path, key)
        known = {
            q: ranking
            for q, (ranking, _) in clean.items()
            if q in key.queries and q not in outcomes.failed
        }
        self._material = Material(key, outcomes, known, folder.record.k, folder.report.missing)
        self._hits: Hits | None = None
        if (folder.path / "hits.parquet").is_file():
            self._hits = read_hits(folder.path / "hits.parquet", key, folder.record.k)
        self._left_out: sections.Numbers = {}
        self._unscorable = set(key.queries)
        self.hearing = Hearing(folder, slices(key))

    def protocols(self) -> None:
        """Every protocol."""
        for index, protocol in enumerate(self._folder.report.protocols):
            slices = protocol.slices.values()
            results = [result for part in slices for result in part.metrics.items()]
            names = list(dict.fromkeys(name for name, _ in results))
            if protocol.name == "answers/1" and self._texts:
                why = self._answers(index, names)
            elif protocol.name in RULES:
                rules = RULES[protocol.name]
                one = Block(self._material, rules, protocol.level, protocol.ties)
                metrics = {name: m for name in names if (m := Metric.read(name)) is not None}
                if protocol.level == SESSIONS:
                    metrics = {name: m for name, m in metrics.items() if m.of_sessions}
                values, short = one.values(metrics)
                self.hearing.block(index, values, PLAIN, short=short)
                ties = any(result.ties for _, result in results)
                self._beside(index, one.levels(metrics, ties=ties) | {"value": values})
                why = one.why
                self._unscorable &= {q for q, reason in why.items() if reason in FOR_NO_RUN}
            else:
                continue
            for reason in {*protocol.excluded, *why.values()}:
                place = ("protocols", str(index), "excluded", reason)
                self._left_out[place] = sum(one == reason for one in why.values())

    def _answers(self, index: int, names: list[str]) -> dict[str, str]:
        texts = self._hits.texts if self._hits else document_texts(self._key, self._material.run)
        values, why = answer_values(self._material, texts, names)
        bleu = {name: v for name, v in values.items() if name.startswith("bleu")}
        plain = {name: v for name, v in values.items() if name not in bleu}
        self.hearing.block(index, plain, PLAIN)
        self.hearing.block(index, bleu, "sacrebleu")
        self._beside(index, {"value": values})
        return why

    def _beside(self, index: int, levels: dict[str, Values]) -> None:
        haystacks = {q.id: q.haystack for q in self._key.queries.values()}
        if self._key.about["split"].endswith("-as-of"):  # of whatever time, it is one haystack
            haystacks = {query: name.rpartition("@")[0] for query, name in haystacks.items()}
        self.hearing.beside(index, levels, haystacks, self._material.outcomes.failed)

    def others(self) -> None:
        """What stands beside the protocols."""
        scores, key, material = self._folder.report, self._key, self._material
        unit, run = scores.dataset.granularity, material.run
        counted = material.counted
        names = [name.partition("@") for name in _metrics(scores.knowledge_update)]
        ks = sorted({int(k) for name, _, k in names if name == "update_recall"})
        found = sections.updates(key, counted, run, ks)
        if scores.knowledge_update is not None or found["n",]:
            self.hearing.section(("knowledge_update",), "knowledge-update/1", unit, found)
        names = [name.partition("@") for name in _metrics(scores.changes)]
        ks = sorted({int(k) for _, at, k in names if at})
        found = changes.changes(key, counted, material.outcomes.replied, run, ks)
        if scores.changes is not None or any(found.values()):
            self.hearing.section(("changes",), "changes/1", unit, found)
        found = sections.abstention(key, material.outcomes, run, material.depth)
        self.hearing.section(("abstention",), "abstention/1", unit, found)
        if scores.tokens is not None and self._texts:
            costs = self._hits.costs if self._hits else sections.document_costs(key, run)
            budgets = list(scores.tokens.recall_within_budget)
            found = sections.tokens(key, counted, material.outcomes.failed, run, costs, budgets)
            self.hearing.section(("tokens",), "tokens/1", unit, found)
        if self._hits is not None and scores.hits is not None:
            self.hearing.section(("hits",), "hits", unit, self._hits.numbers)
        self.hearing.section((), "counts", unit, self._counts())

    def _counts(self) -> sections.Numbers:
        """How many queries and documents there were, of which kind."""
        key, run, outcomes = self._key, self._run, self._material.outcomes
        answered = outcomes.asked - outcomes.failed
        unknown = sum(
            document not in key.held(query)
            and not (self._hits is not None and document.startswith(UNRESOLVED))
            for query, ranking in self._material.run.items()
            for document in ranking.documents
        )
        return {
            ("depth",): self._folder.record.k,
            ("queries", "in_dataset"): len(key.queries),
            ("queries", "asked"): len(outcomes.asked),
            ("queries", "failed"): len(outcomes.failed),
            ("queries", "without_ranking"): len(answered - set(run)),
            ("queries", "unknown_in_run"): len(set(run) - set(key.queries)),
            ("unknown_documents",): unknown,
            ("repeated_documents",): self._repeated,
            **self._scorable(),
            **(self._came() if self._folder.report.returned else {}),
            **self._left_out,
        }

    def _scorable(self) -> sections.Numbers:
        """How many queries some protocol could score."""
        return {("queries", "scorable", "n"): len(self._material.outcomes.asked - self._unscorable)}

    def _came(self) -> sections.Numbers:
        """How many documents came, of the rankings of queries that were not abstained from."""
        key, outcomes, depth = self._key, self._material.outcomes, self._folder.record.k
        of = outcomes.asked - outcomes.failed - outcomes.abstained
        run = self._material.run
        sizes = {q: len(run[q].documents) for q in of & set(run) if run[q].documents}
        room = {}
        for query in sizes:
            own = key.left_out(query) in key.held(query)
            room[query] = min(depth - own, key.size(query))
        cut = {
            int(name.rpartition("@")[2])
            for protocol in self._folder.report.protocols
            if protocol.name in RULES and protocol.level != SESSIONS
            for part in protocol.slices.values()
            for name in part.metrics
            if "@" in name
        }
        ended = {k: sum(n < min(k, room[q]) for q, n in sizes.items()) for k in sorted(cut)}
        beyond = [k for k, n in ended.items() if 10 * n > len(sizes)]
        return {
            ("returned", "rankings"): len(sizes),
            ("returned", "mean"): sum(sizes.values()) / len(sizes) if sizes else None,
            ("returned", "min"): min(sizes.values(), default=None),
            ("returned", "shorter"): sum(n < room[q] for q, n in sizes.items()),
            **{("returned", "unreached_cutoffs", str(i)): k for i, k in enumerate(beyond)},
        }

    def checks(self) -> Iterator[Check]:
        """What belongs together, beside the numbers."""
        folder, material = self._folder, self._material
        yield signature_check(folder, material.counted, list(self._key.queries))
        returned = material.outcomes.returned
        if returned and self._hits is None:
            sizes = {q: len(self._run[q].documents) if q in self._run else 0 for q in returned}
            odd = [q for q, n in returned.items() if sizes[q] != n]
            found = f"{sum(returned.values()):,} documents returned, as many as the rankings hold"
            if odd:
                found = f"{odd[0]!r} got {returned[odd[0]]}, its ranking holds {sizes[odd[0]]}"
            yield Check("queries.parquet", not odd, found)
        if self._hits is not None:
            odd = same_rankings(self._hits, self._run)
            found = f"the rankings are what it makes, {len(self._hits.rankings)} queries"
            if odd:
                found = f"makes other rankings; queries: {len(odd)}, first {odd[0]!r}"
            yield Check("hits.parquet", not odd, found)


def _metrics(section: KnowledgeUpdateResult | ChangesResult | None) -> Iterable[str]:
    return section.values if section is not None else ()


def _dataset(folder: Folder, source: str | None) -> Dataset:
    """The dataset that run.json names, by its content. Raises UsageError where it is another's."""
    about = folder.record.dataset
    name, fingerprint = about.name, about.fingerprint
    dataset = None if source else open_prepared(name, fingerprint)
    if dataset is None:
        dataset = open_dataset(
            name, source=source, granularity=about.granularity, text=about.text, split=about.split
        )
    if not dataset.fingerprint.startswith(fingerprint):
        raise UsageError(
            f"{folder.path}: was run on {name} {fingerprint[:8]}, but here it is "
            f"{dataset.fingerprint[:8]}; give the same raw files with --source"
        )
    return dataset


def _rankings(folder: Folder) -> tuple[str, Run]:
    """The rankings by the first of FILES that is there, and its name. Raises UsageError."""
    for name in FILES:
        if (folder.path / name).is_file():
            return name, read_run(folder.path / name)
    texts = "; texts are matched by `harness leaderboard add`"
    more = texts if (folder.path / "hits.jsonl").is_file() else ""
    needed = ", ".join(FILES)
    raise UsageError(f"{folder.path}: holds no rankings; one of {needed} is needed{more}")


def _content(folder: Folder, dataset: Dataset) -> Check:
    """Whether the prepared dataset is, byte by byte, the one that scores.json names.

    That run.json names it was asked before.
    """
    content, said, manifest = verify_content(dataset)[0], folder.report.dataset, dataset.manifest
    for name in ("name", "granularity", "text", "split", "fingerprint"):
        if (published := getattr(said, name)) != getattr(manifest, name):
            found = f"{name} is {published} in scores.json, {getattr(manifest, name)} in the data"
            return Check("dataset", False, found)
    found = f"{dataset.name}, content as its fingerprint {dataset.fingerprint[:8]} says"
    return Check("dataset", content.ok, found if content.ok else content.message)


def _other_rankings(folder: Folder, first: str, run: Run) -> Iterator[Check]:
    """Whether the other files of rankings hold the same."""
    for name in FILES:
        if name == first or not (folder.path / name).is_file():
            continue
        different = differing(run, read_run(folder.path / name))
        found = f"as in {first}, {len(run)} queries"
        if different:
            found = f"not as in {first}; queries: {len(different)}, first {different[0]!r}"
        yield Check(name, not different, found)
