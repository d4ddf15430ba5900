"""What stands below a table of a comparison: how it was made, and how it is to be read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from harness.analysis.compare.comparison import Cell, Family, Table
from harness.scoring.results import counted, named
from harness.stats.intervals import METHOD_NAMES


def foot(table: Table, cells: Sequence[Cell]) -> str:
    """What stands below a table of these cells, in lines."""
    lines = _intervals(table, cells)
    if cells[0].pairs:
        scopes = dict.fromkeys(
            f"{_scope(family)} ({counted(family.tests, 'tests')})" for family in table.families
        )
        how = table.families[0].correction
        lines.append(f"p: randomisation test; {how} within each metric, {', '.join(scopes)}")
        lines.append(
            "*: a difference is shown. Without it none was shown, which is not the same as none: "
            "`detectable` is the smallest that one t test could have shown at 80% power, before "
            "that correction (-: none, with so few that differ and so many tests); effect size is "
            "Cohen's d_z"
        )
        lines += _what_each_answers(table, cells)
        if cells[0].pairs[0].others or cells[0].pairs[0].equivalence:
            lines.append("the p of other tests are not corrected")
        queries_in_haystacks = table.cluster_by == "haystacks" and table.average == "queries"
        if "wilcoxon" in cells[0].pairs[0].others and queries_in_haystacks:
            lines.append("p (wilcoxon): takes queries for independent, which they are not here")
        if cells[0].pairs[0].equivalence:
            lines.append("within: two one-sided tests that the difference is smaller than that")
            said = [
                pair.equivalence.note for cell in cells for pair in cell.pairs if pair.equivalence
            ]
            lines += [f"   {note}" for note in _merged(said, table.cluster_by)]
    return "\n".join(lines)


def _scope(family: Family) -> str:
    """`all queries` or `by slice`."""
    return family.name.rpartition(", ")[2]


def _what_each_answers(table: Table, cells: Sequence[Cell]) -> list[str]:
    """Why an interval may leave 0 out where no difference is shown, and what to do about it."""
    pairs = [pair for cell in cells for pair in cell.pairs]
    if not any(pair.found.wins or pair.found.losses for pair in pairs):
        return ["no difference to be shown: the runs tie on every query here"]
    alpha = 1 - cells[0].means[0].level
    hopeless = _hopeless(table, {pair.family for pair in pairs}, alpha)
    lines = [*hopeless]
    least = min(pair.found.test.smallest for pair in pairs)
    if not hopeless and least > alpha:
        lines.append(
            f"no difference can be shown here: so few {table.cluster_by} differ that no p is below "
            f"{least:.3g}"
        )
    ends = [(pair.found.difference, pair.shown) for pair in pairs]
    if any((d.low > 0 or d.high < 0) and not shown for d, shown in ends):
        lines.append(
            "where an interval leaves 0 out and yet nothing is shown: the interval is for that "
            f"difference alone, and takes the means of {table.cluster_by} for normal; p only asks "
            "how often the signs would fall so by chance, and is corrected for all tests of "
            "its family"
        )
    if table.cluster_by == "haystacks" and (hopeless or not any(pair.shown for pair in pairs)):
        more = "more haystacks would show more"
        if table.average == "queries":
            questions = counted(max(cell.means[0].n for cell in cells), "questions")
            clusters = counted(table.clusters, table.cluster_by)
            more += (
                f". `--cluster-by queries` tests {questions} instead of {clusters}: right only "
                "for these very haystacks, and if questions to one of them are independent"
            )
        lines.append(more)
    return lines


def _hopeless(table: Table, names: Collection[str], alpha: float) -> list[str]:
    """Where so few units could show nothing beside so many tests, however they differed."""
    scopes: dict[str, Family] = {}
    for family in table.families:
        if family.name in names:
            best = scopes.setdefault(_scope(family), family)
            scopes[_scope(family)] = min(best, family, key=lambda one: one.least)
    found = {scope: family for scope, family in scopes.items() if family.least > alpha}
    if len(found) == len(scopes):
        found = {"here": min(found.values(), key=lambda one: one.least)}
    lines = []
    for scope, family in found.items():
        beside = f", corrected for {family.tests} tests," if family.tests > 1 else ""
        clusters = counted(family.clusters, table.cluster_by)
        lines.append(
            f"no difference can be shown {scope}: of {clusters} no p{beside} is below "
            f"{family.least:.3g}, however much they differ"
        )
    return lines


def _intervals(table: Table, cells: Sequence[Cell]) -> list[str]:
    """How the intervals were made, means and differences; each way once."""
    every = [mean for cell in cells for mean in cell.means]
    every += [pair.found.difference for cell in cells for pair in cell.pairs]
    made = [one for one in every if one.method != "none"]
    lines = []
    if made:
        # How many, and how many equal ones they are worth, differs from slice to slice.
        ways = dict.fromkeys(f"{METHOD_NAMES[one.method]} over {table.cluster_by}" for one in made)
        notes = _merged([one.note for one in made if one.approximate], table.cluster_by)
        approximate = f"; approximate where {'; '.join(notes[:3])}" if notes else ""
        lines.append(f"intervals: {'; '.join(ways)}{approximate}")
    without = _merged(
        [one.note for one in every if one.method == "none" and one.n], table.cluster_by
    )
    return [*lines, *without]


def _merged(notes: Sequence[str], cluster_by: str) -> list[str]:
    """Notes in words of what they are over; of those that differ in numbers, the least."""
    least: dict[str, tuple[float, str]] = {}
    for note in dict.fromkeys(filter(None, notes)):
        numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", note)]
        said = min(numbers, default=0.0), named(note, cluster_by)
        kind = re.sub(r"\d+(?:\.\d+)?", "", note)
        least[kind] = min(least.get(kind, said), said)
    return [said for _, said in least.values()]
