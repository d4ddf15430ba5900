"""Records the provenance of a run: versions, machine, memory, git, retriever and command."""

from __future__ import annotations

import inspect
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness.datasets.reader import Dataset
from harness.io.masking import redact, redact_in
from harness.io.plugins import PLUGIN_MODULE, iter_strings
from harness.io.records import to_plain
from harness.records.run import GitState, Machine, Params, PeakMemory, RetrieverRecord
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import (
    FunctionRetriever,
    RetrieverSpec,
    factory_of,
    files_of,
    plugin_entry_point,
)

if TYPE_CHECKING:
    from harness.runs.settings import Settings

_PACKAGES = ("numpy", "pyarrow", "orjson", "PyStemmer")


def versions() -> dict[str, str]:
    """Returns versions of the harness, Python and the packages that numbers depend on."""
    found = {"harness": harness.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        found[package] = metadata.version(package)
    return found


def machine() -> Machine:
    """Returns system, processor and number of cores; no host name."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count(),
    )


def peak_memory(*, workers: bool) -> PeakMemory | None:
    """Returns the largest resident size so far, in bytes, of this process and its largest worker.

    The latter only with `workers`. None if the operating system does not report it.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    scale = 1 if sys.platform == "darwin" else 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * scale
    return PeakMemory(
        process=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale,
        largest_worker=children if workers else None,
    )


def retriever_record(retriever: RetrieverSpec | Retriever) -> RetrieverRecord:
    """Records name, version and all parameters, defaults included, of a retriever."""
    if isinstance(retriever, FunctionRetriever):
        code = retriever.function
        return RetrieverRecord(
            name=code.__qualname__, version=_version(code, code), files=code_of(code)
        )
    if not isinstance(retriever, RetrieverSpec):
        return RetrieverRecord(
            name=getattr(retriever, "name", None) or type(retriever).__qualname__,
            params=plain_params(redact_in(dict(getattr(retriever, "params", {})))),
            version=_version(retriever, type(retriever)),
            files=code_of(type(retriever)),
        )
    factory = factory_of(retriever.name)
    return RetrieverRecord(
        name=retriever.name,
        params=plain_params(redact_in(_defaults(factory) | dict(retriever.params))),
        version=_version(factory, factory),
        files=file_digests(retriever),
    )


def known_by(about: RetrieverRecord, built: Retriever) -> dict[str, object]:
    """Returns the identity of a system in the index cache: its record, revision and code."""
    revision = getattr(built, "revision", None)
    said = {"revision": revision} if isinstance(revision, str) else {}
    return {**to_plain(about), **said, "code": code_of(type(built))}


def code_of(kind: type | Callable[..., Any]) -> dict[str, str]:
    """Returns the sha256 of the file of a class or function and of the user's files that it imports
    (see sources.py).

    Empty for installed code, which has a version.
    """
    if kind.__module__.partition(".")[0] == "harness":
        return {}
    from harness.retrievers.sources import digests, file_of

    file = file_of(kind)
    return {} if file is None else digests([file])


def named_files(spec: RetrieverSpec) -> list[str]:
    """Returns the Python files that a spec names: plug-ins, and `file.py:name` anywhere in it."""
    return [*spec.plugins, *_files([spec.name, spec.params])]


def file_digests(spec: RetrieverSpec) -> dict[str, str]:
    """Returns the sha256 of every Python file that a spec names, and of those that they import."""
    files = _own_files(spec)
    if not files:
        return {}
    from harness.retrievers.sources import digests

    return digests(files)


def _own_files(spec: RetrieverSpec) -> list[Path]:
    """Returns files that a spec names by path, and those of `package.module:Class`, also if the
    name is an entry point's."""
    given = [*iter_strings([spec.name, spec.params])]
    given += [entry.value for one in given if (entry := plugin_entry_point(one)) is not None]
    files = [*map(Path, named_files(spec))]
    for one in given:
        module, colon, _ = one.partition(":")
        if colon and not module.endswith(".py"):
            from harness.retrievers.sources import module_files

            files += module_files(module)
    return files


def repeat_command(
    dataset: Dataset, retriever: RetrieverSpec | Retriever, k: int, settings: Settings
) -> str | None:
    """Returns the command that repeats a run; None for an object that a program built.

    SOURCE in it is a placeholder for the path of raw files that are not the published ones.
    """
    if not isinstance(retriever, RetrieverSpec):
        return None
    m = dataset.manifest
    view = {"dataset": m.name, "granularity": m.granularity, "text": m.text, "split": m.split}
    words = ["harness", "run"]
    if not m.published:
        view["source"] = "SOURCE"  # the user's files, which the fingerprint identifies
    for option, value in {**view, "retriever": retriever.name, "k": k}.items():
        words += [f"--{option}", str(value)]
    for name, value in retriever.params.items():
        words += ["--param", f"{name}={value if isinstance(value, str) else _json(value)}"]
    for plugin in retriever.plugins:
        words += ["--plugin", plugin]
    if settings.name:
        words += ["--name", settings.name]
    if settings.limit is not None:
        words += ["--limit", str(settings.limit)]
    if settings.seed:
        words += ["--seed", str(settings.seed)]
    if settings.isolate:
        words += ["--isolate"]
    for name, value in settings.limits.record().items():
        words += [f"--{name.replace('_', '-')}", f"{value:g}"]
    if settings.matching is not None:
        words += ["--match-f1", f"{settings.matching.f1:g}"]
        if settings.matching.semantic is not None:
            words += ["--match-semantic", f"{settings.matching.semantic:g}"]
    return shlex.join(map(redact, words))


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value, default=str).decode()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor()


