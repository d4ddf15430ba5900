"""The signature of a number: one short string with everything that could change it.

`recall@10|protocol:memory/1|data:locomo#ff853148|unit:turn|text:official|split:test|slice:all|
n:1982|ties:order|depth:50|missing:zero|v:0.1.0`. Two numbers compare when their signatures agree.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from harness.errors import UsageError

_MEANING = {
    "metric": "what was computed, and its cut-off; its formula is in harness/scoring/metrics",
    "protocol": "which queries count, by which answer key and rules; the number is its version",
    "data": "dataset, and the first digits of its content's fingerprint",
    "unit": "what a document is (granularity); `turn>session` is turns scored as sessions",
    "text": "which text of a document was shown",
    "split": "which part of the dataset",
    "slice": "which of the scored queries the mean is over",
    "n": "how many queries that is",
    "ties": "order of equal scores: trec (float32, id descending), trec64, or order as returned",
    "depth": "how many documents a ranking could hold",
    "missing": "what a query without a ranking counts: zero, or skip (left out)",
    "v": "version of the harness",
}


@dataclass(frozen=True)
class Signature:
    """The parts of a signature, in the order in which they are printed."""

    metric: str
    protocol: str
    data: str
    unit: str
    text: str
    split: str
    slice: str
    n: int
    ties: str
    depth: int
    missing: str
    v: str

    def __str__(self) -> str:
        parts = [f"{f.name}:{getattr(self, f.name)}" for f in fields(self)[1:]]
        return "|".join([self.metric, *parts])

    @classmethod
    def parse(cls, text: str) -> Signature:
        """The inverse of `str()`. Raises UsageError for anything that is not a signature."""
        metric, *parts = text.strip().split("|")
        values: dict[str, str] = dict(part.split(":", 1) for part in parts if ":" in part)
        missing = [f.name for f in fields(cls)[1:] if f.name not in values]
        unknown = [name for name in values if name not in _MEANING]
        if missing or unknown or not metric:
            raise UsageError(
                f"not a signature: {f'lacks {missing[0]!r}' if missing else f'has {unknown}'}; "
                "paste the whole string, in quotes"
            )
        try:
            numbers = {"n": int(values["n"]), "depth": int(values["depth"])}
        except ValueError as error:
            raise UsageError(f"not a signature: n and depth must be numbers ({error})") from None
        return cls(metric, **{**values, **numbers})  # type: ignore[arg-type]

    def explain(self) -> list[tuple[str, str, str]]:
        """(part, value, meaning) of every part."""
        return [(f.name, str(getattr(self, f.name)), _MEANING[f.name]) for f in fields(self)]
