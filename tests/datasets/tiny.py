"""A real adapter of a few lines, for the tests of the cache.

`tiny` makes its own documents, `tiny/lines` reads them from a file with a pinned hash. Run as a
script (`python tiny.py NAME`), it opens a dataset in a process of its own and prints the
fingerprint. Environment: TINY_LOG gets a line for every time it normalises; TINY_GATE is a file
that it waits for half-way, after making TINY_GATE.reached; TINY_URL is where the raw file is.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.registry import open_dataset, register_adapter
from harness.datasets.writer import DatasetWriter
from harness.errors import HarnessError, UsageError

LINES = b"The boiler was mended on Monday.\nThe key is under the blue pot.\n"


@register_adapter("tiny")
class Tiny:
    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        url = os.environ.get("TINY_URL", "http://127.0.0.1:9/lines.txt")
        file = RemoteFile("lines.txt", url, hashlib.sha256(LINES).hexdigest(), bytes=len(LINES))
        return [
            Variant("", "documents made on the spot", "CC0-1.0"),
            Variant("lines", "a document a line", "CC0-1.0", files=(file,), splits=("a", "b")),
        ]

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        path = source / "lines.txt" if source.is_dir() else source
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        return {"lines.txt": path}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        if log := os.environ.get("TINY_LOG"):
            with open(log, "a") as file:
                file.write("normalised\n")
        texts = ["one", "two"] * 5000
        if "lines.txt" in raw.files:
            texts = raw.files["lines.txt"].read_text().splitlines()
        half = len(texts) // 2
        out.documents([f"d{i}" for i in range(half)], texts[:half])
        wait_at_gate()
        out.documents([f"d{i}" for i in range(half, len(texts))], texts[half:])
        out.haystack("all")
        out.query("q", "Where is the key?", "all")
        out.qrel("q", "d1")


def wait_at_gate() -> None:
    if gate := os.environ.get("TINY_GATE"):
        Path(gate + ".reached").touch()
        while not Path(gate).exists():
            time.sleep(0.01)


if __name__ == "__main__":
    try:
        print(open_dataset(sys.argv[1]).fingerprint)
    except HarnessError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
