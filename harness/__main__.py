"""The command line: `python -m harness` and `harness` are the same thing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from harness.cli import parser
from harness.errors import HarnessError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status: 0, 1 for a failed run or gate, 2 for wrong use."""
    options = parser().parse_args(arguments)
    try:
        return int(options.call(options))
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("harness: stopped; `harness run ... --resume` goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `harness ... | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
