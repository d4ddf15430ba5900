"""Memories with a Model Context Protocol server as retrievers."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from harness.errors import RunError, UsageError
from harness.extensions.integrations.memories import mcp_forms as forms
from harness.extensions.integrations.memories.mcp_forms import ToolCall
from harness.extensions.integrations.memories.mcp_session import TOKEN, Session, at, started
from harness.io.files import TemporaryFolder
from harness.io.masking import redact
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.locks import ServiceLock, check_url
from harness.retrievers.options import with_options
from harness.retrievers.sources import revision

NOTHING = r"(no|0) [\w ]*(found|results?|matches|memories|entries)\b[^\n]{0,80}"


@dataclass(frozen=True, kw_only=True)
class McpOptions:
    """Options of `Mcp`; see there."""

    command: str = ""
    url: str = ""
    env: Mapping[str, str] | None = None
    reset: Any = ""
    results: str = ""
    nothing: str = NOTHING
    error: str = ""
    timeout: float = 60.0


@with_options(McpOptions)
class Mcp:
    """A memory behind a Model Context Protocol server, configured by a map of its tools.

    `command` starts the server (with `env`), or `url` is its address (streamable HTTP). `add` and
    `search` map a tool to its arguments: {"remember": {"text": "{text}", "key": "{id}"}}.
    `{folder}` in `command` and `env` is an empty folder for each haystack; `reset` is a tool that
    empties the store of a persistent server. `results` is the path of the list of hits in the
    tool's JSON. `nothing` and `error` are regular expressions for texts that report no hits or a
    failure. `timeout`: seconds per call.
    """

    modules: ClassVar[tuple[str, ...]] = ("mcp",)
    thread_safe = True

    def __init__(self, add: Any = "", search: Any = "", **options: Any) -> None:
        given = McpOptions(**options)
        require_packages("retriever 'mcp'", *self.modules)
        if not add or not search:
            raise ValueError(
                'needs two tools of the server: --param \'add={"remember": {"text": '
                '"{text}"}}\' --param \'search={"recall": {"query": "{query}"}}\''
            )
        self._add = ToolCall.read(add, "add", forms.OF_DOCUMENT)
        self._search = ToolCall.read(search, "search", forms.OF_QUESTION)
        self._reset = ToolCall.read(given.reset, "reset", ()) if given.reset else None
        self._where(given.command, given.url, given.env)
        if given.timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {given.timeout:g}")
        self._timeout, self._results = given.timeout, given.results
        self._nothing = _pattern(given.nothing, "nothing")
        self._error = _pattern(given.error, "error") if given.error else None
        self._session: Session | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._calls: Counter[str] = Counter()
        self._server = ""
        self._empty = True

    def _where(self, command: str, url: str, env: Mapping[str, str] | None) -> None:
        if bool(command) == bool(url):
            raise ValueError("needs command= (starts the server) or url= (where it runs)")
        if url:
            check_url("retriever 'mcp'", url, TOKEN)
        elif shutil.which((shlex.split(command) or [""])[0]) is None:
            raise UsageError(f"retriever 'mcp': program {command!r} not found")
        if env is not None and not isinstance(env, Mapping):
            raise ValueError(f'env is a table, as {{"NAME": "{{folder}}/file"}}, not {env!r}')
        self._command, self._url = command, url
        self._service_lock = ServiceLock(url.rstrip("/")) if url else None
        self.revision = revision(shlex.split(command))
        self._env = {str(name): str(value) for name, value in (env or {}).items()}

    def index(self, corpus: Corpus) -> Awaitable[None]:
        """Adds each document to an empty store, in time order.

        Processes on this machine take turns at a persistent server. Raises RunError if the server
        does not start, a tool or argument is missing, or the store is not empty.
        """
        if self._service_lock is not None:
            self._service_lock.acquire()  # not in the event loop, which others share
        return self._take_in(corpus)

    async def _take_in(self, corpus: Corpus) -> None:
        await self._leave()
        session = self._session = await self._open()
        add = await self._prepared(session)
        self._handles = None
        if "id" in forms.places_in(add.arguments):
            self._handles = set(corpus.handles)
        if self._reset is not None:
            await self._call(self._reset, {})
        self._empty = not len(corpus)
        if not self._empty:
            await self._refuse_what_is_there(corpus[0].text)
        for document in corpus:
            await self._call(add, forms.of_document(document))

    async def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns at most k hits per query, in the server's order."""
        if self._service_lock is not None and not self._service_lock.owned:
            raise RuntimeError(
                f"{self._url} may hold another haystack by now, added by another retriever or "
                "run: index again"
            )
        return [[] if self._empty else (await self._ask(query, k))[:k] for query in queries]

    def report(self) -> dict[str, object]:
        """Returns the server's name, and the number of calls of each tool."""
        report: dict[str, object] = {"server": self._server, "tool_calls": dict(self._calls)}
        if self._service_lock is not None and self._service_lock.waited >= 0.1:
            report["waited_seconds"] = self._service_lock.waited
        return report

    def release(self) -> bool:
        """Releases a persistent server to others; returns whether indexing must be repeated."""
        if self._service_lock is None:
            return False
        held = self._service_lock.owned
        self._service_lock.release()
        return held

    def close(self) -> Awaitable[None]:
        """Disconnects, stops a server started here, and deletes its folder."""
        if self._service_lock is not None:
            self._service_lock.release()
        return self._leave()

    async def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _open(self) -> Session:
        if self._url:
            return await Session.opened(at(self._url, self._timeout), self._timeout)
        self._folder = TemporaryFolder("mcp")
        place = {"folder": self._folder.name}
        command = self._command.replace("{folder}", shlex.quote(self._folder.name))
        return await Session.opened(started(command, forms.filled(self._env, place)), self._timeout)

    async def _prepared(self, session: Session) -> ToolCall:
        """Returns the tool that adds. Raises RunError if a tool does not match the parameters."""
        self._server = session.server()
        tools = await session.tools()
        for call in filter(None, (self._add, self._search, self._reset)):
            if call.tool not in tools:
                raise RunError(
                    f"retriever 'mcp': {self._server or 'the server'} has no tool {call.tool!r}; "
                    f"it has {', '.join(sorted(tools)) or 'none'}"
                )
        try:
            self._asked = self._search.by_schema(tools[self._search.tool], "query")
            return self._add.by_schema(tools[self._add.tool], "text")
        except ValueError as error:
            raise RunError(f"retriever 'mcp': {error}") from None

    async def _refuse_what_is_there(self, text: str) -> None:
        """Raises RunError if the store is not empty, since it would return other documents."""
        try:
            found = await self._ask(Question(text), 1)
        except RuntimeError:  # some fail to search an empty store
            return
        if found:
            raise RunError(
                "retriever 'mcp': the server's store is not empty at the start of a haystack (it "
                f"returned {found[0].text[:60]!r}): use {{folder}} in command= or env=, or pass a "
                "tool that empties it, reset="
            )

    async def _ask(self, question: Question, k: int) -> list[Hit]:
        """Returns hits; with word-by-word search, those matching the most words first."""
        values = forms.of_question(question, k)
        if not forms.words(question.text):
            return []
        if "each_word" not in forms.places_in(self._asked.arguments):
            return await self._found(values)
        hits: dict[tuple[Any, ...], Hit] = {}
        times: Counter[tuple[Any, ...]] = Counter()
        for word in forms.long_words(question.text):
            for hit in await self._found({**values, "each_word": word}):
                one = tuple(hit.sources) or (hit.text,)
                hits.setdefault(one, Hit(hit.text, hit.sources))
                times[one] += 1
        return [hits[one] for one, _ in times.most_common()]

    async def _found(self, values: Mapping[str, object]) -> list[Hit]:
        structured, texts = await self._call(self._asked, values)
        found = forms.items(structured, texts, self._results)
        return forms.hits(found, self._handles, self._nothing)

    async def _call(self, call: ToolCall, values: Mapping[str, object]) -> tuple[Any, list[str]]:
        if self._session is None:
            raise RuntimeError("no session: call index() first")
        self._calls[call.tool] += 1
        given = forms.filled(call.arguments or {}, values)
        structured, texts = await self._session.call(call.tool, given)
        for text in texts:
            if self._error is not None and self._error.match(text):
                raise RuntimeError(f"tool {call.tool!r} reports: {redact(text)[:200]}")
        return structured, texts


def _pattern(given: str, name: str) -> re.Pattern[str]:
    try:
        return re.compile(given, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{name} is not a regular expression: {error}") from None
