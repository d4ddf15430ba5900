"""A retriever in a process of its own for every haystack, without the dataset's files in reach.

The process is started in a sandbox for one haystack and ends with it. It is sent what a retriever
may see and answers in plain values, never in objects, which are judged as any retriever's are.
Its code is not even imported on this side, which has the answer key.
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
from harness.extensions.sandbox.sandbox import Sandbox, find
from harness.io.records import convert
from harness.records.run import Params, RetrieverRecord
from harness.retrievers.contract import Corpus, Hit, Question, Result
from harness.retrievers.registry import RetrieverSpec
from harness.runs import messages
from harness.runs.bench import ProcessRetriever, ToldError
from harness.runs.messages import (
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
from harness.runs.provenance import file_digests, isolated_record
from harness.runs.request import IsolatedSpec

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from harness.extensions.sandbox.inside import main; main()"
)
_SECONDS_TO_CLOSE = 30
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Isolation(IsolatedSpec):
    """A retriever's spec with the sandbox of its processes, its description of itself, and the
    sha256 of its files; picklable."""

    sandbox: Sandbox
    described: RetrieverDescription
    files: dict[str, str]

    def build(self, seed: int = 0) -> Isolated:
        """Return the retriever on this side; a process is started when it indexes."""
        return Isolated(self, seed)

    @property
    def sandbox_name(self) -> str:
        """What the sandbox is made with."""
        return self.sandbox.by

    def record(self) -> RetrieverRecord:
        """Record the retriever, whose code is in the sandbox and describes itself."""
        return isolated_record(self, self.described)


def isolation(
    spec: RetrieverSpec, files: Sequence[str], dataset: Dataset, out: Path, seed: int
) -> Isolation:
    """Return the sandbox for a retriever over `dataset`, which is asked in it what it is.

    Hidden are the cache, the dataset's raw files with the folder they came from, what ir_datasets
    keeps, and the results. `files` are Python files that the retriever is made of. Raises
    UsageError where there is no sandbox or a retriever that cannot be in one.
    """
    try:
        json.dumps(dict(spec.params))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"--isolate sends parameters as JSON, which these are not: {error}"
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
    except ToldError as error:
        last = error.trace.strip().splitlines()[-1]
        raise RunError(f"retriever {spec.name!r} was not built: {last}") from error
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"retriever {spec.name!r} was not built: {error}") from error
    if described.is_oracle:
        raise UsageError(
            "the oracle is shown the answer key, from which --isolate keeps a retriever: run it "
            "without"
        )
    return replace(isolated, described=described)


def _result(raw: RawResult) -> Result | ToldError:
    """Convert a raw result; where the retriever raised over it, to the error."""
    if raw.error is not None:
        return ToldError(raw.error)
    hits = None if raw.hits is None else [Hit(*hit) for hit in raw.hits]
    return Result(raw.ids, raw.scores, raw.confidence, raw.abstain, hits, raw.answer, raw.ranked_by)


class Isolated(ProcessRetriever):
    """A retriever that asks the one in the sandbox.

    `process` is the number of the last one; `seconds` what its last call took in there.
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
        """Start a process, build the retriever in it; returns its description of itself.

        Raises RunError where the retriever's code is not that with which the run began.
        """
        files = file_digests(self._isolation)
        if changed := [
            name for name, sha in self._isolation.files.items() if files.get(name) != sha
        ]:
            raise RunError(
                f"retriever {self.name!r}: {', '.join(changed)} was changed since this run began, "
                "so it would be of two systems; run it anew"
            )
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        self._process = subprocess.Popen(
            self._isolation.sandbox.command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the parent's, the terminal too
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
        """Take in a corpus, in a new process."""
        self.close()
        self.start()
        self.seconds = self._ask(IndexRequest(), Indexed, corpus).seconds

    def search(self, queries: Sequence[Question], k: int) -> list[Any]:
        """Ask; a Result or an error a question, in their order."""
        questions = [(query.text, query.timestamp) for query in queries]
        found = self._ask(SearchRequest(questions=questions, k=k), SearchReply)
        self.seconds = found.seconds
        return [_result(raw) for raw in found.results]

    def close(self) -> None:
        """End the process and all that it started; one that waits for a question closes first."""
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
            process.kill()  # and with it everything in its namespace
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._waiting = False
        if misplaced:
            raise ResponseMismatchError(
                "a reply came after the last one that was asked for, as was said"
            )

    def _report(self) -> Params:
        if self._process is None or self._waiting:  # in the midst of a call it cannot answer
            return {}
        return self._ask(ReportRequest(), Reported).report

    def _ask(self, request: Request, kind: type[T], corpus: Corpus | None = None) -> T:
        """Returns the response, which is of this kind.

        Raises ToldError for an error of the retriever, RuntimeError for a process that ended, and
        UsageError and RunError as they were raised inside.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the isolated process is not running any more: it failed before")
        self.seconds = None
        line, waits = b"", process.stdout.fileno()
        self._waiting = True
        try:
            process.stdin.write(messages.dump(request))
            if corpus is not None:
                corpus.send(process.stdin)
            process.stdin.flush()
            runner = parent_process()  # of a worker's
            if runner is not None and runner.sentinel in wait([waits, runner.sentinel]):
                self.close()
                raise RunError("the run was killed")  # which nobody is there to read
            line = process.stdout.readline()
        except OSError:
            pass  # it is gone, as is said below
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
            raise ToldError(response.trace, response.rate_limit)
        if not isinstance(response, kind):
            raise RuntimeError(f"the isolated process gave {type(response).__name__} for an answer")
        return response
