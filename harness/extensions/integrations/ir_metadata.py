"""Describes a run in ir_metadata 0.1 (https://www.ir-metadata.org), as comments of a run file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from harness.records.run import RunRecord
from harness.runs.folder.rankings import trec_tag
from harness.runs.folder.run_folder import RunFolder, read_scores
from harness.scoring.metrics import Metric

_TREC_EVAL = {"recall": "recall", "hit": "success", "precision": "P", "ndcg": "ndcg_cut"}


def ir_metadata(folder: Path) -> bytes:
    """Returns the comment lines for the run of a folder; `actor` is left to fill in.

    Scalars are written as JSON, which YAML includes. Raises UsageError if the folder is not a
    run's.
    """
    run = RunFolder(folder).record
    measures = _measures(folder) if (folder / "scores.json").is_file() else []
    values = {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": trec_tag(run.retriever.name),
        "platform": _platform(run),
        "research goal": {"evaluation": {"reported measures": measures}},
        "implementation": {
            "executable": {"cmd": run.command},
            "source": {"lang": ["python"], "commit": run.git and run.git.commit},
        },
        "method": {
            "automatic": True if run.executed else None,
            "retrieval": [
                {"name": run.title, "method": run.retriever.name, "params": run.retriever.params}
            ],
        },
        "actor": {"name": None, "team": None},
        "data": {"test collection": _collection(run)},
    }
    lines = ["ir_metadata.start", *_lines(values), "ir_metadata.end", ""]
    return "\n# ".join(["", *lines])[1:-2].encode()


def _platform(run: RunRecord) -> dict[str, Any]:
    versions = {name: version for name, version in run.versions.items() if name != "harness"}
    machine = run.machine
    system, _, architecture = (machine.system if machine else "").partition(" ")
    return {
        "hardware": {
            "cpu": {
                "model": machine and machine.processor,
                "architecture": architecture or None,
                "number of cores": machine and machine.cores,
            }
        },
        "operating system": {"kernel": system or None},
        "software": {
            "libraries": {"python": [f"{name}=={version}" for name, version in versions.items()]},
            "retrieval toolkit": [f"memory-retrieval-harness=={run.versions.get('harness')}"],
        },
    }


def _collection(run: RunRecord) -> dict[str, Any]:
    family, _, name = run.dataset.name.partition("/")
    return {
        "name": run.dataset.name,
        "ir_datasets": name if family == "ir" else None,
        "granularity": run.dataset.granularity,
        "split": run.dataset.split,
        "fingerprint": run.dataset.fingerprint,
    }


def _measures(folder: Path) -> list[str]:
    """Returns the metrics of the run's first protocol, by trec_eval's names where it has them."""
    metrics = map(Metric.parse, read_scores(folder).protocols[0].overall)
    return [
        f"{_TREC_EVAL[metric.name]}_{metric.k}"
        if metric.name in _TREC_EVAL and str(metric) == f"{metric.name}@{metric.k}"
        else str(metric)
        for metric in metrics
    ]


def _lines(values: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yields the lines of a mapping as YAML, without empty values."""
    for key, value in values.items():
        if isinstance(value, dict) and key != "actor":
            if below := [*_lines(value, indent + "  ")]:
                yield f"{indent}{key}:"
                yield from below
        elif value is not None and value != []:
            yield f"{indent}{key}: {orjson.dumps(value).decode()}"
