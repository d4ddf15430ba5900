"""Options that several commands share; those of a run are the fields of runs/settings.py."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import field

from harness.errors import UsageError
from harness.io.files import read_toml
from harness.io.records import Record, convert
from harness.records.settings import setting, settings_of

if TYPE_CHECKING:
    from harness.records.run import Params
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.usage import Prices

Verbs = Any
"""The return type of argparse's add_subparsers, which is private."""


def number(text: str) -> float:
    """Parses a finite number; argparse reports any other value."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def add_options(
    parser: argparse._ActionsContainer,
    *groups: type,
    only: Container[str] = (),
    defaults: bool = False,
) -> None:
    """Adds an option for each setting of these dataclasses, or for `only` some of them.

    An option that is not given is None, or with `defaults` the default of its setting.
    """
    for one in settings_of(*groups).values():
        if only and one.name not in only:
            continue
        more: dict[str, Any] = {"help": one.help}
        if one.type == "bool":
            more["action"] = "store_true"
        else:
            more |= {"metavar": one.metavar, "choices": one.choices or None}
            if one.repeat or one.type == "list[str]" or one.kind == "pairs":
                more["action"] = "append"
            elif one.kind != "time" and one.type in ("int", "float"):
                more["type"] = int if one.type == "int" else number
            if defaults and one.kind != "names":
                more["default"] = one.default
        parser.add_argument(one.option, **more)


def values_of(options: argparse.Namespace, group: type) -> dict[str, Any]:
    """Returns the values of a dataclass's settings that `add_options` added with their defaults."""
    values = {name: getattr(options, name) for name in settings_of(group)}
    for name, one in settings_of(group).items():
        if one.kind == "names":
            values[name] = tuple(values[name].split(",")) if values[name] else ()
    return values


@dataclass(frozen=True)
class DatasetOptions:
    """Options of a dataset: granularity, text, split, and the path of its raw files."""

    plugin: list[str] | None = setting(
        None,
        "Python file that registers retrievers and datasets; repeatable",
        metavar="FILE.py",
        kind="path",
        reference="Python files that register retrievers and datasets",
    )
    granularity: str | None = setting(
        None, "what a document is: turn, session, ... (default: the dataset's)", metavar="G"
    )
    text: str | None = setting(
        None,
        "text of a document: official (as published) or dated (with its date in front)",
        metavar="FORM",
    )
    split: str | None = setting(None, "part of the dataset: test, dev, train, ...")
    as_of: bool = setting(
        False,
        "search only documents that are older than the query",
        reference="search only documents that are [older than the query](../../how-to/in-time.md)",
    )
    inject: str | None = setting(
        None,
        "add N documents per query that imitate it (imitate:N), or that also contain an "
        "instruction (instruct:N)",
        metavar="KIND:N",
        reference="documents to [add to each haystack](../../how-to/injected-documents.md): "
        "`imitate:N` or `instruct:N`",
    )
    source: str | None = setting(
        None, "local copy of the dataset's raw files", metavar="PATH", kind="path"
    )
    rebuild: bool = setting(False, "prepare the dataset again, ignoring the cache")


@dataclass(frozen=True)
class MatchingOptions:
    """Options for resolving returned texts to documents: see `Matching`."""

    match_f1: float | None = setting(
        None,
        "lowest token F1 at which a returned text matches a document (default: 0.3)",
        metavar="F1",
    )
    match_semantic: float | None = setting(
        None,
        "lowest MiniLM similarity at which other texts match (default: off)",
        metavar="COSINE",
    )


@dataclass(frozen=True)
class ScoringOptions:
    """Options for scoring rankings and showing scores: see `Choices`."""

    protocol: list[str] | None = setting(
        None, "protocol to show; repeatable (default: all)", metavar="NAME"
    )
    ks: str | None = setting(
        None,
        "additional cut-offs: 3,20",
        metavar="K,K,...",
        kind="names",
        reference='additional cut-offs: `[1, 5, 20]` or `"1,5,20"`',
    )
    metrics: str | None = setting(
        None, "additional metrics: ndcg@20,map", metavar="M,M,...", kind="names"
    )
    full: bool = setting(False, "print all abilities, metrics and protocols", in_file=False)
    ties: str | None = setting(None, "order of documents with equal scores: trec, trec64 or order")
    answers: bool = setting(False, "also score returned texts against reference answers")
    missing: str | None = setting(
        None,
        "how to count a query without a ranking: as 0, or not at all",
        choices=("zero", "skip"),
    )


