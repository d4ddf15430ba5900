"""What installed packages add by name: `names(group)`, `find(group, name)` and `load(entry, kind)`.

Our own extensions are entry points too (pyproject.toml), so that the core imports none of them, and
another package adds a retriever, a command or a run format exactly as they do.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.errors import HarnessError, PluginError, UsageError
from harness.io.plugins import FAILURES, preserve_process_state, raised_at

OURS = "harness."
"""How the value of an entry point of ours begins."""

PROVIDERS = "harness.providers"
"""The group of functions that the core calls by name, and extensions provide."""


def find(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of that name, ours before another package's; None without one.

    Raises UsageError where two other packages add the same name.
    """
    entries = {entry.value: entry for entry in entry_points(group=group, name=name)}
    ours = [entry for entry in entries.values() if is_ours(entry)]
    if not ours and len(entries) > 1:
        packages = " and ".join(sorted(map(package_of, entries.values())))
        raise UsageError(f"{group}: {name!r} is declared by {packages}; uninstall one of them")
    return next(iter(ours or entries.values()), None)


def names(group: str) -> list[str]:
    """Return the names in a group: ours, sorted, then those of other packages, sorted."""
    entries = {(not is_ours(entry), entry.name) for entry in entry_points(group=group)}
    return list(dict.fromkeys(name for _, name in sorted(entries)))


def load(entry: EntryPoint, kind: str) -> Any:
    """Import what an entry point names; `kind` is what a message calls it.

    Raises PluginError, in one line that names the package, where the import fails.
    """
    try:
        with preserve_process_state():
            return entry.load()
    except HarnessError:
        raise
    except FAILURES as error:
        raise failure(entry, kind, f"{entry.value}: {raised_at(error)}") from error


def failure(entry: EntryPoint, kind: str, reason: str) -> PluginError:
    """Return the error of what an entry point names; its line names the package."""
    return PluginError(f"{kind} {entry.name!r} of the package {package_of(entry)}: {reason}")


def load_all(group: str, kind: str) -> list[Any]:
    """Import everything in a group, in the order of `names`. Raises what `find` and `load` do."""
    entries = (find(group, name) for name in names(group))
    return [load(entry, kind) for entry in entries if entry is not None]


def provided(name: str) -> Any:
    """Return what an extension provides under a name, such as a function of vectors of texts.

    Raises UsageError where no installed package provides it.
    """
    found = provided_or_none(name)
    if found is None:
        raise UsageError(f"no installed package provides {name!r} (entry point group {PROVIDERS})")
    return found


def provided_or_none(name: str) -> Any | None:
    """Return what an extension provides under a name; None where none is installed."""
    entry = find(PROVIDERS, name)
    return None if entry is None else load(entry, "provider")


def is_ours(entry: EntryPoint) -> bool:
    """Return whether an entry point belongs to this distribution."""
    return entry.value.startswith(OURS)


def package_of(entry: EntryPoint) -> str:
    """Return the name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
