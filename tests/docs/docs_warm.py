"""`harness` without its start: one process with everything imported, forked for each command.

Pages run some two hundred short commands, and two thirds of a short command is importing. What a
fork runs is the command's own entry point, with its own arguments, folder, environment and streams.
Commands that go on until they are stopped are started as they are.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SESSION = "-python-session"
"""In place of a command: an interpreter that runs one block after the other; see docs_running."""

_SHIM = """#!{python} -SE
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(connection, [len(told).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(told)
said = connection.recv(1)
sys.exit(said[0] if said else "the command ended without a status")
"""

_SESSION = """
for line in sys.stdin:
    page, at, code = json.loads(line)
    status = 0
    try:
        exec(compile("\\n" * at + code, page, "exec"), names)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    print(f"\\n\\0{status}", flush=True)
"""


def environment() -> dict[str, str]:
    """What commands are given, but for the place of the cache; nothing of the tests or the user."""
    strange = ("PYTEST_", "DISPLAY", "WAYLAND_DISPLAY", "OPENAI_", "HARNESS_", "COV_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(strange)}
    env |= {"TQDM_DISABLE": "1", "COLUMNS": "300", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
    return env


@cache
def harness() -> Path:
    """A `harness` that runs so; its process is started once, and ends with this one."""
    place = Path(tempfile.mkdtemp(prefix="harness-docs-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    address = str(place / "socket")
    shim = place / "harness"
    shim.write_text(_SHIM.format(python=sys.executable, address=address))
    shim.chmod(0o755)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    server = subprocess.Popen(
        [sys.executable, __file__, str(listening.fileno())],
        env=environment(),
        pass_fds=[listening.fileno()],
        start_new_session=True,
    )
    atexit.register(server.wait)
    atexit.register(server.kill)
    return shim


def _serve(listening: socket.socket) -> None:
    """Take a command, fork, and go on."""
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = _run(connection)
            connection.sendall(bytes([status & 255]))
            os._exit(0)
        connection.close()


def _reap() -> None:
    """Wait for the forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _run(connection: socket.socket) -> int:
    """One command, in the place of who asked for it."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    told = b""
    while len(told) < int.from_bytes(size, "big"):
        told += connection.recv(1 << 16)
    arguments, place, env = json.loads(told)
    for ours, theirs in enumerate(streams):
        os.dup2(theirs, ours)
        os.close(theirs)
    os.chdir(place)
    os.environ.clear()
    os.environ.update(env)
    # Read by an interpreter when it starts, and this one has started.
    said = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path += [one for one in said if one and one not in sys.path]
    try:
        status = _session() if arguments == [SESSION] else _command(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status


def _command(arguments: list[str]) -> int:
    from harness.__main__ import main

    sys.argv = ["harness", *arguments]
    return main(arguments)


def _session() -> int:
    import traceback

    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    sys.path.insert(0, "")
    given = {"sys": sys, "json": json, "traceback": traceback, "names": vars(main)}
    exec(_SESSION, given)
    return 0


def _import_everything() -> None:
    """What commands import when they run, as far as it is installed."""
    import pkgutil
    from contextlib import suppress
    from importlib import import_module

    import harness

    for name in ("pandas", "pyarrow.parquet", "scipy.special", "tabulate", "tqdm"):
        import_module(name)
    for found in pkgutil.walk_packages(harness.__path__, "harness."):
        with suppress(ImportError):
            import_module(found.name)


if __name__ == "__main__":
    sys.path = [one for one in sys.path if one != str(Path(__file__).parent)]
    _import_everything()
    _serve(socket.socket(fileno=int(sys.argv[1])))
