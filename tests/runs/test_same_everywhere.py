"""A deterministic retriever leaves the same bytes whatever the process around it is like."""

from __future__ import annotations

from pathlib import Path

import pytest
from surroundings import ODD, PLAIN, all_alike

LEXICAL = ("bm25", "tfidf")
OTHERS = ("bm25-okapi", "minilm", "oracle", "random", "recency", "recency-weighted")
HYBRIDS = ("hybrid", "hybrid --param retrievers=bm25,tfidf")


@pytest.mark.slow
@pytest.mark.parametrize("retriever", LEXICAL)
def test_hash_seeds_locales_and_time_zones_change_no_byte(
    retriever: str, home: Path, tmp_path: Path
) -> None:
    all_alike(retriever, tmp_path, [(PLAIN, ()), (ODD, ("--workers", "2", "--batch-size", "7"))])


@pytest.mark.extensions
@pytest.mark.slow
@pytest.mark.usefixtures("weights")
@pytest.mark.parametrize("retriever", [*OTHERS, *HYBRIDS])
def test_no_retriever_of_the_package_depends_on_what_is_around_it(
    retriever: str, home: Path, tmp_path: Path
) -> None:
    odd, batches = ODD, ("--batch-size", "7")
    if retriever in ("minilm", "hybrid"):  # batches and threads decide the last digits of scores
        odd, batches = {name: ODD[name] for name in ODD if "THREADS" not in name}, ()
    all_alike(retriever, tmp_path, [(PLAIN, ()), (odd, ("--workers", "2", *batches))])
