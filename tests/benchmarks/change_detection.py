"""How often the monitor's test of change is wrong, and how late it is right.

python tests/benchmarks/change_detection.py        # some minutes

False alarms: the share of streams of 100,000 scored recalls without a change in which an alarm was
ever raised; every recall is looked at. Delay: recalls from a fall of the mean to the alarm.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.live.monitor.change import Change, Reference

Values = npt.NDArray[np.float64]
ALPHA, STREAMS, LENGTH, P = 0.05, 400, 100_000, 0.8


def independent(rng: np.random.Generator, n: int, p: float = P) -> Values:
    return (rng.random(n) < p).astype(float)


def thirds(rng: np.random.Generator, n: int, p: float = P) -> Values:
    return rng.binomial(3, p, n) / 3


def returning(rng: np.random.Generator, n: int, p: float = P) -> Values:
    users = np.clip(p + rng.normal(0, 0.15, 50), 0, 1)
    return (rng.random(n) < users[rng.integers(0, 50, n)]).astype(float)


def bouts(size: int):  # type: ignore[no-untyped-def]
    def stream(rng: np.random.Generator, n: int, p: float = P) -> Values:
        users = np.clip(p + rng.normal(0, 0.2, n // size + 1), 0, 1)
        return (rng.random(n) < np.repeat(users, size)[:n]).astype(float)

    return stream


KINDS = {
    "independent, 0 or 1": independent,
    "independent, thirds": thirds,
    "50 users who come back": returning,
    "bouts of 10 of one user": bouts(10),
    "bouts of 50 of one user": bouts(50),
}


def false_alarms() -> None:
    print("stream                     reference         batch   ever alarmed")
    for kind, stream in KINDS.items():
        settings: list[tuple[Reference | None, int]] = [(None, 1), (None, 10)]
        if kind == "independent, 0 or 1":  # the true mean of the others is not exactly P
            settings.append((Reference(P, P), 10))
        if kind == "bouts of 50 of one user":
            settings.append((None, 50))
        for reference, batch in settings:
            rng = np.random.default_rng(0)
            n = sum(
                bool(Change(ALPHA, reference=reference, batch=batch).update(stream(rng, LENGTH)))
                for _ in range(STREAMS)
            )
            name = "first 2,000" if reference is None else "the true mean"
            error = 1.96 * np.sqrt(max(n, 1) / STREAMS * (1 - n / STREAMS) / STREAMS)
            print(f"{kind:26} {name:16} {batch:6} {n / STREAMS:10.4f} +- {error:.4f}")


def delays() -> None:
    print("\nreference      change after   fall   found of 100   median   90%")
    for first in (1000, 2000, 5000):
        for after in (5_000, 50_000):
            for fall in (0.05, 0.1, 0.2, 0.4):
                rng = np.random.default_rng(0)
                found = [_delay(rng, first, after, fall) for _ in range(100)]
                known = [d for d in found if np.isfinite(d)]
                middle, late = np.quantile(found, [0.5, 0.9], method="lower")
                row = f"first {first:6,} {after:13,} {fall:8} {len(known):10}"
                print(f"{row} {middle:12,.0f} {late:9,.0f}")


def _delay(rng: np.random.Generator, first: int, after: int, fall: float) -> float:
    test = Change(ALPHA, first=first)
    if test.update(independent(rng, after)):
        return np.inf
    for start in range(0, 20_000, 50):
        if test.update(independent(rng, 50, P - fall)):
            return start + 50.0
    return np.inf


if __name__ == "__main__":
    false_alarms()
    delays()
