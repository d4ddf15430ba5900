"""Two reports on the same cases: did anything fall?"""

from __future__ import annotations

import numpy as np

from harness.errors import UsageError
from harness.statistics.corrections import holm
from harness.statistics.paired import compare_paired
from harness.testing.checked import Checked, Found
from harness.testing.report import Report
from harness.verdicts.gate import could_show

ALPHA = 0.05


def drops(
    report: Report, before: Report, metrics: list[str], ability: str | None, allowed: float
) -> list[Checked]:
    """A check for each metric: it fails where the mean fell by more than `allowed` and
    significantly, by the rule of `harness gate` (randomisation test, Holm over the metrics).

    Cases that failed in either report are left out of both. Raises UsageError for reports on other
    cases, and for a fall that this few cases could never show.
    """
    ours, theirs = ({case.id: case.relevant for case in one.cases} for one in (report, before))
    if ours != theirs:
        raise UsageError(
            "the baseline was measured on other cases: compare the same ids and answers"
        )
    place = {case.id: at for at, case in enumerate(before.cases)}
    order = [place[case.id] for case in report.cases]
    now = np.stack([report.values(name) for name in metrics], axis=1)
    then = np.stack([before.values(name)[order] for name in metrics], axis=1)
    if ability is not None:
        mine = np.array([case.ability == ability for case in report.cases])
        now, then = now[mine], then[mine]
    found = compare_paired(then, now, bounds=(-1, 1))
    adjusted = holm([one.test.p for one in found])
    checks = []
    for name, one, p in zip(metrics, found, adjusted, strict=True):
        title = f"{name}{f' ({ability})' if ability else ''} not below the baseline by {allowed:g}"
        fell = one.difference.value
        n = one.difference.n
        if not n:
            said = "not measurable: no case has a value in both reports"
            checks.append(Checked(title, allowed, False, False, Found(None, 0, ""), said))
            continue
        # The least p that so many pairs can have, if every one of them fell.
        least = 2.0 ** (1 - n)
        if fell > allowed and least * len(metrics) > ALPHA:
            raise UsageError(
                f"{name} fell by {fell:.4f}, which {n} cases can never show to be significant "
                f"(least p {least:.3g}, {len(metrics)} tests corrected together): take more cases, "
                "or fewer metrics"
            )
        said = (
            f"{one.mean_a:.4f} -> {one.mean_b:.4f}, {0.0 - fell:+.4f}, p {p:.4f}; n {n}, "
            f"{could_show(one.power)}"
        )
        passed = not (fell > allowed and p <= ALPHA)
        checks.append(Checked(title, allowed, False, passed, Found(-fell, n, ""), said))
    return checks
