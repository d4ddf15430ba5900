"""A retriever in a separate process per haystack, without access to the dataset's files.

The process starts in a sandbox for one haystack and ends with it. It receives only what a retriever
may see and returns plain values, never objects; they are validated as for any retriever. Its code
is not imported in this process, which has the qrels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

from harness.datasets.reader import Dataset
from harness.datasets.registry import home
from harness.errors import ResponseMismatchError, RunError, UsageError
from harness.extensions.sandbox import messages
from harness.extensions.sandbox.corpus_stream import write_corpus
from harness.extensions.sandbox.messages import (
    BuildRequest,
    Ended,
    Failed,
    Indexed,
    IndexRequest,
    RawResult,
    Reported,
    ReportRequest,
    Request,
    Response,
    RetrieverDescription,
    SearchReply,
    SearchRequest,
)
from harness.extensions.sandbox.sandbox import Sandbox, find
from harness.io.masking import redact_in
from harness.io.records import convert
from harness.records.run import Params, RetrieverRecord
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.retrievers.registry import RetrieverSpec
from harness.runs.provenance import file_digests, plain_params
from harness.runs.request import IsolatedSpec
from harness.runs.worker_state import ProcessRetriever, RemoteCallError

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from harness.extensions.sandbox.inside import main; main()"
)
_SECONDS_TO_CLOSE = 30
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Isolation(IsolatedSpec):
    """A retriever's spec with sandbox, description and sha256 of its files; picklable."""

    sandbox: Sandbox
    described: RetrieverDescription
    files: dict[str, str]

    def build(self, seed: int = 0) -> Isolated:
        """Returns the proxy of the retriever; a process starts at indexing."""
        return Isolated(self, seed)

    @property
    def sandbox_name(self) -> str:
        """Name of the program that creates the sandbox."""
        return self.sandbox.by

    def record(self) -> RetrieverRecord:
        """Returns the record of the retriever, as described inside the sandbox."""
        described = self.described  # by itself, since its code is in the sandbox
        return RetrieverRecord(
            name=self.name,
            params=plain_params(redact_in({**described.params, **self.params})),
            version=described.version,
            files=file_digests(self),
        )


def isolation(
    spec: RetrieverSpec, files: Sequence[str], dataset: Dataset, out: Path, seed: int
) -> Isolation:
    """Creates the sandbox for a retriever over `dataset`, which describes itself in it.

    It hides the cache, the dataset's raw files and their folder, the files of ir_datasets, and the
    results. `files` are the Python files of the retriever. Raises UsageError if no sandbox works,
    or if the retriever cannot run in one.
    """
    try:
        json.dumps(dict(spec.params))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"--isolate sends parameters as JSON, and these cannot be encoded: {error}"
        ) from None
    manifest = dataset.manifest
    raw = [Path(name) for name in (manifest.source, *(file.path for file in manifest.raw)) if name]
    ir_datasets = Path(os.environ.get("IR_DATASETS_HOME") or "~/.ir_datasets")
    package = Path(__file__).parents[2]
    needed = [Path.cwd(), Path(sys.prefix), Path(sys.base_prefix), package, *map(Path, files)]
    sandbox = find([home(), dataset.folder, *raw, ir_datasets, out], needed)
    isolated = Isolation(
        spec.name,
        spec.params,
        spec.plugins,
        sandbox=sandbox,
        described=RetrieverDescription(),
        files=file_digests(spec),
    )
    try:
        with closing(isolated.build(seed)) as one:
            described = one.start()
    except RemoteCallError as error:
        last = error.trace.strip().splitlines()[-1]
        raise RunError(f"retriever {spec.name!r} was not built: {last}") from error
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"retriever {spec.name!r} was not built: {error}") from error
    if described.is_oracle:
        raise UsageError(
            "the oracle needs the qrels, which --isolate hides: run it without --isolate"
        )
    return replace(isolated, described=described)


def _result(raw: RawResult) -> Result | RemoteCallError:
    """Converts a raw result to a Result, or to the error that the retriever raised."""
    if raw.error is not None:
        return RemoteCallError(raw.error)
    hits = None if raw.hits is None else [Hit(*hit) for hit in raw.hits]
    return Result(raw.ids, raw.scores, raw.confidence, raw.abstain, hits, raw.answer, raw.ranked_by)