def add_view(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a dataset."""
    add_options(parser, DatasetOptions)


def matching_settings(options: argparse.Namespace) -> Any:
    """Returns `Matching` from `MatchingOptions`; None if none is given."""
    if options.match_f1 is None and options.match_semantic is None:
        return None
    if options.match_semantic is not None:
        require_provider("--match-semantic", "text_vectors")
    from harness.scoring.matching.matcher import Matching

    if options.match_f1 is None:
        return Matching(semantic=options.match_semantic)
    return Matching(options.match_f1, options.match_semantic)


def require_provider(option: str, name: str) -> None:
    """Raises UsageError if no installed package provides what an option needs; imports nothing."""
    from harness.io.plugins import PROVIDERS, find

    if find(PROVIDERS, name) is None:
        raise UsageError(f"{option} needs an extension that is not installed ({name})")


class ProjectFile(Record):
    """`[tool.harness]` of pyproject.toml, or harness.toml."""

    plugins: list[str] = field(default_factory=list)


class _Tools(Record, forbid_unknown_fields=False):
    harness: ProjectFile | None = None


class _PyProject(Record, forbid_unknown_fields=False):
    tool: _Tools = _Tools()


def project_plugins() -> list[str]:
    """Returns the files that register retrievers and datasets for every command in a project.

    They are `plugins = ["mine.py"]` in the nearest harness.toml, or below [tool.harness] of the
    nearest pyproject.toml that has one, from this folder upwards; paths are relative to that file's
    folder. Raises UsageError for a broken file and an unknown key.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        for file in (folder / "harness.toml", folder / "pyproject.toml"):
            if (settings := _settings(file)) is not None:
                for one in settings.plugins:
                    if not (folder / one).is_file():
                        raise UsageError(f"{file}: plugins names {one}, which is not there")
                return [os.path.relpath(folder / one) for one in settings.plugins]
    return []


def _settings(file: Path) -> ProjectFile | None:
    """Returns the file's settings; None if there are none."""
    if not file.is_file():
        return None
    if file.name == "harness.toml":
        return convert(read_toml(file), ProjectFile, str(file))
    if b"harness" not in file.read_bytes():  # other projects' files may be invalid
        return None
    return convert(read_toml(file), _PyProject, str(file)).tool.harness


def load_plugins(options: argparse.Namespace) -> None:
    """Imports the plug-in files of the project and of `--plugin`, which register things."""
    from harness.io.plugins import load_file

    for plugin in (*project_plugins(), *(options.plugin or ())):
        load_file(Path(plugin))


def retriever_spec(options: argparse.Namespace, name: str, params: Params) -> RetrieverSpec:
    """Returns the spec of the retriever `name`, for this process or another.

    A name that a user's file defines is replaced by its full form, and a note shows that. With
    `--isolate` no user code is imported here, so such a name is an error.
    """
    from harness.io.plugins import iter_strings, registered_in
    from harness.retrievers.registry import RetrieverSpec, full_name, is_ours, sibling_file

    given = tuple(options.plugin or ())
    if getattr(options, "isolate", False):
        project = tuple(project_plugins())
        if not (given or project) and (file := sibling_file(name)) is not None:
            raise UsageError(
                f"--isolate imports nothing of yours here, so that {name!r} cannot be looked up in "
                f"{file}: name it as {file}:Class"
            )
        if not is_ours(name) and ":" not in name:
            given = (*project, *given)
        return RetrieverSpec(name, params, given)
    load_plugins(options)
    taken = full_name(name)
    if taken != name and not getattr(options, "quiet", False):
        print(f"note: --retriever {name} is {taken}", file=sys.stderr)
    # Other processes and repeated runs load the project's plug-ins too.
    theirs = (registered_in[one] for one in iter_strings([taken, params]) if one in registered_in)
    here = {Path(plugin).expanduser().absolute() for plugin in given}
    more = [os.path.relpath(file) for file in dict.fromkeys(theirs) if file not in here]
    return RetrieverSpec(taken, params, (*given, *more))


def prices(given: str | Mapping[str, object] | None) -> Prices:
    """Returns the prices of a file that an option names, or those of a config."""
    from harness.runs.usage import checked_prices

    if not isinstance(given, str):
        return checked_prices(given or {}, "[prices]")
    table = read_toml(Path(given), "--prices")
    return checked_prices(table.get("prices", table), f"--prices {given}")


def add_inner(commands: Verbs, name: str, about: str) -> argparse.ArgumentParser:
    """Adds the parser of a sub-command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about.capitalize() + ".", allow_abbrev=False
    )
    return parser


def add_results(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the folder in which runs are found by name."""
    parser.add_argument(
        "--results", metavar="FOLDER", default="results", help="folder with runs (default: results)"
    )


def run_folder(options: argparse.Namespace, given: str, what: str = "run folder") -> Path:
    """Finds a run folder by path, name or unique prefix. Raises UsageError if there is none."""
    from harness.runs.folder.listing import find_run

    return find_run(given, Path(options.results), what)


class DatasetArguments(TypedDict):
    """Arguments for `open_dataset`."""

    granularity: str
    text: str
    split: str
    source: str | None
    rebuild: bool
    quiet: bool


def view_arguments(options: argparse.Namespace) -> DatasetArguments:
    """Returns arguments for `open_dataset` from `DatasetOptions`; imports the plug-ins.

    Not with `--isolate`: plug-in code then belongs to the retriever and stays in its sandbox.
    """
    if not getattr(options, "isolate", False):
        load_plugins(options)
    return {
        "granularity": options.granularity or "",
        "text": options.text or "",
        "split": (options.split or "") + split_suffix(options),
        "source": options.source,
        "rebuild": options.rebuild,
        "quiet": options.quiet,
    }


def split_suffix(options: argparse.Namespace) -> str:
    """Returns what `--inject` and `--as-of` add to the name of a split. Raises UsageError."""
    from harness.datasets.manifest import AS_OF, INJECT

    injected = ""
    if options.inject:
        from harness.datasets.inject import Injection

        injected = f"{INJECT}{Injection.parse(options.inject)}"
    return injected + (AS_OF if options.as_of else "")


def fitting_dataset(options: argparse.Namespace) -> Any:
    """Opens the dataset of `--dataset` and `DatasetOptions`; checks that the protocols fit it."""
    from harness.datasets.registry import open_dataset
    from harness.scoring.protocols import choose_protocols

    dataset = open_dataset(options.dataset, **view_arguments(options))
    choose_protocols(dataset.qrels_sets, options.protocol or (), users=dataset.scopes is not None)
    return dataset


def scoring_choices(options: argparse.Namespace) -> Any:
    """Returns `Choices` from `ScoringOptions`; every fitting protocol is scored, shown or not."""
    from harness.scoring.metrics import parse_metrics
    from harness.scoring.protocols import Choices, protocol
    from harness.scoring.ranks import Ties

    if getattr(options, "full", False) and (options.json or options.quiet):
        raise UsageError("--full prints tables, --json and --quiet print none; remove one")
    if options.answers:
        require_provider("--answers", "scoring_answers")
    options.protocol = [protocol(name).name for name in options.protocol or ()]
    ties = None
    if options.ties is not None:
        if options.ties not in list(Ties):
            raise UsageError(f"unknown tie rule {options.ties!r}; known: {', '.join(Ties)}")
        ties = Ties(options.ties)
    return Choices(
        ks=cut_offs(options.ks),
        metrics=tuple(parse_metrics(options.metrics)) if options.metrics else (),
        ties=ties,
        missing=options.missing or "zero",
        answers=options.answers,
    )


def headline_names(choices: Any) -> list[str]:
    """Returns the requested metrics, and `@5` for a requested cut-off."""
    return [*map(str, choices.metrics), *(f"@{k}" for k in choices.ks)]


def only_kinds(asked: Iterable[str], kinds: Iterable[str]) -> list[str]:
    """Expands the names of `headline_names`: `@5` is each of `kinds` at that cut-off."""
    known = list(dict.fromkeys(kinds))
    parts = ([kind + one for kind in known] if one.startswith("@") else [one] for one in asked)
    return [name for part in parts for name in part]


def cut_offs(text: str | None) -> tuple[int, ...]:
    """Parses `"1,5,10"` to numbers, ascending. Raises UsageError for anything else."""
    if not text:
        return ()
    try:
        ks = sorted({int(part) for part in str(text).split(",")})
    except ValueError:
        raise UsageError(f"--ks takes numbers with commas between them, not {text!r}") from None
    if ks[0] < 1:
        raise UsageError(f"--ks: a cut-off must be 1 or more, not {ks[0]}")
    return tuple(ks)


def add_param(
    parser: argparse._ActionsContainer, help: str = "constructor parameter; repeatable"
) -> None:
    """Adds `--param`, whose values `parameters` parses."""
    parser.add_argument("--param", action="append", default=[], metavar="KEY=VALUE", help=help)


def parameters(pairs: list[str], option: str = "--param") -> Params:
    """Parses `key=value` pairs; values are numbers or JSON where valid (.5, true), else text."""
    found: Params = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} takes key=value, not {pair!r}")
        if key in found:
            raise UsageError(f"{option} {key} is given twice; remove one")
        found[key] = _parameter(value)
    return found


def _parameter(text: str) -> Any:
    """Parses JSON, numbers as Python writes them (.5, 1., +3), and True or False; else the text."""
    import orjson

    if re.fullmatch(r"[+-]?(0|[1-9]\d*)?(\.\d*)?(e[+-]?\d+)?", text, re.IGNORECASE):
        with suppress(ValueError):
            return float(text) if re.search("[.eE]", text) else int(text)
    try:
        return orjson.loads({"True": "true", "False": "false"}.get(text, text))
    except orjson.JSONDecodeError:
        return text
