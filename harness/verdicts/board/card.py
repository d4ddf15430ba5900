"""What a submission says of itself: the run.json beside its rankings, by the harness or by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import read_json

_LONGEST = 100
"""Characters of a system's name: it is part of a folder's."""
_FINGERPRINT = 8
"""Characters of a fingerprint that tell data from other data: so many are shown everywhere."""
_VIEW = ("granularity", "text", "split")
_KINDS = {"a text": str, "an object": dict, "a whole number": int}


@dataclass(frozen=True)
class Submission:
    """What a submission says of itself."""

    folder: Path
    system: str
    version: str | None
    params: dict[str, Any]
    dataset: str
    view: dict[str, Any]
    fingerprint: str
    k: int
    submitted_by: str | None
    command: str | None
    name: str | None = None

    @classmethod
    def read(cls, folder: Path) -> Submission:
        """Raises UsageError for what is missing, or of another kind than it must be, naming it."""
        path = folder / "run.json"
        record = read_json(path)
        if not isinstance(record, dict):
            raise UsageError(f"{path}: must be a JSON object")
        retriever = _an("an object", path, record, "retriever") or {}
        settings = _an("an object", path, record, "settings") or {}
        about = record.get("dataset")
        if not isinstance(about, dict):
            about = {**record, "name": about}
        said = {
            "system": record.get("system") or retriever.get("name"),
            "dataset": about.get("name"),
            "fingerprint": about.get("fingerprint"),
            "k": record.get("k") or settings.get("k"),
        }
        missing = [name for name, value in said.items() if not value]
        if missing:
            raise UsageError(f"{path}: does not say {', '.join(missing)}")
        more = {key: record.get(key) or retriever.get(key) for key in ("version", "params")}
        submission = cls(
            folder,
            _an("a text", path, said, "system"),
            _an("a text", path, more, "version"),
            _an("an object", path, more, "params") or {},
            _an("a text", path, said, "dataset"),
            {key: _an("a text", path, about, key) or "" for key in _VIEW},
            _an("a text", path, said, "fingerprint"),
            _an("a whole number", path, said, "k"),
            _an("a text", path, record, "submitted_by"),
            _an("a text", path, record, "command"),
            _an("a text", path, record, "name"),
        )
        submission._check(path)
        return submission

    def _check(self, path: Path) -> None:
        if self.k < 1:
            raise UsageError(f"{path}: k must be 1 or more, not {self.k}")
        if len(self.system) > _LONGEST or not self.system.isprintable():
            raise UsageError(
                f"{path}: system must be a name of one line, of at most {_LONGEST} characters"
            )
        if len(self.fingerprint) < _FINGERPRINT:
            raise UsageError(
                f"{path}: fingerprint must have {_FINGERPRINT} characters or more, not "
                f"{self.fingerprint!r}; `harness datasets info {self.dataset}` shows it"
            )

    def speaks_of(self, dataset: Dataset) -> bool:
        """Whether the dataset is of the granularity, text and split that are said, if any are."""
        return all(
            getattr(dataset.manifest, key) == value for key, value in self.view.items() if value
        )


def _an(kind: str, path: Path, record: dict[str, Any], key: str) -> Any:
    """What stands there, of this kind, or None for nothing."""
    value = record.get(key)
    if value is not None and (not isinstance(value, _KINDS[kind]) or isinstance(value, bool)):
        raise UsageError(f"{path}: {key} must be {kind}, not {str(value)[:40]!r}")
    return value
