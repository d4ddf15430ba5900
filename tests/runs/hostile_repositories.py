"""Repositories whose own settings run a program when git reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

WAYS = ("fsmonitor", "hook", "clean", "required", "process")


def git(folder: Path, *arguments: str) -> None:
    """A command of git there, which must work."""
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)


def clean_repository(folder: Path) -> Path:
    """A repository of one committed file."""
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "f.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def hostile_repository(folder: Path, way: str) -> Path:
    """One with a changed file, that plants a file when it is asked for its status; gives which."""
    clean_repository(folder)
    proof = folder.parent / f"planted-by-{way}"
    script = folder.parent / f"{way}.sh"
    script.write_text(f"#!/bin/sh\ntouch '{proof}'\ncat\n")
    script.chmod(0o755)
    if way == "fsmonitor":
        git(folder, "config", "core.fsmonitor", str(script))
    elif way == "hook":
        hook = folder / ".git" / "hooks" / "post-index-change"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{proof}'\n")
        hook.chmod(0o755)
    else:
        (folder / ".git" / "info" / "attributes").write_text("* filter=a.b\n")
        kind = "process" if way == "process" else "clean"
        git(folder, "config", f"filter.a.b.{kind}", str(script))
        if way == "required":
            git(folder, "config", "filter.a.b.required", "true")
    (folder / "f.txt").write_text("two\n")
    os.utime(folder / "f.txt", (1, 1))
    return proof