class Isolated(ProcessRetriever):
    """Proxy of a retriever in the sandbox.

    `process` is the id of the last process; `seconds` the time of its last call, measured inside.
    """

    def __init__(self, isolation: Isolation, seed: int) -> None:
        self._isolation, self._seed = isolation, seed
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting = False
        self.process, self.name = 0, isolation.name
        self.seconds: float | None = None
        described = isolation.described
        self.batch_size = described.batch_size
        self.returns_dataset_ids = described.returns_dataset_ids
        self.revision = described.revision
        if described.reports:
            self.report = self._report

    def start(self) -> RetrieverDescription:
        """Starts a process and builds the retriever in it; returns its description.

        Raises RunError if the retriever's code has changed since the start of the run.
        """
        files = file_digests(self._isolation)
        if changed := [
            name for name, sha in self._isolation.files.items() if files.get(name) != sha
        ]:
            raise RunError(
                f"retriever {self.name!r}: {', '.join(changed)} changed since this run began, so "
                "results would mix two systems; start a new run"
            )
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        self._process = subprocess.Popen(
            self._isolation.sandbox.command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C and the terminal belong to the parent
        )
        self.process = self._process.pid
        spec = self._isolation
        request = BuildRequest(
            name=spec.name,
            params=convert(dict(spec.params), Params, f"retriever {spec.name!r}"),
            plugins=list(spec.plugins),
            seed=self._seed,
        )
        return self._ask(request, RetrieverDescription)

    def index(self, corpus: Corpus) -> None:
        """Indexes a corpus, in a new process."""
        self.close()
        self.start()
        self.seconds = self._ask(IndexRequest(), Indexed, corpus).seconds

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        """Returns a Result or an error per query, in order."""
        questions = [(q.text, q.timestamp, q.user_id, q.groups) for q in queries]
        found = self._ask(SearchRequest(questions=questions, k=k), SearchReply)
        self.seconds = found.seconds
        return [_result(raw) for raw in found.results]

    def close(self) -> None:
        """Ends the process and its children; an idle one closes its retriever first."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
            if not self._waiting:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_CLOSE)
        finally:
            misplaced = process.poll() == ResponseMismatchError.left_with
            process.kill()  # and everything in its namespace
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._waiting = False
        if misplaced:
            raise ResponseMismatchError(
                "the process sent an unexpected response after the last one"
            )

    def _report(self) -> Params:
        if self._process is None or self._waiting:  # it cannot answer during a call
            return {}
        return self._ask(ReportRequest(), Reported).report

    def _ask(self, request: Request, kind: type[T], corpus: Corpus | None = None) -> T:
        """Returns the response, checked to be of this kind.

        Raises RemoteCallError for an error of the retriever, RuntimeError if the process ended, and
        UsageError and RunError as raised inside.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the isolated process ended at an earlier error")
        self.seconds = None
        line, waits = b"", process.stdout.fileno()
        self._waiting = True
        try:
            process.stdin.write(messages.dump(request))
            if corpus is not None:
                write_corpus(corpus, process.stdin)
            process.stdin.flush()
            runner = parent_process()  # of a worker
            if runner is not None and runner.sentinel in wait([waits, runner.sentinel]):
                self.close()
                raise RunError("the run was killed")  # unread output
            line = process.stdout.readline()
        except OSError:
            pass  # it has ended, as reported below
        if not line.endswith(b"\n"):
            self.close()
            code = process.returncode
            how = f"was killed by signal {-code}" if code < 0 else f"ended, status {code}"
            raise RuntimeError(f"the isolated process {how}, at {request.__struct_config__.tag!r}")
        self._waiting = False
        response: Response = messages.load(line, Response, f"retriever {self.name!r}")
        if isinstance(response, Ended):
            raise (UsageError if response.kind == "usage" else RunError)(response.message)
        if isinstance(response, Failed):
            raise RemoteCallError(response.trace, response.rate_limit)
        if not isinstance(response, kind):
            raise RuntimeError(f"the isolated process answered with {type(response).__name__}")
        return response
