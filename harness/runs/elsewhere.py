"""What a process on another machine must have as the one that started the run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.dataset.remote_store import VARIABLE
from harness.errors import UsageError
from harness.retrievers.registry import RetrieverSpec
from harness.runs.provenance import file_digests, versions


@dataclass(frozen=True)
class Told:
    """Part of the environment, versions, and digests of a retriever's own files."""

    environment: Mapping[str, str]
    versions: Mapping[str, str]
    builds: RetrieverSpec | None
    digests: Mapping[str, str]

    @classmethod
    def of(cls, builds: Any) -> Told:
        """What to tell processes that build a retriever from `builds`."""
        spec = builds if isinstance(builds, RetrieverSpec) else None
        environment = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
        return cls(environment, versions(), spec, file_digests(spec) if spec else {})

    def settle(self) -> None:
        """Make this process one of the run's.

        Raises UsageError where it would work otherwise: with other versions, or other code.
        """
        os.environ.update(self.environment)
        os.environ["TQDM_DISABLE"] = "1"  # nobody sees its bars
        here = {**versions(), **(file_digests(self.builds) if self.builds else {})}
        for name, there in {**self.versions, **self.digests}.items():
            if here.get(name) != there:
                raise UsageError(
                    f"--backend ray: {platform.node()} has {name} {here.get(name, 'not at all')}, "
                    f"and where the run was started it is {there}: numbers could differ; install "
                    "the same there, or name it in runtime_env"
                )
