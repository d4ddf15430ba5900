"""Runs the blocks of a page in order, as a reader would, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docs_commands as commands
import docs_needs
import docs_warm
from docs_blocks import ROOT, Block, Page
from docs_checks import UNKNOWN, PageError, check_line, check_output, check_unrun
from filelock import FileLock

LIMIT = 900
"""Seconds that one block may take; far more than any should."""

_SHELL = ("sh", "by hand")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_PORT = re.compile(r"(?<![\w.:])([1-9]\d{3,4})(?!\w)|127\.0\.0\.1:(\d+)")


class PageRun:
    """One run through a page; use it as a context, so that its servers end.

    Pages with the same `folder` run where the earlier ones have run.
    """

    def __init__(self, page: Page, folder: Path, data: Path | None = None) -> None:
        self.page = page
        self.folder = folder / "page"
        self.folder.mkdir(exist_ok=True)
        self.data = data
        self.not_run: list[str] = []
        self._home = folder / "home"
        self._state = folder / "state.sh"
        self._state.write_text("")
        self._logs = 0
        self._locks: dict[int, FileLock] = {}
        self._served: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._python: subprocess.Popen[str] | None = None
        self._written: dict[str, Block] = {}
        self._env = self._environment()
        for name in ("examples", "configs"):
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to(ROOT / name)

    def __enter__(self) -> PageRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self._python is not None:
            self._python.kill()
            self._python.wait()
        for process, _file in self._served:
            _end_group(process, signal.SIGKILL)
            process.wait()
        for lock in self._locks.values():
            lock.release()

    def run(self, check: Callable[[Block, str | None], None] = check_output) -> None:
        """Every block. Raises PageError for the first that does not do what the page says.

        `check` is given each block of output, and what was printed.
        """
        self._prepare()
        output: str | None = None
        for block in self.page.blocks:
            if "not run" in block.marks:
                self.not_run.append(f"{block}: {block.marks['not run']}")
                check_unrun(block)
                output = UNKNOWN
            elif block.language == "text" and not block.file and "not output" not in block.marks:
                check(block, output)
                output = None
            elif block.file:
                self._write(block)
            elif block.language in _SHELL:
                said = self._sh(block)
                # What is done by hand stands in for a block of which nothing was run.
                output = said if block.language == "sh" else output or said
            elif block.language == "python":
                output = self._py(block)
            else:
                check_unrun(block)
        if self._written:
            unused = ", ".join(f"{name} ({block})" for name, block in self._written.items())
            raise PageError(f"written and used by no later block: {unused}")

    def _prepare(self) -> None:
        commands_before = docs_needs.supply(self.page.needs, self.folder, self.data)
        self._bash(Block(self.page.path, 0, "sh", ""), "\n".join(commands_before))

    def _environment(self) -> dict[str, str]:
        env = docs_warm.environment()
        env["PATH"] = f"{docs_warm.harness().parent}{os.pathsep}{env['PATH']}"
        return env | {"HARNESS_HOME": str(self._home)}

    def _write(self, block: Block) -> None:
        check_unrun(block)
        file = self.folder / block.file
        if not file.resolve().is_relative_to(self.folder.resolve()):
            raise PageError(f"{block}: {block.file} is not below the page's folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.code + "\n", "utf-8")
        self._uses(block.code)
        self._written[block.file] = block

    def _uses(self, code: str) -> None:
        """Take note of the files that a block names, or imports."""
        for name in list(self._written):
            path = Path(name)
            words = [path.name] + ([path.stem] if path.suffix == ".py" else [])
            if path.parent != Path("."):
                words.append(path.parts[0])
            if any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code) for word in words):
                del self._written[name]

    # Shell

    def _sh(self, block: Block) -> str:
        """Run it, parts that go on for ever in the background. Gives what was printed."""
        self._uses(block.code)
        said, plain, stopped = [], [], []
        for line in commands.logical_lines(block.code):
            forever = check_line(block, line)
            if commands.is_setup(line):
                continue
            if not forever and not line.rstrip().endswith(" &"):
                plain.append(self._sourced(line))
                continue
            said.append(self._bash(block, "\n".join(plain)))
            plain = []
            background = line.rstrip().endswith(" &")
            if forever:
                self._lock(0)
            started = self._serve(block, self._sourced(line.rstrip().removesuffix(" &")), forever)
            if not background:
                stopped.append(started)
        said.append(self._bash(block, "\n".join(plain), int(block.marks.get("status", 0))))
        for process, log in stopped:
            self._stop(block, process, log)
            said.append(log.read_text("utf-8"))
        return "".join(said)

    def _sourced(self, line: str) -> str:
        return docs_needs.with_sources(line, self.page.needs, self.data)

    def _bash(self, block: Block, code: str, status: int = 0) -> str:
        """Run lines; what they set and where they go holds for later ones, as in a terminal."""
        if not code.strip():
            return ""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self._script(code, keep=True)],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        said = done.stdout.decode("utf-8", "replace")
        if done.returncode != status:
            raise PageError(f"{block}: ended with status {done.returncode}, not {status}\n{said}")
        return said

    def _script(self, code: str, keep: bool = False) -> str:
        state = f"'{self._state}'"
        trap = f'trap \'{{ export -p; printf "cd %q\\n" "$PWD"; }} > "{self._state}"\' EXIT\n'
        return f"set -a\n. {state}\n{trap if keep else ''}{code}\n"

    def _serve(self, block: Block, line: str, ours: bool) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a line in the background, as it is, and wait until it answers.

        Our own commands say where they answer, and are not stopped before they have said so.
        """
        self._logs += 1
        log = self.folder.parent / f"served{self._logs}.txt"
        ports = [int(a or b) for a, b in _PORT.findall(line)]
        for port in ports:
            self._lock(port)
            if _answers(port):
                raise PageError(f"{block}: something else listens on port {port}")
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", self._script(f'PATH="${{PATH#*:}}"\n{line}')],
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # What is started in the background of a script inherits that Ctrl-C is ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self._served.append((process, log))
        self._wait(block, process, log, [] if ours else ports)
        return process, log

    def _wait(
        self, block: Block, process: subprocess.Popen[bytes], log: Path, ports: list[int]
    ) -> None:
        for _ in range(LIMIT * 20):
            said = log.read_text("utf-8", "replace")
            if process.poll():
                raise PageError(f"{block}: ended with status {process.returncode}\n{said}")
            known = [*ports, *(int(port) for port in _ADDRESS.findall(said))]
            if process.returncode == 0 or any(map(_answers, known)):
                return
            time.sleep(0.05)
        raise PageError(f"{block}: answers on no port that it names\n{said}")

    def _stop(self, block: Block, process: subprocess.Popen[bytes], log: Path) -> None:
        """As Ctrl-C does."""
        _end_group(process, signal.SIGINT)
        status = process.wait(LIMIT)
        if status:
            said = log.read_text("utf-8", "replace")
            raise PageError(f"{block}: stopped with Ctrl-C, it ended with status {status}\n{said}")

    def _lock(self, port: int) -> None:
        """One page at a time uses a port of the machine; 0 stands for those of our own commands."""
        if port not in self._locks:
            folder = Path(os.environ.get("TMPDIR", "/tmp"))
            self._locks[port] = FileLock(folder / f"harness-docs-port-{port}.lock")
            self._locks[port].acquire(timeout=LIMIT)

    # Python

    def _py(self, block: Block) -> str:
        """Run it in the page's session. Gives what was printed."""
        self._uses(block.code)
        if self._python is None:
            self._python = subprocess.Popen(
                [docs_warm.harness(), docs_warm.SESSION],
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        job = [str(block.page), block.line, block.code]
        self._python.stdin.write(json.dumps(job) + "\n")
        self._python.stdin.flush()
        said: list[str] = []
        for line in self._python.stdout:
            if line.startswith("\0"):
                text = "".join(said).removesuffix("\n")
                if int(line[1:]) != int(block.marks.get("status", 0)):
                    raise PageError(f"{block}:\n{text}")
                return text
            said.append(line)
        raise PageError(f"{block}: the interpreter ended\n{''.join(said)}")


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _end_group(process: subprocess.Popen[Any], how: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, how)
