"""How often the intervals behind a judge hold the truth; writes judged.md beside this file.

python tests/benchmarks/judged_coverage.py [DRAWS]
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

from harness.statistics.judged import Errors, corrected_rate, prediction_powered

N = 500
CLUSTERS = {
    "500 alone": None,
    "50 of 30": [30] * 50,
    "10 of 50": [50] * 10,
    "one of 180, ten of 35": [180, *[35] * 10],
}


def coverage(
    right: float, se: float, sp: float, people: int, sizes: list[int] | None, draws: int
) -> tuple[float, float, float, float]:
    """(share held, mean width) of both intervals; corrected ones where they can be told."""
    draw = np.random.default_rng(7)
    held, width, told = np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(draws):
        clusters, chances = None, np.full(N, right)
        if sizes is not None:
            clusters = np.repeat(np.arange(len(sizes)), sizes)
            chances = draw.beta(right * 6, (1 - right) * 6, len(sizes))[clusters]
        truth = draw.random(len(chances)) < chances
        said = np.where(truth, draw.random(len(truth)) < se, draw.random(len(truth)) >= sp).astype(
            float
        )
        seen = draw.choice(len(truth), people, replace=False)
        by_people = np.full(len(truth), np.nan)
        by_people[seen] = truth[seen]
        mine, true = said[seen] == 1, truth[seen]
        pairs = ((mine, true), (~mine, true), (~mine, ~true), (mine, ~true))
        errors = Errors(*(int((a & b).sum()) for a, b in pairs))
        found = (
            corrected_rate(said, errors, clusters),
            prediction_powered(said, by_people, clusters),
        )
        for at, one in enumerate(found):
            if one.low is not None and one.high is not None:
                told[at] += 1
                held[at] += one.low <= right <= one.high
                width[at] += one.high - one.low
    shares = held / np.maximum(told, 1)
    widths = width / np.maximum(told, 1)
    return shares[0], widths[0], shares[1], widths[1]


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    lines = [
        "# Intervals behind a judge",
        "",
        "Share of 95% intervals that hold the true rate, and their mean width: `corrected_rate` by",
        "sensitivity and specificity as counted on the people's sample, and `prediction_powered`.",
        f"{draws} draws a row; in clusters the rate of each is drawn from a beta distribution.",
        "Made by `tests/benchmarks/judged_coverage.py`.",
        "",
        "| answers | right | se, sp | people | corrected | width | with people | width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    least = [1.0, 1.0]
    for (name, sizes), right, (se, sp), people in product(
        CLUSTERS.items(), (0.1, 0.5, 0.9), ((0.95, 0.9), (0.8, 0.8)), (30, 100)
    ):
        a, wa, b, wb = coverage(right, se, sp, people, sizes, draws)
        least = [min(least[0], a), min(least[1], b)]
        shown = " | ".join(f"{value:.3f}" for value in (a, wa, b, wb))
        lines.append(f"| {name} | {right} | {se}, {sp} | {people} | {shown} |")
    lines += ["", f"The least of each: {least[0]:.3f} and {least[1]:.3f}."]
    text = "\n".join(lines) + "\n"
    Path(__file__).with_name("judged.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
