"""Tables of what the registries hold: datasets, retrievers and protocols."""

from __future__ import annotations

import inspect
from typing import Any

from command_pages import text


def datasets() -> str:
    """Every dataset that can be listed, as `harness datasets` has it."""
    from harness.datasets.registry import iter_configs

    rows = []
    for name, variant in iter_configs():
        size = _size(variant.bytes) if variant.bytes else "-"
        views = "; ".join(
            f"{what} {', '.join(f'`{one}`' for one in values)}"
            for what, values in (
                ("", variant.granularities),
                ("text", variant.texts),
                ("split", variant.splits),
            )
            if len(values) > (1 if what else 0)
        )
        rows.append((f"`{name}`", text(variant.about), views.strip(), size, text(variant.licence)))
    return table(("name", "what it is", "documents, texts, splits", "download", "licence"), rows)


def retrievers() -> str:
    """Every retriever that has a name, as `harness retrievers` has it."""
    from harness.io.packages import EXTRAS
    from harness.retrievers.registry import find, names, parameters

    parts = []
    for name in names():
        factory = find(name)
        about = inspect.getdoc(factory) or ""
        extras = sorted({EXTRAS[m] for m in getattr(factory, "modules", ()) if m in EXTRAS})
        parts += [f"## `{name}`", "", text(about), ""]
        if extras:
            wanted = ", ".join(extras)
            parts += [f"Needs `pip install -e '.[{wanted}]'`.", ""]
        rows = [
            (f"`{p.name}`", "required" if p.default is p.empty else f"`{_value(p.default)}`")
            for p in parameters(factory)
            if p.kind is not p.VAR_KEYWORD
        ]
        if rows:
            parts += [table(("`--param`", "default"), rows), ""]
        if any(p.kind is p.VAR_KEYWORD for p in parameters(factory)):
            parts += ["Further parameters are handed on to the class or function behind it.", ""]
    return "\n".join(parts)


def aliases() -> str:
    """Names that other tools use, and ours."""
    from harness.scoring.metrics import ALIASES

    return table(("name", "is"), [(f"`{name}`", f"`{ours}`") for name, ours in ALIASES.items()])


def metrics(*heading: str) -> str:
    """The metrics of a section, with formula and source."""
    from harness.scoring.metrics import METRICS
    from harness.scoring.metrics.described import DESCRIBED

    rows = [
        (f"`{one.name}`", one.formula, one.unit, one.source, one.elsewhere)
        for one in (*METRICS.values(), *DESCRIBED)
        if one.section == " ".join(heading)
    ]
    return table(("metric", "formula", "values", "source", "elsewhere"), rows)


def protocol(name: str) -> str:
    """The data of one protocol: metrics, cut-offs, answer key, order of ties, source."""
    from harness.scoring.protocols import PROTOCOLS

    one = PROTOCOLS[name]
    cut_offs = ", ".join(map(str, one.ks)) + (" (fixed)" if one.fixed_ks else "")
    rows = [
        ("version", str(one.version)),
        ("metrics", ", ".join(f"`{metric.format(k='k')}`" for metric in one.metrics)),
        ("cut-offs k", cut_offs),
        ("answer key", f"`{one.key}`"),
        ("order of equal scores", f"`{one.ties}`"),
        ("queries without an answer", "scored" if one.unanswerable else "left out"),
        ("queries without a judgement", "left out" if one.judged or one.relevant else "kept"),
        (
            "queries with nothing relevant",
            "left out"
            if one.relevant
            else "; ".join(f"`{m}` is {value:g}" for m, value in one.empty.items()) or "count 0",
        ),
    ]
    if one.session_metrics:
        names = ", ".join(f"`{metric.format(k='k')}`" for metric in one.session_metrics)
        rows.append(("turns scored as sessions", names))
    if one.source:
        rows.append(("after", text(one.source)))
    return table(("", f"`{one.name}/{one.version}`"), rows)


def table(heads: tuple[str, ...], rows: list[Any]) -> str:
    """A Markdown table."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _size(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
