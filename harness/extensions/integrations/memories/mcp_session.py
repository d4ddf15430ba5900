"""Session with a Model Context Protocol server, through the official SDK."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import IO, Any

from harness.errors import RunError
from harness.extensions.integrations.memories.mcp_forms import ToolSchema
from harness.io.files import TemporaryFolder
from harness.io.masking import from_environment, redact
from harness.io.records import convert

TOKEN = "HARNESS_MCP_TOKEN"
"""Environment variable with the bearer token, which is never recorded."""

_READ, _TOLD = 1 << 16, 2000
"""Bytes read from the server's stderr (enough to mask secrets before truncation), and characters
shown in an error.
"""


_WATCHED = """
exec 9< "$0"
(read -r _ <&9 || kill -s KILL -- "-$$" || kill -s KILL "$$") < /dev/null > /dev/null 2>&1 &
exec 9<&- "$@"
"""
"""Shell wrapper that runs the command and kills it when the pipe closes."""


class Session:
    """One connection, and the server process if it was started here.

    The SDK requires the same task to open and close a connection, so a dedicated task holds it.
    """

    def __init__(self, transport: Callable[[IO[str]], Any], timeout: float) -> None:
        self._transport, self._timeout = transport, timeout
        self._leave = asyncio.Event()
        self._client: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self._task = asyncio.create_task(self._hold())

    @classmethod
    async def opened(cls, transport: Callable[[IO[str]], Any], timeout: float) -> Session:
        """Connects. Raises RunError on failure."""
        session = cls(transport, timeout)
        try:
            await asyncio.wait_for(asyncio.shield(session._client), timeout)
        except Exception as error:
            said = (
                f"no response in {timeout:g} s" if isinstance(error, TimeoutError) else _said(error)
            )
            told = session._told()
            await session.close()
            raise RunError(f"retriever 'mcp': the server did not start: {said}{told}") from error
        return session

    async def tools(self) -> dict[str, ToolSchema]:
        """Returns the argument schema of each tool."""
        found: dict[str, ToolSchema] = {}
        cursor = None
        while True:
            page = await self._client.result().list_tools(cursor=cursor)
            for tool in page.tools:
                where = f"retriever 'mcp': the schema of the tool {tool.name!r}"
                found[tool.name] = convert(tool.input_schema, ToolSchema, where)
            cursor = page.next_cursor
            if not cursor:
                return found

    def server(self) -> str:
        """Returns the server's name and version, or an empty string."""
        info = self._client.result().server_info
        return "" if info is None else f"{info.name} {info.version}".strip()

    async def call(self, tool: str, arguments: Mapping[str, object]) -> tuple[Any, list[str]]:
        """Calls a tool; returns its structured content (or None) and its texts.

        Raises RuntimeError if the tool reports an error.
        """
        try:
            result = await self._client.result().call_tool(tool, dict(arguments))
        except Exception as error:
            raise RuntimeError(f"tool {tool!r}: {_said(error)}{self._told()}") from error
        texts = [block.text for block in result.content if block.type == "text"]
        if result.is_error:
            raise RuntimeError(f"tool {tool!r} reports: {' '.join(texts) or 'an error'}")
        return result.structured_content, texts

    async def close(self) -> None:
        """Closes the connection and stops a server started here."""
        self._leave.set()
        if not self._client.done():  # still waiting for the server
            self._task.cancel()
        await asyncio.wait([self._task])
        self._stderr.close()

    async def _hold(self) -> None:
        from mcp import Client

        try:
            connection = Client(self._transport(self._stderr), read_timeout_seconds=self._timeout)
            async with connection as client:
                self._client.set_result(client)
                await self._leave.wait()
        except Exception as error:
            # A broken connection already fails each call; ignore errors on leaving it.
            if not self._client.done():
                self._client.set_exception(error)

    def _told(self) -> str:
        """Returns the end of the server's stderr."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _READ))
        lines = redact(self._stderr.read())[-_TOLD:].strip().splitlines()
        return f"; on its stderr: {lines[-1].strip()}" if lines else ""


def started(command: str, variables: Mapping[str, str]) -> Callable[[IO[str]], Any]:
    """Starts a server and connects over its standard input and output.

    The server ends with this process, even if it ignores the end of its input.
    """

    @asynccontextmanager
    async def transport(stderr: IO[str]) -> AsyncIterator[Any]:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        environment = {**os.environ, **variables}
        with _alive() as sign:
            arguments = ["-c", _WATCHED, sign, *shlex.split(command)]
            server = StdioServerParameters(command="/bin/sh", args=arguments, env=environment)
            async with stdio_client(server, errlog=stderr) as streams:
                yield streams

    return transport


@contextmanager
def _alive() -> Iterator[str]:
    """Yields the name of a pipe that is written at the end of this block; a close without a write
    means that this process was killed.
    """
    with TemporaryFolder("pipe") as folder:
        path = os.path.join(folder, "alive")
        os.mkfifo(path)
        end = os.open(path, os.O_RDWR)
        try:
            yield path
        finally:
            os.write(end, b"\n")
            os.close(end)


def at(url: str, timeout: float) -> Callable[[IO[str]], Any]:
    """Connects to a running server: streamable HTTP."""

    @asynccontextmanager
    async def transport(stderr: IO[str]) -> AsyncIterator[Any]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        token = from_environment(TOKEN)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx2.Timeout(timeout, read=None)  # calls have their own; streams may be silent
        async with (
            httpx2.AsyncClient(headers=headers, timeout=limits) as client,
            streamable_http_client(url, http_client=client) as streams,
        ):
            yield streams

    return transport


def _said(error: BaseException) -> str:
    """Returns the innermost error of the SDK's exception groups, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
