"""Resolves the rows of rankings to queries and documents of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.reader import Dataset, Int32
from harness.runfiles.arrow import take
from harness.runfiles.rankings import Rankings, best_first, blocks_of, without
from harness.scoring.arrays import Flags, Ints

_DIGITS = 9  # maximum digits of ids that are looked up as numbers
_SPREAD = 4  # maximum table entries per document


@dataclass(frozen=True)
class Resolved:
    """The rows of a run that belong to the dataset's queries, in the order of its query table.

    Shapes (n,), one per returned document: `query` (row of the query table, ascending), `row` (of
    the document table; -1 for a document not in the query's haystack), `rank` from 1.
    `unknown_queries` are in the run but not in the dataset.
    """

    query: Int32
    row: Int32
    rank: Int32
    unknown_queries: list[str]

    @property
    def unknown_documents(self) -> int:
        """Number of returned documents that are not in their query's haystack."""
        return int((self.row < 0).sum())


def canonicalize(rankings: Rankings, dataset: Dataset) -> tuple[Rankings, int]:
    """Returns rankings, best first, without duplicate documents, and the number of duplicates.

    If the dataset requires it (Variant.exclude_self), documents with the id of the query are
    removed too, for imported rankings as well.
    """
    rankings = best_first(rankings)
    again = rankings.pairs.repeated()
    if len(again):
        rankings = without(rankings, again)
    if dataset.manifest.exclude_self:
        queries = pa.array(rankings.query_ids, pa.string()).take(pa.array(rankings.query))
        own = np.flatnonzero(pc.equal(rankings.document, queries).to_numpy())
        rankings = without(rankings, own) if len(own) else rankings
    return rankings, len(again)


def resolve(rankings: Rankings, dataset: Dataset) -> Resolved:
    """Resolves all returned documents to rows of the dataset."""
    known = dataset.query_rows
    query_of = np.array([known.get(name, -1) for name in rankings.query_ids], np.int64)
    unknown = [rankings.query_ids[i] for i in np.flatnonzero(query_of < 0)]
    order = np.argsort(query_of, kind="stable")
    order = order[query_of[order] >= 0]
    starts = rankings.starts
    size = np.diff(starts)[order]
    before = np.cumsum(size) - size
    query = np.repeat(query_of[order].astype(np.int32), size)
    place = np.arange(len(query), dtype=np.int32)
    ids = rankings.document
    if not np.array_equal(order, np.arange(len(query_of))):
        ids = take(ids, place + np.repeat(starts[order] - before, size))
    rank = place - np.repeat(before.astype(np.int32), size) + 1
    return Resolved(query, find_rows(dataset, query, ids), rank, unknown)


def find_rows(dataset: Dataset, query: Int32, ids: pa.ChunkedArray) -> Int32:
    """Looks up document ids in the haystack of each row's query; -1 for those not in it."""
    rows = np.full(len(query), -1, np.int32)
    haystack = dataset.query_haystack[query]
    listed = dataset.lists_documents[haystack]
    if not listed.all():
        names = dataset.documents.column("id").combine_chunks()
        rows[~listed] = places(_some(ids, ~listed), names)
    if listed.any():
        haystack = haystack[listed]
        held = np.zeros(len(dataset.documents), bool)
        for _, member in dataset.members(haystack):
            held[member] = True
        document = np.flatnonzero(held).astype(np.int32)
        names = dataset.documents.column("id", document).combine_chunks().dictionary_encode()
        number = np.zeros(len(held), np.int32)
        number[document] = names.indices.to_numpy()
        place = places(_some(ids, listed), names.dictionary)
        rows[listed] = _find_members(dataset, haystack, place, number)
    return rows


def _find_members(
    dataset: Dataset, haystack: Int32, wanted: Int32, number: npt.NDArray[np.integer]
) -> Int32:
    """Returns for each haystack, which lists its documents, the row of the one with the wanted
    number; -1 if there is none. `number` has the number of each document row."""
    # A key is a haystack and a number.
    n = np.int64(number.max(initial=0)) + 1
    keys, which = np.unique(np.where(wanted < 0, -1, haystack * n + wanted), return_inverse=True)
    found = np.full(len(keys), -1, np.int32)
    for owner, member in dataset.members(haystack):
        held = owner * n + number[member]
        at = np.searchsorted(keys, held).clip(max=len(keys) - 1)
        same = keys[at] == held
        found[at[same]] = member[same]
    return found[which]


def _some(ids: pa.ChunkedArray, chosen: Flags) -> pa.ChunkedArray:
    """Returns the chosen ids, without a copy if all are."""
    return ids if chosen.all() else ids.filter(pa.array(chosen))


def places(ids: pa.ChunkedArray, names: pa.Array) -> Int32:
    """Returns the position of each id among the distinct `names`; -1 for unknown ids.

    Integer ids with few gaps, such as MS MARCO's, are looked up in a table, since hashing millions
    of texts takes four times as long.
    """
    number = _numbers(names)
    largest = int(number.max(initial=0))
    if number.min(initial=0) < 0 or largest >= _SPREAD * len(names):
        return np.asarray(pc.fill_null(pc.index_in(ids, value_set=names), -1).to_numpy(), np.int32)
    place = np.full(largest + 2, -1, np.int32)  # the last entry is for unknown ids
    place[number] = np.arange(len(names))
    asked = (_numbers(part) for part in blocks_of(ids))
    found = [place[np.where((of < 0) | (of > largest), largest + 1, of)] for of in asked]
    return np.concatenate([np.zeros(0, np.int32), *found])


def _numbers(ids: pa.Array) -> Ints:
    """Converts ids that are integers ("7", but not "07" or "+7"); -1 for all others."""
    sizes = pc.binary_length(ids)
    plain = pc.and_(pc.less_equal(sizes, _DIGITS), pc.ascii_is_decimal(ids))
    first = pc.equal(pc.binary_slice(ids.cast(pa.binary()), 0, 1), b"0")
    plain = pc.and_not(plain, pc.and_(first, pc.greater(sizes, 1)))
    if not pc.any(plain).as_py():
        return np.full(len(ids), -1)
    digits = ids if pc.all(plain).as_py() else pc.if_else(plain, ids, None)
    return np.asarray(pc.fill_null(digits.cast(pa.int64()), -1).to_numpy(), np.int64)


UNKNOWN_SIZE = 1 << 31
"""Size of unknown haystacks (datasets that only have ids); larger than any haystack."""


def sizes_by_query(dataset: Dataset) -> Ints:
    """Returns the number of documents in the haystack of each query; shape (n,)."""
    if dataset.manifest.ids_only:
        return np.full(dataset.n_queries, UNKNOWN_SIZE)
    sizes = dataset.haystack_sizes[dataset.query_haystack]
    if dataset.manifest.exclude_self:
        sizes = sizes - (dataset.rows_with_query_id >= 0)
    return sizes


def in_haystack(dataset: Dataset, query: Int32, document: Int32) -> Flags:
    """Tests whether a ranking can contain each document, (m,): it is in the query's haystack, and
    not excluded as the query's own document."""
    there = document >= 0
    haystack = dataset.query_haystack[query]
    listed = dataset.lists_documents[haystack]
    if listed.any():
        row = np.arange(len(dataset.documents))
        there[listed] &= _find_members(dataset, haystack[listed], document[listed], row) >= 0
    if dataset.manifest.exclude_self:
        there &= document != dataset.rows_with_query_id[query]
    return there
