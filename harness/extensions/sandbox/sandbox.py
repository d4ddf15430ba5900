"""Starts processes that cannot read some folders and files, and cannot see other processes.

It uses Bubblewrap if installed, else `unshare` of util-linux: mount, process and shared-memory
namespaces that end with the process, and no privilege to undo them. Both need Linux. The network
and all other files of the user stay accessible.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

_SECONDS = 30  # time to start a program that does nothing


@dataclass(frozen=True)
class Sandbox:
    """Starts processes that cannot reach `hidden`; `by` names the program that restricts them."""

    hidden: tuple[Path, ...]
    kind: str
    by: str

    def command(self, inner: Sequence[str]) -> list[str]:
        """Returns the command that runs `inner` inside; it ends with the thread that starts it."""
        there = [path for path in self.hidden if path.exists()]
        # Paths below a hidden folder are hidden with it.
        outermost = [path for path in there if not any(one in path.parents for one in there)]
        folders = [str(path) for path in outermost if path.is_dir()]
        files = [str(path) for path in outermost if not path.is_dir()]
        return _KINDS[self.kind](folders, files, list(inner))


def find(hidden: Iterable[Path], needed: Iterable[Path]) -> Sandbox:
    """Returns the first sandbox that works here.

    Raises UsageError if none works, and if a `needed` path would be hidden.
    """
    places = tuple(dict.fromkeys(path.expanduser().resolve() for path in hidden))
    for path in (path.expanduser().resolve() for path in needed):
        covered = next((one for one in places if one == path or one in path.parents), None)
        if covered is not None:
            raise UsageError(
                f"--isolate hides {covered} (the dataset's files, the cache or the results), but "
                f"the retriever needs {path}: move one of them, or run from another folder"
            )
    if sys.platform != "linux":
        raise UsageError(
            f"--isolate needs Linux, and this is {sys.platform}: run it in a Linux container or "
            "virtual machine"
        )
    failed = []
    # Root needs no user namespace, and may run where these are forbidden.
    kinds = [kind for kind in _KINDS if kind != "unshare as root" or os.geteuid() == 0]
    for kind in kinds:
        sandbox = Sandbox(places, kind, "")
        said = _tried(sandbox.command(["true"]))
        if said is None:
            program = "bwrap" if kind == "bubblewrap" else "unshare"
            return Sandbox(places, kind, _said([program, "--version"]) or kind)
        failed.append(f"{kind}: {said}")
    raise UsageError(
        f"--isolate: no sandbox works here ({'; '.join(failed)}): install bubblewrap, or allow "
        "user namespaces (for a container: --cap-add SYS_ADMIN); nothing was run"
    )


def _tried(command: list[str]) -> str | None:
    """Returns why a command fails, or None if it runs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return " ".join(str(error).split())
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS).stdout.strip()


def _bubblewrap(folders: list[str], files: list[str], inner: list[str]) -> list[str]:
    hidden = [word for folder in folders for word in ("--tmpfs", folder)]
    hidden += [word for file in files for word in ("--ro-bind", "/dev/null", file)]
    words = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    words += ["--cap-drop", "ALL", "--dev-bind", "/", "/", "--proc", "/proc", *hidden]
    return [*words, "--chdir", os.getcwd(), "--", *inner]


def _unshare(folders: list[str], files: list[str], inner: list[str], *more: str) -> list[str]:
    lines = [["mount", "-t", "tmpfs", "-o", "mode=700", "hidden", folder] for folder in folders]
    for file in files:
        lines.append(["mount", "--bind", "/dev/null", file])
        lines.append(["mount", "-o", "remount,bind,ro,nodev", file])  # no device: cannot be opened
    # Resolve the working directory again, below the new mounts.
    lines.append(["cd", os.getcwd()])
    # Without capabilities and with no way to regain them, nothing can be unmounted.
    without = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    lines.append(["exec", "setpriv", *without, "--", *inner])
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", *more, "--mount", "--pid", "--ipc"]
    words += ["--fork", "--kill-child", "--mount-proc"]
    return [*words, "--", "sh", "-c", " && ".join(map(shlex.join, lines))]


def _unshare_users(folders: list[str], files: list[str], inner: list[str]) -> list[str]:
    return _unshare(folders, files, inner, "--user", "--map-root-user")


_KINDS: dict[str, Callable[[list[str], list[str], list[str]], list[str]]] = {
    "bubblewrap": _bubblewrap,
    "unshare as root": _unshare,
    "unshare": _unshare_users,
}
