"""run.json of a submission: as the harness writes it, or a few lines by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.io.records import Record, read_json_record
from harness.records.run import Params


class SubmittedDataset(Record, forbid_unknown_fields=False):
    """The dataset of a submission; an empty text is not given."""

    name: str = ""
    granularity: str = ""
    text: str = ""
    split: str = ""
    fingerprint: str = ""


class Submission(Record):
    """The metadata of a submission.

    `executed`: the harness ran the system itself, rather than importing its rankings.
    """

    system: str
    version: str | None
    params: Params
    dataset: SubmittedDataset
    k: int
    submitted_by: str | None
    command: str | None
    name: str | None
    executed: bool


class _Retriever(Record, forbid_unknown_fields=False):
    name: str | None = None
    version: str | None = None
    params: Params | None = None


class _Settings(Record, forbid_unknown_fields=False):
    k: int | None = None


class _RunFile(Record, forbid_unknown_fields=False):
    """Both forms: a record of a run, and the fields of one written by hand, which has no parts."""

    dataset: SubmittedDataset | str | None = None
    retriever: _Retriever = _Retriever()
    settings: _Settings = _Settings()
    system: str | None = None
    version: str | None = None
    params: Params | None = None
    granularity: str | None = None
    text: str | None = None
    split: str | None = None
    fingerprint: str | None = None
    k: int | None = None
    submitted_by: str | None = None
    command: str | None = None
    name: str | None = None
    measured: dict[str, Any] | None = None
    imported_from: dict[str, Any] | None = None


def read_submission(path: Path) -> Submission:
    """Reads the run.json of a submission. Raises UsageError for missing and wrong fields."""
    file = read_json_record(path, _RunFile)
    dataset = file.dataset
    if not isinstance(dataset, SubmittedDataset):
        dataset = SubmittedDataset(
            name=dataset or "",
            granularity=file.granularity or "",
            text=file.text or "",
            split=file.split or "",
            fingerprint=file.fingerprint or "",
        )
    system, k = file.system or file.retriever.name, file.k or file.settings.k
    required = {
        "system": system,
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
        "k": k,
    }
    missing = [name for name, value in required.items() if not value]
    if not system or not k or missing:
        raise UsageError(f"{path}: does not say {', '.join(missing)}")
    return Submission(
        system=system,
        version=file.version or file.retriever.version,
        params=file.params or file.retriever.params or {},
        dataset=dataset,
        k=k,
        submitted_by=file.submitted_by,
        command=file.command,
        name=file.name,
        executed=file.measured is not None and file.imported_from is None,
    )
