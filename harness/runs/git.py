"""The state of a git checkout, read so that nothing which the checkout says is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from harness.records.run import GitState

_SETTINGS = {
    "core.fsmonitor": "false",  # a command, or a daemon
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",  # written by a hook's leave
    "status.submoduleSummary": "false",  # asks each submodule
    "submodule.recurse": "false",
    "protocol.allow": "never",  # what a partial clone lacks is not fetched, by no transport
    "safe.bareRepository": "explicit",  # a folder that only looks like a repository is none
}
"""Over the settings of a repository: each of these can run a command on `status` otherwise."""

_OF_A_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}
_SECONDS = 10


def git_state() -> GitState | None:
    """Return the commit of the working folder, and whether it has changes; None outside a checkout.

    A repository may come from anywhere, and its configuration can name commands: a monitor of
    files, hooks, filters of contents. None is run. So a file of a filter (git LFS) counts as
    changed where git, to know better, would have to filter it; within submodules nobody looks, only
    at which commit they are.
    """
    try:
        safe = dict(_SETTINGS)
        for name in _git(safe, "config", "--null", "--name-only", "--list").split("\0"):
            section, _, key = name.rpartition(".")
            if section.lower().startswith("filter.") and key in _OF_A_FILTER:
                safe |= {f"{section}.{one}": value for one, value in _OF_A_FILTER.items()}
        status = ("status", "--porcelain", "--ignore-submodules=dirty")
        commit = _git(safe, "rev-parse", "HEAD")
        return GitState(commit=commit, changed=bool(_git(safe, *status)))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _git(settings: Mapping[str, str], *arguments: str) -> str:
    """Return what git says under these settings, which stand above all of its files'."""
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for n, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{n}": name, f"GIT_CONFIG_VALUE_{n}": value}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_CONFIG_")},
        **given,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # the index is read, never written: no hook after it
        "GIT_TERMINAL_PROMPT": "0",
    }
    return subprocess.run(
        ["git", "--no-pager", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=True,
        timeout=_SECONDS,
    ).stdout.strip("\n")
