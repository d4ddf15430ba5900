"""The command line: `python -m harness` and `harness` are the same thing."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from harness.cli import parser
from harness.errors import HarnessError, NotAtHandError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status: 0, 1 for a failed run or gate, 2 for wrong use."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next
        from harness.cli.completion import complete

        complete(parser())
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser().print_help()
        return 0
    options = parser(given[0]).parse_args(given)
    try:
        return int(options.call(options))
    except HarnessError as error:
        print(f"harness: {error}{_with_source(error, options, given)}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        # Only a run can be resumed.
        more = "; the same command with --resume goes on from here" if "resume" in options else ""
        print(f"harness: stopped{more}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `harness ... | head`
        sys.stderr.close()
        return 0


def _with_source(error: HarnessError, options: argparse.Namespace, given: Sequence[str]) -> str:
    """The command to type once a person has got the file that could not be had."""
    if not isinstance(error, NotAtHandError) or "source" not in options:
        return ""
    return f"; with it: {shlex.join(['harness', *given, '--source', error.file])}"


if __name__ == "__main__":
    sys.exit(main())
