"""A page as one file: markup, styles, scripts and data, and leave to load nothing else.

The data are JSON, packed with gzip and written in base64, which the page unpacks by itself
(DecompressionStream: every browser since May 2023). So no text of a dataset stands in the markup,
and none can break out of it. The content security policy names the page's own scripts by their
hashes: no other one runs, and nothing is fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).with_name("assets")
VENDOR = Path(__file__).with_name("vendor")

PLOT = tuple(
    (VENDOR / code, VENDOR / f"{name}-LICENSE.txt")
    for code, name in (("d3-7.9.0.min.js", "d3"), ("plot-0.6.17.umd.min.js", "plot"))
)
"""Observable Plot and its licence, for pages with charts: SVG takes the colours of the page."""

_LEVEL = 9  # of gzip


def page(
    title: str,
    body: Path,
    data: Any,
    *,
    styles: Sequence[Path],
    scripts: Sequence[Path],
    libraries: Sequence[tuple[Path, Path]] = (),
    live: bool = False,
) -> bytes:
    """The HTML of a page; the same arguments give the same bytes.

    `scripts` are parts of one module, `libraries` are (file, licence). `live` allows it to ask the
    server that it came from, and nobody else.
    """
    import orjson

    libs = [_library(code, licence) for code, licence in libraries]
    module = "\n".join(script.read_text("utf-8") for script in scripts)
    allowed = " ".join(_hash(script) for script in (*libs, module))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; "
        "form-action 'none'"
    )
    raw = orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)
    packed = base64.b64encode(gzip.compress(raw, _LEVEL, mtime=0)).decode("ascii")
    style = "\n".join(sheet.read_text("utf-8") for sheet in styles)
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
        f'<body data-live="{"yes" if live else "no"}">',
        body.read_text("utf-8"),
        f'<script type="application/gzip" id="data">{packed}</script>',
        *(f"<script>{lib}</script>" for lib in libs),
        f'<script type="module">{module}</script>',
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(parts).encode("utf-8")


def _library(code: Path, licence: Path) -> str:
    """A library as it was published, with the notice that its licence asks to keep."""
    return f"/*!\n{licence.read_text('utf-8').strip()}\n*/\n{code.read_text('utf-8')}"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
