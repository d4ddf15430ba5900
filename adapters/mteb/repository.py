"""Assigns the files of a dataset repository in MTEB's layout to tables and subsets.

The head of README.md lists them under `configs` by name and split; without it, the file names
decide (`corpus/test.parquet`, `corpus.jsonl`, `qrels/test.jsonl`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from harness.datasets.adapters.mteb.tables import KINDS
from harness.errors import UsageError, suggest

CARD = "README.md"
NEEDED = ("corpus", "queries", "qrels")
OPTIONAL = ("top_ranked", "instruction")
"""Tables with the candidate documents of a query, and with instructions appended to its text."""

Configs = Mapping[str, Mapping[str, Sequence[str]]]
"""File names by config and split."""


class SubsetTable(NamedTuple):
    """A table of a subset: its split and the names of its files."""

    split: str
    files: Sequence[str]


Parts = Mapping[str, Mapping[str, SubsetTable]]
"""Files to read, by subset ("" if there are none) and table."""

_SHARD = re.compile(r"-\d{5}-of-\d{5}.*$")
_WILD = re.compile(r"\*\*/|\*\*|\*|\?")
_TRANSLATED = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def names_in(folder: Path) -> list[str]:
    """Returns the names of possible tables below a folder, and the card."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = (path.as_posix() for path in found if not any(p.startswith(".") for p in path.parts))
    return sorted(name for name in names if name.endswith(KINDS) or name == CARD)


def configs(card: Path | None, names: Sequence[str], where: str) -> Configs:
    """Returns the configs of a repository with these file names; `where` is the context for errors.

    Raises UsageError for an unreadable card.
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
    """Returns the files of each table of the given `subsets`, or of all subsets.

    As in mteb, a config uses the split, or its only split. Raises UsageError for a missing config,
    split or file.
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
            f"{where}: no config {config!r}{suggest(config, [*found])}; MTEB's layout has "
            f"{', '.join(NEEDED)}, or SUBSET-corpus and so on (for BEIR's format use the dataset "
            "`labelled`)"
        )
    splits = found[config]
    chosen = split if split in splits or len(splits) != 1 else next(iter(splits))
    if chosen not in splits:
        there = ", ".join(splits) or "none"
        raise UsageError(f"{where}: {config} has no split {split!r} (available: {there})")
    if not splits[chosen]:
        raise UsageError(f"{where}: {config} has no file for split {chosen!r}; download them all")
    if odd := [name for name in splits[chosen] if not name.endswith(KINDS)]:
        raise UsageError(f"{where}: {odd[0]} is neither Parquet nor JSON lines")
    return SubsetTable(chosen, splits[chosen])


def _said_by(card: Path) -> list[Any] | None:
    """Returns `configs` from the head of the card, or None."""
    import yaml
    from huggingface_hub import metadata_load

    try:
        head = metadata_load(card)
    except (yaml.YAMLError, ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{card}: head is not YAML ({' '.join(str(error).split())})") from None
    said = (head or {}).get("configs")
    if said is not None and not isinstance(said, list):
        raise UsageError(f"{card}: `configs` in its head is not a list")
    return said or None


def _data_files(said: Any) -> Iterable[tuple[str, list[str]]]:
    """Yields split and patterns of a config, in any form that the hub accepts."""
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
    """Returns the names that match a pattern of the hub: * excludes slashes, ** includes them."""
    cuts = _WILD.split(pattern)
    wild = [_TRANSLATED[one] for one in _WILD.findall(pattern)]
    expression = "".join(re.escape(cut) + more for cut, more in zip(cuts, [*wild, ""], strict=True))
    return [name for name in names if re.fullmatch(expression, name)]


def _by_names(names: Sequence[str]) -> Configs:
    """Infers configs from names: `corpus/test-00000-of-00001.parquet` is split test of corpus."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in names:
        path = PurePosixPath(name)
        stem = _SHARD.sub("", path.name.split(".")[0])
        config = path.parent.name or stem
        found.setdefault(config, {}).setdefault(stem, []).append(name)
    return found
