"""Every number of a folder, made again and held against what is published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.verdicts.verify import sections
from harness.verdicts.verify.blocks import SESSIONS, Block, Material, Values, answer_values
from harness.verdicts.verify.formulas import Metric
from harness.verdicts.verify.hearing import PLAIN, Hearing
from harness.verdicts.verify.key import Key, Outcomes
from harness.verdicts.verify.published import (
    Check,
    Folder,
    average_check,
    left_out_check,
    signature_check,
)
from harness.verdicts.verify.rankings import Run, cleaned
from harness.verdicts.verify.rules import RULES, slices
from harness.verdicts.verify.texts import (
    UNRESOLVED,
    Hits,
    document_texts,
    read_hits,
    same_rankings,
)
from harness.verdicts.verify.trec_eval import Tool, can_carry, write


class Recount:
    """One use: all that a folder's numbers are made of, and the `hearing` of them."""

    def __init__(self, folder: Folder, key: Key, run: Run, *, texts: bool) -> None:
        """`run`: the rankings as their file has them; `texts`: those of documents are in `key`."""
        self._folder, self._key, self._run, self._texts = folder, key, run, texts
        clean = {q: cleaned(ranking, key.left_out(q)) for q, ranking in run.items()}
        self._repeated = sum(again for _, again in clean.values())
        known = {q: ranking for q, (ranking, _) in clean.items() if q in key.queries}
        outcomes = Outcomes.read(folder.path, key)
        self._material = Material(key, outcomes, known, folder.depth, folder.missing)
        self._hits: Hits | None = None
        if (folder.path / "hits.parquet").is_file():
            self._hits = read_hits(folder.path / "hits.parquet", key, folder.depth)
        self._members = slices(key)
        self._left_out: list[Check] = []
        self.hearing = Hearing(folder, self._members)

    def protocols(self, witnesses: Sequence[Tool], keep: Path | None) -> None:
        """Every protocol, by everybody who has its metrics.

        `keep`: where its judgements and rankings are left as trec_eval reads them.
        """
        told = set()
        for index, block in enumerate(self._folder.scores["protocols"]):
            cells = [cell for part in block["slices"].values() for cell in part["metrics"].items()]
            names = list(dict.fromkeys(name for name, _ in cells))
            protocol = block["protocol"]
            if protocol == "answers" and block["version"] == 1:
                why = self._answers(index, names) if self._texts else None
            else:
                rule = RULES.get(f"{protocol}/{block['version']}")
                if rule is None:
                    continue
                one = Block(self._material, rule, block["unit"], block["ties"])
                metrics = {name: m for name in names if (m := Metric.read(name)) is not None}
                values, short = one.values(metrics)
                self.hearing.block(index, values, PLAIN, short=short)
                for witness in witnesses:
                    found = one.by(witness, metrics)
                    self.hearing.block(index, found, witness.name, decimals=witness.decimals)
                if keep is not None and block["unit"] != SESSIONS:
                    cases = one.cases(own_scores=block["ties"] != "order")
                    if can_carry(cases):
                        write(cases, keep, protocol)
                ties = any("ties" in cell for _, cell in cells)
                self._beside(index, one.levels(metrics, ties=ties) | {"value": values})
                why = one.why
            if why is None:
                continue
            self.hearing.verified |= {
                ("protocols", str(index), "left_out", reason) for reason in block["left_out"]
            }
            if protocol not in told:
                told.add(protocol)
                self._left_out.append(left_out_check(self._folder, protocol, why))

    def _answers(self, index: int, names: list[str]) -> dict[str, str]:
        texts = self._hits.texts if self._hits else document_texts(self._key, self._material.run)
        self._material.texts = texts
        values, why = answer_values(self._material, names)
        bleu = {name: v for name, v in values.items() if name.startswith("bleu")}
        plain = {name: v for name, v in values.items() if name not in bleu}
        self.hearing.block(index, plain, PLAIN)
        self.hearing.block(index, bleu, "sacrebleu")
        self._beside(index, {"value": values})
        return why

    def _beside(self, index: int, levels: dict[str, Values]) -> None:
        haystacks = {q.id: q.haystack for q in self._key.queries.values()}
        self.hearing.beside(index, levels, haystacks)

    def others(self) -> None:
        """What stands beside the protocols."""
        scores, key, material = self._folder.scores, self._key, self._material
        unit, run = scores["dataset"]["granularity"], material.run
        counted = material.counted
        names = [name.partition("@") for name in scores["knowledge_update"] or ()]
        ks = sorted({int(k) for name, _, k in names if name == "newest_found"})
        found = sections.updates(key, counted, run, ks)
        if scores["knowledge_update"] is not None or found["n",]:
            self.hearing.section(("knowledge_update",), "knowledge-update/1", unit, found)
        found = sections.abstention(key, material.outcomes, run, material.depth)
        self.hearing.section(("abstention",), "abstention/1", unit, found)
        if scores["tokens"] is not None and self._texts:
            costs = self._hits.costs if self._hits else sections.document_costs(key, run)
            budgets = list(scores["tokens"].get("recall_within_budget", {}))
            found = sections.tokens(key, counted, run, costs, budgets)
            self.hearing.section(("tokens",), "tokens/1", unit, found)
        if self._hits is not None and "hits" in scores:
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
            ("depth",): self._folder.depth,
            ("queries", "in_dataset"): len(key.queries),
            ("queries", "asked"): len(outcomes.asked),
            ("queries", "failed"): len(outcomes.failed),
            ("queries", "without_ranking"): len(answered - set(run)),
            ("queries", "unknown_in_run"): len(set(run) - set(key.queries)),
            ("unknown_documents_in_run",): unknown,
            ("repeated_documents_in_run",): self._repeated,
        }

    def checks(self) -> Iterator[Check]:
        """What belongs together, beside the numbers."""
        folder, material = self._folder, self._material
        yield signature_check(folder, material.counted, list(self._key.queries))
        average = average_check(folder, self._members)
        if average is not None:
            yield average
        yield from self._left_out
        returned = material.outcomes.returned
        if returned and self._hits is None and "rankings_from" not in folder.record:
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
                found = f"makes other rankings for {len(odd)} queries, first {odd[0]!r}"
            yield Check("hits.parquet", not odd, found)
