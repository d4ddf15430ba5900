"""Matrix products that are as fast on a busy machine as on an idle one."""

from __future__ import annotations

import numpy as np

from harness.statistics.units import Values

# OpenBLAS gives a product to several threads from about this many multiplications on. Those wait
# for one another: beside other work, such a product took ten times as long as on one thread.
_ONE_THREAD = 1 << 19


_COLUMNS = 16


def product(left: Values, right: Values) -> Values:
    """left @ right, in tiles of some rows of `left` and some columns of `right`."""
    out = np.empty((len(left), right.shape[1]))
    for column in range(0, right.shape[1], _COLUMNS):
        part = np.ascontiguousarray(right[:, column : column + _COLUMNS])
        rows = max(4, _ONE_THREAD // max(part.size, 1))
        for row in range(0, len(left), rows):
            tile = np.s_[row : row + rows, column : column + _COLUMNS]
            out[tile] = left[row : row + rows] @ part
    return out
