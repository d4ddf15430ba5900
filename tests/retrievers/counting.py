"""An encoder that writes down every text it embeds, and what other processes do with it."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from polling import wait_until

from harness.extensions.dense.embedder import Embedder
from harness.extensions.dense.embeddings import Store, digests

WIDE = 1500
"""Length of the vectors that are written until the process is killed, and how many at once."""

TEXTS = [f"note {i}" for i in range(64)]


class Counting:
    """Vectors made of the text's hash; the texts go to a file, one a line.

    Each call takes `seconds`; calls after `most` texts wait for the file `goes_on(log)`.
    """

    at_once = 8

    def __init__(
        self, log: Path, revision: str = "r1", seconds: float = 0.0, most: int = 10**9
    ) -> None:
        self.model, self.revision = "counting", revision
        self._log, self._seconds, self._most = log, seconds, most

    def __call__(self, texts: list[str], prompt: str) -> npt.NDArray[np.float32]:
        with open(self._log, "a") as file:
            file.writelines(f"{prompt}{text}\n" for text in texts)
        time.sleep(self._seconds)
        if len(embedded(self._log)) > self._most:
            wait_until(goes_on(self._log).exists)
        return np.array([vector(prompt + text) for text in texts], np.float32)


def goes_on(log: Path) -> Path:
    """Returns the path of the file that ends the wait after `most` texts."""
    return log.with_name("goes-on")


def vector(text: str) -> list[float]:
    """Four numbers from 0 to 255."""
    return [float(byte) for byte in hashlib.sha256(text.encode()).digest()[:4]]


def embedded(log: Path) -> list[str]:
    """What was embedded so far, without the probe for the dimension."""
    lines = log.read_text().splitlines() if log.is_file() else []
    return [line for line in lines if line != "dimension"]


def embed(log: Path, seconds: float, first: int, most: int = 10**9) -> None:
    """Embed all texts, beginning with another one; what a second process runs."""
    texts = TEXTS[first:] + TEXTS[:first]
    found = Embedder(Counting(log, seconds=seconds, most=most))(texts)
    assert found.tolist() == [vector(text) for text in texts]


def write_forever() -> None:
    """Keep vectors whose numbers are their text's, WIDE of them at once."""
    store = Store("wide", "r")
    for start in range(0, 100 * WIDE, WIDE):
        numbers = np.arange(start, start + WIDE, dtype=np.float32)
        with store.alone():
            store.add(digests(f"{n:.0f}" for n in numbers), numbers[:, None].repeat(WIDE, axis=1))