def _files(given: Any) -> Iterator[str]:
    """Yields the code files of a run: of `file.py:name`, and of names from plug-in files."""
    for one in iter_strings(given):
        file, colon, _ = one.rpartition(":")
        if colon and file.endswith(".py") and Path(file).expanduser().is_file():
            yield file
        else:
            yield from map(str, files_of(one))


def plain_params(params: object) -> Params:
    """Converts parameters to JSON values, sorted by name."""
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS
    plain: Params = orjson.loads(orjson.dumps(params, option=options))
    return plain


def _defaults(factory: Any) -> Params:
    parameters = inspect.signature(factory).parameters.values()
    plain = (bool, int, float, str, type(None))
    return {
        p.name: p.default
        for p in parameters
        if p.default is not p.empty and isinstance(p.default, plain) and p.name != "seed"
    }


def _version(thing: Any, code: Any) -> str | None:
    """Returns the retriever's `version`, else the version of its package; None if unknown."""
    said = getattr(thing, "version", None)
    if isinstance(said, str):
        return said
    top = (code.__module__ or "").partition(".")[0]
    if top == "harness":
        return harness.__version__
    if top == "__main__" or top.startswith(PLUGIN_MODULE):
        return None
    try:
        return metadata.version(top)  # usually the distribution has the package's name
    except metadata.PackageNotFoundError:
        pass
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    if "site-packages" not in Path(file).parts:
        return None  # a user's file; a search of all installed packages takes 0.2 s
    packages = metadata.packages_distributions().get(top)
    return metadata.version(packages[0]) if packages else None


_SETTINGS = {
    "core.fsmonitor": "false",  # a command, or a daemon
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",  # is in the index; writing that runs a hook
    "status.submoduleSummary": "false",  # runs git in each submodule
    "submodule.recurse": "false",
    "protocol.allow": "never",  # a partial clone fetches no missing objects
    "safe.bareRepository": "explicit",  # ignores bare repositories not named explicitly
}
"""Override the settings of a repository, each of which could run a command during `status`."""

_OF_A_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}
_SECONDS = 10


def git_state() -> GitState | None:
    """Returns the commit of the working folder, and whether it has changes; None outside a
    checkout.

    A repository may be untrusted, and its configuration can name commands (file-system monitor,
    hooks, filters). None is run. So a filtered file (git LFS) counts as changed if git would have
    to filter it to compare; of submodules only the commit is compared.
    """
    try:
        safe = dict(_SETTINGS)
        for name in _git(safe, "config", "--null", "--name-only", "--list").split("\0"):
            section, _, key = name.rpartition(".")
            if section.lower().startswith("filter.") and key in _OF_A_FILTER:
                safe |= {f"{section}.{one}": value for one, value in _OF_A_FILTER.items()}
        status = ("status", "--porcelain", "--ignore-submodules=dirty")
        commit = _git(safe, "rev-parse", "HEAD")
        return GitState(commit=commit, changed=bool(_git(safe, *status)))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _git(settings: Mapping[str, str], *arguments: str) -> str:
    """Returns the output of git with these settings, which override all configuration files."""
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{n}": name, f"GIT_CONFIG_VALUE_{n}": value}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_CONFIG_")},
        **given,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # the index is not written, so no hook runs
        "GIT_TERMINAL_PROMPT": "0",
    }
    return subprocess.run(
        ["git", "--no-pager", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=True,
        timeout=_SECONDS,
    ).stdout.strip("\n")
