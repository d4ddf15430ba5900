"""Code of the user's own and of other packages: files loaded once a process, entry points.

Our own extensions are entry points too (pyproject.toml): the core imports none of them, and other
packages add a retriever, a command or a run format exactly as they do.
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
from harness.io.masking import masked

PLUGIN_MODULE = "harness_plugin_"
"""How the names of modules begin that were loaded from a file."""

registered: dict[str, Callable[..., Any]] = {}
registered_in: dict[str, Path] = {}  # the file that registered a name, where a file did
_loading: list[Path] = []


def register_retriever(name: str) -> Callable[[Any], Any]:
    """Decorator that makes a class or a plain function known under `name` in this process."""

    def register(factory: Any) -> Any:
        registered[name] = factory
        if _loading:
            registered_in[name] = _loading[0]
        return factory

    return register


FAILURES = (Exception, SystemExit, GeneratorExit)
"""What somebody else's code may raise without ending the run; Ctrl-C still does."""


def load_file(path: Path) -> Any:
    """Import a Python file once a process. Raises UsageError when it is missing or fails."""
    path = path.expanduser().absolute()
    if not path.is_file():
        raise PluginError(f"{path}: no such plug-in file")
    name = module_name(path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        if str(path.parent) not in sys.path:  # files that stand beside it can be imported
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
            raise PluginError(f"plug-in {path}: {raised_at(error)}") from error
        finally:
            _loading.pop()
    return sys.modules[name]


def module_name(path: Path) -> str:
    """What the module of a file is called in this process."""
    path = path.expanduser().absolute()
    return f"{PLUGIN_MODULE}{path.stem}_{abs(hash(str(path))):x}"


def iter_strings(given: Any) -> Iterator[str]:
    """Every text in a name and its parameters, at any depth; of `a,b` both."""
    if isinstance(given, str):
        yield from (one.strip() for one in given.split(","))
    elif isinstance(given, Mapping | Sequence):
        for one in given.values() if isinstance(given, Mapping) else given:
            yield from iter_strings(one)


def public_names(module: Any) -> list[str]:
    """Classes and functions that a module defines itself."""
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
    """End this process if it is not `own`: code under test forked, and the child goes on too."""
    if os.getpid() != own:
        os._exit(1)


def raised_at(error: BaseException) -> str:
    """An error of somebody else's code in one line, with the place where it was raised; a secret in
    it is masked."""
    frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if not frame.filename.startswith("<frozen")][-1]
    try:
        message = masked(" ".join(str(error).split()))
    except Exception:
        message = "(what it says cannot be read)"
    return f"{type(error).__name__}: {message} (raised at {last.filename}, line {last.lineno})"


OURS = "harness."
"""How the value of an entry point of ours begins."""

PROVIDERS = "harness.providers"
"""The group of functions that the core calls by name, and extensions provide."""


def find(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of that name, ours before another package's; None without one.

    Raises UsageError where two other packages add the same name.
    """
    entries = candidates(group, name).get(name, ())
    if len(entries) > 1:
        packages = " and ".join(sorted(map(package_of, entries)))
        raise UsageError(f"{group}: {name!r} is declared by {packages}; uninstall one of them")
    return entries[0] if entries else None


def candidates(group: str, name: str = "") -> dict[str, tuple[EntryPoint, ...]]:
    """Returns the entry points of a group by name: ours if there is one, else those of all
    packages. `name` selects one."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=group, name=name) if name else entry_points(group=group):
        found.setdefault(entry.name, {})[entry.value] = entry
    preferred = {}
    for name, entries in found.items():
        ours = tuple(entry for entry in entries.values() if is_ours(entry))
        preferred[name] = ours[:1] or tuple(entries.values())
    return preferred


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
    """Return what an extension provides under a name. Raises UsageError if none is installed."""
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
