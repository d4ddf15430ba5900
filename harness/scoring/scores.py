"""What scoring found: `scores["recall@10"]`, `scores["recall@10", "temporal"]`, tables of it all.

`summary` is what stands in scores.json: protocols x slices x metrics, each cell with its value, n,
interval, chance, ceiling and signature. The rest of this file only looks things up in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.errors import UsageError, near
from harness.schema import Ability

if TYPE_CHECKING:
    from pandas import DataFrame

Block = Mapping[str, Any]
"""One protocol at one unit, as it stands in `summary["protocols"]`."""

MAIN = ("recall@10", "hit@10", "ndcg@10", "mrr@10")
"""The metrics that a run is read by in one line, where they were scored."""

MAIN_OF_ANSWERS = ("accuracy", "f1", "token_f1")
"""The same of answers."""


@dataclass(frozen=True, repr=False)
class Scores:
    """Scores of one run on one dataset.

    `scores[metric]`, `scores[metric, slice]` and `scores[metric, slice, protocol]` are numbers.
    `metric` is a name as printed (`recall@10`). `slice` is `all` by default, `answerable`, an
    ability, or a category of the dataset. `protocol` is a name (`trec`, `locomo-official`), with
    `:turn>session` behind it for rankings of turns scored as sessions; by default the one that
    `harness run` shows by ability. NaN is a mean over nothing.

    `summary` is plain JSON values, `per_query` one row a query and protocol, `left_out` the ids
    that a protocol did not score, by protocol and reason.
    """

    summary: dict[str, Any]
    per_query: pa.Table
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        """A mean. Raises UsageError, with the near names, for one that was not scored."""
        value = self.cell(*((key,) if isinstance(key, str) else key))["value"]
        return math.nan if value is None else float(value)

    def cell(self, metric: str, slice: str = "all", protocol: str = "") -> dict[str, Any]:
        """A number with all that belongs to it: `value`, `n`, `interval`, `chance`, `signature`...

        Raises UsageError, with the near names, for one that was not scored.
        """
        block = self._block(protocol)
        if slice not in block["slices"]:
            raise UsageError(f"no slice {slice!r}{near(slice, list(block['slices']))}")
        metrics = block["slices"][slice]["metrics"]
        if metric not in metrics:
            raise UsageError(f"no metric {metric!r} was scored{near(metric, list(metrics))}")
        found: dict[str, Any] = metrics[metric]
        return found

    @property
    def protocols(self) -> list[str]:
        """Names of what was scored, as the third part of a key."""
        return [_name(block) for block in self.summary["protocols"]]

    @property
    def slices(self) -> list[str]:
        """Slices of the default protocol."""
        return list(self._block("")["slices"])

    @property
    def metrics(self) -> list[str]:
        """Metrics of the default protocol."""
        return list(self._block("")["slices"]["all"]["metrics"])

    def to_arrow(self) -> pa.Table:
        """Every cell as a row: protocol, slice, metric, value, n, low, high, chance, ceiling,
        signature. What a cell does not have is null."""
        return pa.Table.from_pylist(list(self._rows()), _COLUMNS)

    def to_pandas(self) -> DataFrame:
        """The rows of `to_arrow` as a data frame; needs pandas, which the harness does not bring.

        Raises UsageError where pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise UsageError("to_pandas needs pandas: pip install pandas, or take to_arrow()")
        frame: DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        """What a person wants to see first, in a few lines; never all of it."""
        of = self.summary.get("dataset", {})
        head = f"Scores on {of.get('name', '?')}, {of.get('granularity', '?')}"
        blocks = self.summary["protocols"]
        if not blocks:
            return f"<{head}: nothing could be scored>"
        main = self._block("")
        cells = all_cells(main)
        names = [name for name in MAIN if name in cells] or list(cells)[:4]
        shown = "  ".join(f"{name} {_digits(cells[name]['value'])}" for name in names)
        n = main["slices"].get("all", {"n": 0})["n"]
        others = [name for name in self.protocols if name != _name(main)]
        also = f"; also {', '.join(others)}" if others else ""
        return f"<{head}; {_name(main)}, n {n}: {shown}{also}>"

    def _block(self, protocol: str) -> Block:
        """The block of a protocol; the default one for an empty name. Raises UsageError."""
        blocks: Sequence[Block] = self.summary["protocols"]
        of_name = (b for b in blocks if protocol in (_name(b), f"{b['protocol']}/{b['version']}"))
        found: Block | None = next(of_name, None) if protocol else main_block(blocks)
        if found is None:
            raise UsageError(f"no protocol {protocol!r} was scored{near(protocol, self.protocols)}")
        return found

    def _rows(self) -> Iterator[dict[str, Any]]:
        for block in self.summary["protocols"]:
            for slice_, part in block["slices"].items():
                for metric, cell in part["metrics"].items():
                    interval = cell.get("interval") or {}
                    yield {
                        "protocol": _name(block),
                        "slice": slice_,
                        "metric": metric,
                        "low": interval.get("low"),
                        "high": interval.get("high"),
                        **{name: cell.get(name) for name in _OF_CELL},
                    }


