"""A dataset repository in MTEB's layout: which of its files are which table of which subset.

What its files are stands in the head of its README.md, as `configs` by name and split; a folder
without that is taken by its names (`corpus/test.parquet`, `corpus.jsonl`, `qrels/test.jsonl`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from harness.datasets.adapters.mteb.tables import KINDS
from harness.errors import UsageError, near

CARD = "README.md"
NEEDED = ("corpus", "queries", "qrels")
OPTIONAL = ("top_ranked", "instruction")
"""Which documents a query is answered from, and what is said to a model behind its text."""

Configs = Mapping[str, Mapping[str, Sequence[str]]]
"""Names of files by config and split."""


class SubsetTable(NamedTuple):
    """A table of a subset: the split that is read, and the names of its files."""

    split: str
    files: Sequence[str]


Parts = Mapping[str, Mapping[str, SubsetTable]]
"""What is read, by subset ("" where there are none) and table."""

_SHARD = re.compile(r"-\d{5}-of-\d{5}.*$")
_WILD = re.compile(r"\*\*/|\*\*|\*|\?")
_TRANSLATED = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def names_in(folder: Path) -> list[str]:
    """The files below a folder that could be tables of the layout, and its card."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = (path.as_posix() for path in found if not any(p.startswith(".") for p in path.parts))
    return sorted(name for name in names if name.endswith(KINDS) or name == CARD)


def configs(card: Path | None, names: Sequence[str], where: str) -> Configs:
    """The configs of a repository that has files of these names; `where` is what errors call it.

    Raises UsageError for a card that cannot be read.
    """
    tables = [name for name in names if name != CARD]
    said = _said_by(card) if card is not None else None
    if said is None:
        return _by_names(tables)
    found: dict[str, dict[str, list[str]]] = {}
    for one in said:
        if not isinstance(one, dict) or not isinstance(one.get("config_name"), str):
            raise UsageError(f"{where}: an entry of `configs` in {CARD} has no config_name")
        splits: dict[str, list[str]] = {}
        for split, patterns in _data_files(one.get("data_files")):
            matching = [name for p in patterns for name in _matching(p, tables)]
            splits.setdefault(split, []).extend(dict.fromkeys(matching))
        found[one["config_name"]] = splits
    return found


def parts(found: Configs, subsets: Sequence[str], split: str, where: str) -> Parts:
    """The files of each table of each of the `subsets`; none named: of all that there are.

    As mteb chooses them: of a config the split, or the only one that it has. Raises UsageError for
    a config or a split that is not there, and for one without a file.
    """
    if not subsets:
        subsets = [name.removesuffix("-corpus") for name in found if name.endswith("-corpus")]
        subsets = [""] if "corpus" in found or not subsets else subsets
    tables: dict[str, dict[str, SubsetTable]] = {}
    for subset in subsets:
        named = {part: _config(part, subset, found) for part in (*NEEDED, *OPTIONAL)}
        tables[subset] = {
            part: _of_split(found, config, split, where)
            for part, config in named.items()
            if part in NEEDED or config in found
        }
    return tables


def _config(part: str, subset: str, found: Configs) -> str:
    if part == "queries" and "query" in found:
        return "query"
    if subset not in ("", "default"):
        return f"{subset}-{part}"
    return "default" if part == "qrels" and "default" in found else part


def _of_split(found: Configs, config: str, split: str, where: str) -> SubsetTable:
    if config not in found:
        raise UsageError(
            f"{where}: no config {config!r}{near(config, [*found])}; MTEB's layout has "
            f"{', '.join(NEEDED)}, or SUBSET-corpus and so on (files in BEIR's form are read "
            "by the dataset `labelled`)"
        )
    splits = found[config]
    chosen = split if split in splits or len(splits) != 1 else next(iter(splits))
    if chosen not in splits:
        there = ", ".join(splits) or "none"
        raise UsageError(f"{where}: {config} has no split {split!r} (there is: {there})")
    if not splits[chosen]:
        raise UsageError(f"{where}: {config} has no file for the split {chosen!r}; get it whole")
    if odd := [name for name in splits[chosen] if not name.endswith(KINDS)]:
        raise UsageError(f"{where}: {odd[0]} is neither Parquet nor JSON lines")
    return SubsetTable(chosen, splits[chosen])


def _said_by(card: Path) -> list[Any] | None:
    """`configs` of the card's head; None where it has none."""
    import yaml
    from huggingface_hub import metadata_load

    try:
        head = metadata_load(card)
    except (yaml.YAMLError, ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{card}: its head is no YAML ({' '.join(str(error).split())})") from None
    said = (head or {}).get("configs")
    if said is not None and not isinstance(said, list):
        raise UsageError(f"{card}: `configs` in its head is no list")
    return said or None


def _data_files(said: Any) -> Iterable[tuple[str, list[str]]]:
    """Split and patterns of a config, in any of the forms that the hub takes."""
    entries = said if isinstance(said, list) else [said]
    for entry in entries:
        if isinstance(entry, dict):
            if "path" in entry:
                yield str(entry.get("split", "train")), _texts(entry["path"])
            else:
                yield from ((str(split), _texts(paths)) for split, paths in entry.items())
        elif entry is not None:
            yield "train", _texts(entry)


def _texts(said: Any) -> list[str]:
    return [str(one) for one in (said if isinstance(said, list) else [said])]


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that a pattern of the hub stands for: * holds no slash, ** does."""
    cuts = _WILD.split(pattern)
    wild = [_TRANSLATED[one] for one in _WILD.findall(pattern)]
    expression = "".join(re.escape(cut) + more for cut, more in zip(cuts, [*wild, ""], strict=True))
    return [name for name in names if re.fullmatch(expression, name)]


def _by_names(names: Sequence[str]) -> Configs:
    """Configs by folder and file: `corpus/test-00000-of-00001.parquet` is the split test of it."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in names:
        path = PurePosixPath(name)
        stem = _SHARD.sub("", path.name.split(".")[0])
        config = path.parent.name or stem
        found.setdefault(config, {}).setdefault(stem, []).append(name)
    return found
