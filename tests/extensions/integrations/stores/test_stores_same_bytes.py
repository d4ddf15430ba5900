"""A store ranks the same bytes whatever the process around it is like. Run with -m systems."""

from __future__ import annotations

from pathlib import Path

import pytest
from surroundings import ODD, PLAIN, all_alike

pytestmark = pytest.mark.systems


@pytest.mark.parametrize("store", ["tantivy", "duckdb", "lancedb", "chroma", "qdrant"])
def test_hash_seeds_locales_zones_and_workers_change_no_byte(
    store: str, home: Path, tmp_path: Path
) -> None:
    all_alike(store, tmp_path, [(PLAIN, ()), (ODD, ("--workers", "2"))])
