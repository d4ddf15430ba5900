"""Matrix products that are as fast on a busy machine as on an idle one."""

from __future__ import annotations

import numpy as np

from harness.statistics.units import Values

# OpenBLAS gives a product to several threads from about this many multiplications on. Those wait
# for one another: beside other work, such a product took ten times as long as on one thread.
_ONE_THREAD = 1 << 19


def product(left: Values, right: Values) -> Values:
    """left @ right for a narrow `right`, some rows of `left` at a time."""
    out = np.empty((len(left), right.shape[1]))
    rows = max(4, _ONE_THREAD // max(right.size, 1))
    for start in range(0, len(left), rows):
        np.matmul(left[start : start + rows], right, out=out[start : start + rows])
    return out