_OF_CELL = ("value", "n", "chance", "ceiling", "signature")
_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("protocol", "slice", "metric")),
        ("value", pa.float64()),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("low", "high", "chance", "ceiling")),
        ("signature", pa.string()),
    ]
)


def main_block(blocks: Sequence[Block]) -> Any:
    """The block to show by ability: `memory` where there are several abilities, else `trec`; of
    answers the last judge's, else LoCoMo's, else that of plain texts."""
    if blocks and blocks[0]["unit"] == "answer":
        judges = [block for block in blocks if block["protocol"].startswith("judge:")]
        return [blocks[0], *blocks[1:2], *judges][-1]
    by_name = {b["protocol"]: b for b in reversed(blocks) if b["unit"] != "turn>session"}
    memory = by_name.get("memory")
    abilities = [s for s in (memory["slices"] if memory else {}) if s in set(Ability)]
    if memory and (len(abilities) > 1 or "trec" not in by_name):
        return memory
    return by_name.get("trec") or next(iter(blocks), None)


def all_cells(block: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a block over all its queries, by metric; none where nothing was scored."""
    found: dict[str, Any] = block["slices"].get("all", {"metrics": {}})["metrics"]
    return found


def range_over_judges(blocks: Sequence[Block]) -> tuple[float, float] | None:
    """The least and the largest accuracy that one set of answers has, by whom it is judged; None
    where fewer than two judges did. People, who saw a sample, are none of them."""
    judged = [all_cells(one) for one in blocks if one["protocol"].startswith("judge:")]
    found = [
        cells["accuracy"]["value"]
        for cells in judged
        if cells.get("accuracy", {}).get("value") is not None
    ]
    return (min(found), max(found)) if len(found) > 1 else None


def main_metrics(
    cells: Mapping[str, Any], asked: Sequence[str] = (), main: Sequence[str] = MAIN
) -> list[str]:
    """The main metrics among those of a slice, then those that were asked for by name.

    Where there is none at 10, for the list has other cut-offs, the deepest of each family.
    """
    found = []
    for name in main:
        family = name.partition("@")[0]
        deep = [m for m in cells if m.partition("@")[0] == family and m.partition("@")[2]]
        deepest = max(deep, key=lambda m: int(m.partition("@")[2]), default=None)
        if name in cells:
            found.append(name)
        elif deepest is not None:
            found.append(deepest)
    if not found:
        found = [name for name in MAIN_OF_ANSWERS if name in cells][:1]
    return list(dict.fromkeys([*found, *(name for name in asked if name in cells)]))


def _name(block: Block) -> str:
    unit = ":turn>session" if block["unit"] == "turn>session" else ""
    return f"{block['protocol']}{unit}"


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
