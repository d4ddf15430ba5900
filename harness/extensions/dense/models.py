"""Locates the files of an embedding model, and determines their revision."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.errors import RunError, UsageError
from harness.io.files import digest, read_json

_KINDS = (".json", ".txt", ".model", ".py", ".safetensors")
_WEIGHTS = (*_KINDS, ".bin")


@dataclass(frozen=True)
class Model:
    """A local model. `revision` is the hub's commit, else a digest of the files."""

    name: str
    folder: Path
    revision: str

    def config(self, file: str) -> dict[str, Any]:
        """Returns one of its JSON files, or an empty object."""
        path = self.folder / file
        return dict(read_json(path)) if path.is_file() else {}


def locate(name: str, revision: str = "", also: tuple[str, ...] = ()) -> Model:
    """Finds the model `name`: a folder, an installed package, or a name on the hub.

    Models on the hub are downloaded once, to the hub's cache; HF_ENDPOINT, HF_TOKEN and offline
    mode are respected. `revision` is a branch, tag or commit on the hub; `also` lists additional
    files. Raises UsageError for an invalid name, RunError if the download fails.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Model(folder.resolve().name, folder, _digest(folder))
    carried = packaged(name)
    if carried is not None:
        return Model(name, carried, _digest(carried))
    return _from_hub(name, revision, also)


def packaged(name: str) -> Path | None:
    """Returns the folder of the model in the installed package `name`, or None."""
    try:
        package = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    weights = [file for file in package.files or () if file.name == "model.safetensors"]
    folders = (Path(str(package.locate_file(file))).parent for file in weights)
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def _digest(folder: Path) -> str:
    """Returns the sha256 of the names and contents of files that affect vectors."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in _WEIGHTS)
    if not any(path.name == "config.json" for path in files):
        raise UsageError(f"{folder}: contains no model (no config.json)")
    lines = (f"{path.relative_to(folder).as_posix()} {digest(path)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _from_hub(name: str, revision: str, also: tuple[str, ...]) -> Model:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    if not sys.stderr.isatty():
        disable_progress_bars()

    # sentence-transformers' short names lack their owner.
    repository = name if "/" in name else f"sentence-transformers/{name}"

    def fetch(kinds: tuple[str, ...]) -> Path:
        wanted = [*(f"*{kind}" for kind in kinds), *also]
        # Copies of the same weights for other tools.
        other = ["openvino/*"] if also else ["onnx/*", "openvino/*"]
        return Path(
            snapshot_download(
                repository, revision=revision or None, allow_patterns=wanted, ignore_patterns=other
            )
        )

    try:
        folder = fetch(_KINDS)
        if not any(folder.rglob("*.safetensors")):
            folder = fetch(_WEIGHTS)
    except HFValidationError:
        raise UsageError(
            f"model {name!r} is neither a folder, nor an installed package with a model, nor a "
            "name on the hub (owner/name)"
        ) from None
    except Exception as error:
        said = (str(error).strip() or "no reason given").splitlines()[0]
        raise RunError(
            f"model {name!r} is neither a folder nor an installed package, and the download from "
            f"the hub failed: {type(error).__name__}: {said}"
        ) from error
    return Model(name, folder, folder.name)
