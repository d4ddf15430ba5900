"""A dataset folder made with the writer alone, for the tests of what is written and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.dataset.columns import FILES
from harness.dataset.manifest import Manifest, RawFile
from harness.dataset.reader import Dataset
from harness.dataset.writer import DatasetWriter

Fill = Callable[[DatasetWriter], object]
Fills = list[Fill]


def write(folder: Path, *fills: Fill, unknown_documents: str = "refuse") -> Dataset:
    folder.mkdir(parents=True)
    with DatasetWriter(folder, unknown_documents=unknown_documents) as out:
        for fill in fills:
            fill(out)
        out.finish()
        manifest = Manifest(
            name="tiny/round",
            granularity="turn",
            text="official",
            split="test",
            licence="CC0-1.0",
            source="here",
            adapter_version=3,
            raw=[RawFile("a.json", "/a.json", 1, 2, "00", "pinned")],
            repairs=out.repairs,
            counts=out.counts,
            files={name: (folder / name).stat().st_size for name in FILES},
            fingerprint=out.fingerprint,
            created="2024-01-01T00:00:00+00:00",
            keys=out.keys,
        )
    manifest.write(folder)
    dataset = Dataset(folder)
    assert dataset.manifest == manifest
    assert manifest.matches(folder)
    return dataset
