"""List, verify or clear cached vectors, indexes and model responses.

Without a command: list the vectors of each model, the indexes and the responses, with sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.cli.options import add_inner
from harness.cli.output import add_output, plain, print_json
from harness.errors import UsageError
from harness.io.plugins import provider, provider_or_none
from harness.io.records import Output, OutputPart

if TYPE_CHECKING:
    from harness.retrievers.index_cache import CachedIndex


class CachedModel(OutputPart):
    """The cached vectors of one model."""

    model: str
    revision: str
    dtype: str
    dimension: int
    vectors: int
    bytes: int
    path: str
    damaged: str | None


class CachedIndexRow(OutputPart):
    """A cached index; `used` is a time in seconds since 1970."""

    name: str
    retriever: str
    params: dict[str, Any]
    documents: int
    bytes: int
    used: float
    damaged: str


class CacheOutput(Output, tag="harness.cache/1"):
    """harness cache; `replies` counts those of each model."""

    models: list[CachedModel]
    indexes: list[CachedIndexRow]
    replies: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    add_output(parser)

    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, call in (
        ("list", "list vectors, indexes and responses, with sizes", main),
        ("verify", "check everything in the cache against its checksums", call_verify),
        ("clear", "delete vectors and indexes, or with --replies model responses", call_clear),
    ):
        one = add_inner(commands, name, about)
        add_output(one)
        if name == "clear":
            one.add_argument(
                "--model", metavar="NAME", help="delete only the vectors of this model"
            )
            one.add_argument(
                "--index",
                metavar="NAME",
                help="delete only this index, or the indexes of a retriever",
            )
            one.add_argument(
                "--replies",
                action="store_true",
                help="delete only model responses, which may have cost money",
            )
        one.set_defaults(call=call)


def main(options: argparse.Namespace) -> int:
    """Prints what is cached."""
    from harness.retrievers import index_cache

    vectors = provider_or_none("vector_cache")
    _print(
        vectors.cached_vectors() if vectors else [],
        index_cache.cached_indexes(),
        _replies(),
        options,
        "the cache is empty",
    )
    return 0


def _replies() -> dict[str, int]:
    """Returns the number of cached replies of each model."""
    with _open_replies() as replies:
        return {} if replies is None else replies.count()


@contextmanager
def _open_replies() -> Iterator[Any]:
    """Yields the cached replies; None if there never were any."""
    from harness.datasets.registry import home

    replies_of = provider_or_none("replies")
    if replies_of is None or not (home() / replies_of.FILE).is_file():
        yield None
        return
    replies = replies_of.Replies(home())
    try:
        yield replies
    finally:
        replies.close()


def _clear_replies(options: argparse.Namespace) -> int:
    found = _replies()
    with _open_replies() as replies:
        if replies is not None and found:
            replies.clear()
    _print([], [], found, options, "there was nothing to clear")
    if found and not (options.json or options.quiet):
        print("\ncleared")
    return 0


def call_verify(options: argparse.Namespace) -> int:
    """Verifies the cache; returns 1 if something is damaged. A damaged index is built again when a
    run needs it, damaged vectors are named, and a damaged reply is requested again."""
    from harness.retrievers import index_cache

    cache = provider_or_none("vector_cache")
    vectors, indexes = cache.verify() if cache else [], index_cache.verify()
    told = [one.damaged for one in vectors if one.damaged]
    with _open_replies() as kept:
        replies, lost = (kept.count(), kept.damaged()) if kept else ({}, 0)
    if lost:
        told.append(f"{lost} replies of models are not as they were written; they are asked again")
    _print(vectors, indexes, replies, options, "the cache is empty")
    for one in told:
        print(f"harness: {one}", file=sys.stderr)
    return 1 if told or any(one.damaged for one in indexes) else 0


def call_clear(options: argparse.Namespace) -> int:
    """Clears entries, and prints what was cached."""
    from harness.retrievers import index_cache

    if "" in (options.model, options.index):
        raise UsageError("--model and --index need a name; without them everything is deleted")
    if options.replies and (options.model or options.index):
        raise UsageError("--replies, --model and --index exclude each other; name one of them")
    if options.replies:
        return _clear_replies(options)
    if options.model and options.index:
        raise UsageError("--model deletes vectors and --index an index; give one of them")
    cache = provider("vector_cache") if options.model else provider_or_none("vector_cache")
    vectors = [] if options.index or not cache else cache.clear(options.model or "")
    indexes = [] if options.model else index_cache.clear(options.index or "")
    _print(vectors, indexes, {}, options, "there was nothing to clear")
    if (vectors or indexes) and not (options.json or options.quiet):
        print("\ncleared")
    left = [
        one.name
        for one in index_cache.cached_indexes()
        if one.name.startswith(index_cache.INGESTED)
    ]
    if left and not (options.model or options.index or options.json or options.quiet):
        print(
            f"what systems took in is kept ({len(left)}), as it may have cost money: "
            f"--index {left[0].rpartition('-')[0]} removes that system's"
        )
    return 0


def _print(
    models: list[Any],
    indexes: list[CachedIndex],
    replies: dict[str, int],
    options: argparse.Namespace,
    nothing: str,
) -> None:
    if options.json:
        print_json(
            CacheOutput(
                models=[CachedModel(**plain(one)) for one in models],
                indexes=[CachedIndexRow(**plain(one)) for one in indexes],
                replies=replies,
            )
        )
        return
    if options.quiet:
        return
    from harness.cli.run_summary_lines import size
    from harness.datasets.registry import home
    from harness.io.terminal import grid

    if not (models or indexes or replies):
        print(f"{nothing} in {home()}")
        return
    if models:
        rows = [
            [o.model, o.revision, o.dtype, o.vectors, o.dimension, size(o.bytes)] for o in models
        ]
        print(grid(rows, ["model", "revision", "dtype", "vectors", "dimension", "size"], keys=2))
        print(f"\nin {models[0].path.parent}")
    if indexes:
        from datetime import datetime

        from harness.retrievers.index_cache import folder

        used = [datetime.fromtimestamp(one.used).strftime("%Y-%m-%d %H:%M") for one in indexes]
        described = [
            [one.name, one.documents, size(one.bytes), when, one.damaged or "-"]
            for one, when in zip(indexes, used, strict=True)
        ]
        headers = ["index", "documents", "size", "used", "damaged"]
        print("\n" * bool(models) + grid(described, headers, keys=1))
        print(f"\nin {folder()}")
    if replies:
        print("\n" * bool(models or indexes) + grid([*replies.items()], ["model", "replies"]))
