"""Names of datasets: `family` or `family/variant`. Nothing is imported before it is named.

Families come from `BUILT_IN` (shipped with the harness), from the entry point group
`harness.adapters` of any installed package, and from `@register_adapter` in a plug-in file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from harness.datasets.adapter import Adapter, Variant, by_name
from harness.errors import UsageError, near
from harness.io import plugins

ENTRY_POINTS = "harness.adapters"

BUILT_IN = {
    "sample": "harness.datasets.adapters.sample",
    "changes": "harness.datasets.adapters.changes",
    "longmemeval": "harness.datasets.adapters.longmemeval",
    "locomo": "harness.datasets.adapters.locomo",
    "beam": "harness.datasets.adapters.beam",
    "realtalk": "harness.datasets.adapters.realtalk",
    "realmem": "harness.datasets.adapters.realmem",
    "beir": "harness.datasets.adapters.beir",
    "msmarco": "harness.datasets.adapters.msmarco",
    "mteb": "harness.datasets.adapters.mteb",
    "ir": "harness.datasets.adapters.ir",
    "labelled": "harness.datasets.adapters.labelled",
}
"""Module of each family that comes with the harness; data, so that no adapter is imported here."""

_registered: dict[str, type[Adapter]] = {}


def register_adapter(family: str) -> Callable[[type[Adapter]], type[Adapter]]:
    """Class decorator that makes an adapter known under `family` in this process."""

    def register(adapter: type[Adapter]) -> type[Adapter]:
        _registered[family] = adapter
        return adapter

    return register


def families() -> list[str]:
    """All known families: those that come with the harness, then others, sorted."""
    others = {*_registered, *plugins.names(ENTRY_POINTS)}
    return [*BUILT_IN, *sorted(others - set(BUILT_IN))]


def adapter(family: str) -> Adapter:
    """The adapter of a family. Raises UsageError, with the near names, when there is none."""
    if family in BUILT_IN and family not in _registered:
        import_module(BUILT_IN[family])
    if family not in _registered:
        entry = plugins.find(ENTRY_POINTS, family)
        if entry is not None:
            _registered.setdefault(family, plugins.load(entry, "adapter"))
    if family not in _registered:
        raise UsageError(f"unknown dataset {family!r}{near(family, families())}")
    return _registered[family]()


def find(name: str) -> tuple[Adapter, Variant, str]:
    """The adapter, the variant and the full name that `name` stands for.

    Raises UsageError for a name that is not known, with the near ones.
    """
    family, _, rest = name.partition("/")
    found = adapter(family)
    own = getattr(found, "variant", None)
    variant = by_name(found.variants(), rest) if own is None else own(rest)
    if variant is None:
        known = [v.name for v in found.variants()]
        raise UsageError(f"unknown dataset {name!r} of the family {family!r}{near(rest, known)}")
    return found, variant, full_name(family, variant)


def full_name(family: str, variant: Variant) -> str:
    """`family` or `family/variant`."""
    return f"{family}/{variant.name}" if variant.name else family


def listing() -> Iterator[tuple[str, Variant]]:
    """Every dataset that can be listed, with its full name."""
    for family in families():
        for variant in adapter(family).variants():
            yield full_name(family, variant), variant
