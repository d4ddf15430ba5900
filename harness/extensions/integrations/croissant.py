"""Describes exported JSON-lines files in Croissant 1.0, the metadata format of MLCommons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from harness.datasets.manifest import Manifest
from harness.io.files import digest

_OWN_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace samplingRate separator source subField transform"
)
_CONTEXT = {  # as in the examples of the specification
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _OWN_TERMS.split()},
}
_TYPES = {str: "sc:Text", bool: "sc:Boolean", int: "sc:Integer", float: "sc:Float"}
_FILES = {".jsonl": "application/jsonlines", ".tsv": "text/tab-separated-values"}


def write_croissant(folder: Path, manifest: Manifest) -> None:
    """Writes croissant.json: each file of `folder`, and a record set for each `*.jsonl` file.

    A record set has the keys whose values are scalars of one type, or lists of them.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    counts = ", ".join(f"{n} {what}" for what, n in manifest.counts.items())
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest.name,
        "description": f"{manifest.granularity}, {manifest.text} text, split {manifest.split}: "
        f"{counts}. Content {manifest.fingerprint}.",
        "license": manifest.licence,
        "datePublished": manifest.created[:10],
        "distribution": [_file(path, folder) for path in files],
        "recordSet": [_record_set(path) for path in files if path.suffix == ".jsonl"],
    }
    (folder / "croissant.json").write_bytes(orjson.dumps(described, option=orjson.OPT_INDENT_2))


def _file(path: Path, folder: Path) -> dict[str, str]:
    name = path.relative_to(folder).as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": _FILES.get(path.suffix, "text/plain"),
        "sha256": digest(path),
    }


def _record_set(path: Path) -> dict[str, Any]:
    found: dict[str, set[tuple[str | None, bool]]] = {}
    with path.open("rb") as lines:
        for line in lines:
            for key, value in orjson.loads(line).items():
                several = isinstance(value, list)
                if value not in (None, []):
                    kind = _TYPES.get(type(value[0] if several else value))
                    found.setdefault(key, set()).add((kind, several))
    fields = []
    for key, kinds in found.items():
        kind, several = next(iter(kinds))
        if len(kinds) == 1 and kind:
            # Seconds since 1970, which readers of JSON lines turn into dates because of the name.
            kind = "sc:DateTime" if key == "timestamp" else kind
            source = {"fileObject": {"@id": path.name}, "extract": {"column": key}}
            name = f"{path.stem}/{key}"
            field = {"@type": "cr:Field", "@id": name, "name": name, "dataType": kind}
            fields.append({**field, "repeated": several, "source": source})
    return {"@type": "cr:RecordSet", "@id": path.stem, "name": path.stem, "field": fields}
