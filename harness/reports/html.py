"""Builds a page as one file of markup, styles, scripts and data, which may load nothing else.

The data are JSON, compressed with gzip and encoded in base64, which the page unpacks by itself
(DecompressionStream: every browser since May 2023). So no text of a dataset is in the markup, and
none can break out of it. The content security policy names the page's own scripts by their hashes:
no other script runs, and nothing is fetched.

Scripts are ES modules that import each other by their files, so that a linter knows every name. A
page holds them as one module: each once, after its imports, with one scope for all of them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).with_name("assets").resolve()
_VENDOR = Path(__file__).with_name("vendor")

_PLOT = tuple(
    (_VENDOR / code, _VENDOR / f"{name}-LICENSE.txt")
    for code, name in (("d3-7.9.0.min.js", "d3"), ("plot-0.6.17.umd.min.js", "plot"))
)
"""Observable Plot and its licence, for pages with charts: SVG takes the colours of the page."""

_GLOSSARY = ASSETS / "shared" / "glossary.js"

_LEVEL = 6  # of gzip: 9 takes four times as long and saves 2%

_IMPORT = re.compile(r'^import (?:[^;"]+ from )?"(?P<file>[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=async |class |const |function |let )", re.MULTILINE)


_FAMILIES = ("recall", "hit", "recall_all", "ndcg", "mrr", "precision", "f1", "map", "ndcg_b2")


def metric_order(metric: str) -> tuple[int, str, int]:
    """Returns a sort key of a page's metrics: by family, the known ones first, then by k."""
    family, _, k = metric.partition("@")
    index = _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)
    return (index, family, int(k or 0))


def page(
    title: str,
    name: str,
    data: object,
    *,
    parts: Mapping[str, object] | None = None,
    live: bool = False,
    fetches: bool = False,
    home: str = "",
) -> bytes:
    """Returns the HTML of a page; the same arguments give the same bytes.

    Its markup, styles and the module that draws it are in the folder of assets of that name.
    `parts` are further data by name, each unpacked on first use. `live` lets the page poll its own
    server only; `fetches` lets it get further parts from there. `home` is the address of the board,
    for a page that is served with one. A page that imports shared/charts.js includes Observable
    Plot.
    """
    own = ASSETS / name
    scripts = modules(own / f"{name}.js")
    charts = ASSETS / "shared" / "charts.js" in scripts
    libs = [_library(code, licence) for code, licence in _PLOT] if charts else []
    module = "\n".join(scripts.values())
    allowed = " ".join(_hash(script) for script in (*libs, module))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}; "
        f"connect-src {chr(39)}{'self' if live or fetches else 'none'}{chr(39)}; base-uri 'none'; "
        "form-action 'none'"
    )
    beside = f' data-home="{escape(home)}"' if home else ""
    body = [
        f'<body data-live="{_yes(live)}" data-fetches="{_yes(fetches)}"{beside}>',
        (own / f"{name}.html").read_text("utf-8"),
        _packed("data", data),
        *(_packed(name, part) for name, part in (parts or {}).items()),
        *([_glossary()] if _GLOSSARY in scripts else []),
        *(f"<script>{lib}</script>" for lib in libs),
        f'<script type="module">{module}</script>',
        "</body>",
    ]
    return _document(title, policy, _styles(ASSETS / "shared", own), body)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _packed(name: str, data: object) -> str:
    import orjson

    raw = orjson.dumps(data, default=_every_field, option=orjson.OPT_SERIALIZE_NUMPY)
    packed = base64.b64encode(gzip.compress(raw, _LEVEL, mtime=0)).decode("ascii")
    return f'<script type="application/gzip" id="{escape(name)}">{packed}</script>'


def _every_field(record: Any) -> dict[str, object]:
    """Returns all fields of a record by name; orjson visits their values."""
    names = zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True)
    return {encoded: getattr(record, name) for name, encoded in names}


def _glossary() -> str:
    """Returns the meaning of each metric, by name, as glossary.js reads it."""
    from harness.scoring.metrics import METRICS
    from harness.scoring.metrics.described import DESCRIBED

    meanings = {one.name: one.about for one in (*DESCRIBED, *METRICS.values())}
    text = json.dumps(meanings, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="glossary">{text}</script>'


def refusal(words: str, home: str = "") -> bytes:
    """Returns a page of one sentence, for an address with nothing to show, and a link to the board.

    Without `home` there is no link, as for a server of any address.
    """
    body = [
        "<body>",
        "<main><section><h1>Nothing to show</h1>",
        f"<p>{escape(words)}</p>",
        f'<p><a href="{escape(home)}">The board</a></p>' if home else "",
        "</section></main>",
        "</body>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return _document("Nothing to show", policy, _styles(ASSETS / "shared"), body)


def _document(title: str, policy: str, style: str, body: list[str]) -> bytes:
    """Returns an HTML file around a body; the policy precedes everything that it governs."""
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        *body,
        "</html>",
        "",
    ]
    return "\n".join(parts).encode("utf-8")


def _styles(*folders: Path) -> str:
    sheets = [sheet for folder in folders for sheet in sorted(folder.glob("*.css"))]
    return "\n".join(sheet.read_text("utf-8") for sheet in sheets)


def modules(script: Path) -> dict[Path, str]:
    """Returns a module after all its imports, by file, without import and export keywords.

    In a circular import, the file that is reached first comes last.
    """
    found: dict[Path, str] = {}

    def take(file: Path) -> None:
        text = file.read_text("utf-8")
        found[file] = ""
        for name in _IMPORT.findall(text):
            if (imported := (file.parent / name).resolve()) not in found:
                take(imported)
        del found[file]  # to follow its imports
        found[file] = _EXPORT.sub("", _IMPORT.sub("", text))

    take(script.resolve())
    return found


def _library(code: Path, licence: Path) -> str:
    """Returns a library as published, with the notice that its licence requires."""
    return f"/*!\n{licence.read_text('utf-8').strip()}\n*/\n{code.read_text('utf-8')}"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
