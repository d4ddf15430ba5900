"""Loads plug-in files, once per process, and entry points of other packages.

The harness's own extensions are entry points too (pyproject.toml): the core imports none of them,
and other packages add retrievers, commands or run formats in the same way.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, PluginError, UsageError
from harness.io.masking import redact

PLUGIN_MODULE = "harness_plugin_"
"""Name prefix of modules loaded from a file."""

registered: dict[str, Callable[..., Any]] = {}
registered_in: dict[str, Path] = {}  # the file that registered a name, if any
_loading: list[Path] = []


def register_retriever(name: str) -> Callable[[Any], Any]:
    """Returns a decorator that registers a class or a function as `name` in this process."""

    def register(factory: Any) -> Any:
        registered[name] = factory
        if _loading:
            registered_in[name] = _loading[0]
        return factory

    return register


FAILURES = (Exception, SystemExit, GeneratorExit)
"""Exceptions of third-party code that do not end the run, unlike KeyboardInterrupt."""


def load_file(path: Path) -> Any:
    """Imports a Python file once per process. Raises UsageError if it is missing or fails."""
    path = path.expanduser().absolute()
    if not path.is_file():
        raise PluginError(f"{path}: no such Python file")
    name = module_name(path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        if str(path.parent) not in sys.path:  # it may import files of its folder
            sys.path.append(str(path.parent))
        _loading.append(path)
        try:
            with preserve_process_state():
                spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, SyntaxError):
                raise PluginError(f"{path}, line {error.lineno}: {error.msg}") from None
            if isinstance(error, HarnessError) or not isinstance(error, FAILURES):
                raise
            raise PluginError(f"plug-in {path}: {describe_error(error)}") from error
        finally:
            _loading.pop()
    return sys.modules[name]


def module_name(path: Path) -> str:
    """Returns the module name of a file in this process."""
    path = path.expanduser().absolute()
    return f"{PLUGIN_MODULE}{path.stem}_{abs(hash(str(path))):x}"


def iter_strings(given: Any) -> Iterator[str]:
    """Yields every text in a name and its parameters, at any depth; splits `a,b`."""
    if isinstance(given, str):
        yield from (one.strip() for one in given.split(","))
    elif isinstance(given, Mapping | Sequence):
        for one in given.values() if isinstance(given, Mapping) else given:
            yield from iter_strings(one)


def public_names(module: Any) -> list[str]:
    """Returns the names of classes and functions that a module defines itself."""
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return [name for name in own if not name.startswith("_")]


@contextmanager
def preserve_process_state() -> Iterator[None]:
    """Restores the working directory and standard streams after plug-in code; exits forks."""
    before, own = (os.getcwd(), sys.stdout, sys.stderr), os.getpid()
    try:
        yield
    finally:
        exit_if_forked(own)
        os.chdir(before[0])
        _, sys.stdout, sys.stderr = before


def exit_if_forked(own: int) -> None:
    """Exits the process if it is not `own`, that is, a fork made by code under test."""
    if os.getpid() != own:
        os._exit(1)


def describe_error(error: BaseException) -> str:
    """Formats an error of third-party code as one line with file and line; masks secrets."""
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]
    try:
        message = redact(" ".join(str(error).split()))
    except Exception:
        message = "(unreadable message)"
    return f"{type(error).__name__}: {message} (raised at {last.filename}, line {last.lineno})"


OURS = "harness."
"""Value prefix of the harness's own entry points."""

PROVIDERS = "harness.providers"
"""Group of functions that extensions provide and the core calls by name."""


def find(group: str, name: str) -> EntryPoint | None:
    """Returns the entry point of that name, preferring the harness's own; None if unknown.

    Raises UsageError if two other packages add the same name.
    """
    return next(iter(find_all(group, name)), None)


def find_all(group: str, name: str = "") -> list[EntryPoint]:
    """Returns the entry point of each name, in the order of `names`. Raises as `find`."""
    found = candidates(group, name)
    for one, entries in found.items():
        if len(entries) > 1:
            packages = " and ".join(sorted(map(package_of, entries)))
            raise UsageError(f"{group}: {one!r} is declared by {packages}; uninstall one of them")
    return [entry for (entry,) in found.values()]


def candidates(group: str, name: str = "") -> dict[str, tuple[EntryPoint, ...]]:
    """Returns the entry points of a group by name, in the order of `names`: the harness's own if
    there is one, else those of all packages. `name` selects one."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=group, name=name) if name else entry_points(group=group):
        found.setdefault(entry.name, {})[entry.value] = entry
    preferred = {}
    for one, entries in sorted(found.items()):
        ours = tuple(entry for entry in entries.values() if is_ours(entry))
        preferred[one] = ours[:1] or tuple(entries.values())
    return dict(sorted(preferred.items(), key=lambda item: not is_ours(item[1][0])))


def names(group: str) -> list[str]:
    """Returns the names in a group: the harness's own, then those of other packages, sorted."""
    return list(candidates(group))


def load(entry: EntryPoint, kind: str) -> Any:
    """Imports the object of an entry point; errors call it `kind`.

    Raises PluginError, naming the package, if the import fails.
    """
    try:
        with preserve_process_state():
            return entry.load()
    except HarnessError:
        raise
    except FAILURES as error:
        raise failure(entry, kind, f"{entry.value}: {describe_error(error)}") from error


def failure(entry: EntryPoint, kind: str, reason: str) -> PluginError:
    """Returns an error about an entry point that names its package."""
    return PluginError(f"{kind} {entry.name!r} of the package {package_of(entry)}: {reason}")


def load_all(group: str, kind: str) -> list[Any]:
    """Imports all entry points of a group, in the order of `names`. Raises as `find` and `load`."""
    return [load(entry, kind) for entry in find_all(group)]


def provider(name: str) -> Any:
    """Returns the object that an extension provides as `name`. Raises UsageError if none does."""
    found = provider_or_none(name)
    if found is None:
        raise UsageError(f"no installed package provides {name!r} (entry point group {PROVIDERS})")
    return found


def provider_or_none(name: str) -> Any | None:
    """Returns the object that an extension provides as `name`; None if none does."""
    entry = find(PROVIDERS, name)
    return None if entry is None else load(entry, "provider")


def is_ours(entry: EntryPoint) -> bool:
    """Tests whether an entry point belongs to this distribution."""
    return entry.value.startswith(OURS)


def package_of(entry: EntryPoint) -> str:
    """Returns the name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
