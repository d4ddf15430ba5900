"""Hooks of MkDocs: fill in the generated parts of pages, and check the built site.

`<!-- generated: NAME WORDS -->` is replaced by a part that comes from the code; `PARTS` has the
names. Other HTML comments are for writers and tests, and are removed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from api_pages import api, module, package, returned, vocabulary
from command_pages import command, command_list, run_keys
from file_pages import section
from listing_pages import aliases, datasets, metrics, protocol, retrievers
from schema_pages import log_document_names, log_names, schema
from testing_pages import golden, kinds, simulations

PARTS: dict[str, Callable[..., str]] = {
    "aliases": aliases,
    "api": api,
    "api-module": module,
    "api-package": package,
    "api-returned": returned,
    "api-vocabulary": vocabulary,
    "command": command,
    "command-list": command_list,
    "datasets": datasets,
    "golden-runs": golden,
    "log-document-names": log_document_names,
    "log-names": log_names,
    "metrics": metrics,
    "protocol": protocol,
    "retrievers": retrievers,
    "run-keys": run_keys,
    "schema": schema,
    "section": section,
    "simulations": simulations,
    "test-kinds": kinds,
}

_sources: dict[str, str] = {}
"""The Markdown of each page with its generated parts, by its path."""

_log = logging.getLogger("mkdocs.hooks.harness")
_GENERATED = re.compile(r"^<!-- generated: ([a-z-]+)((?: [\w./-]+)*) -->$", re.M)
_FENCED = re.compile(
    r"(^(?P<indent> *)(?P<fence>`{3,}|~{3,}).*?^(?P=indent)(?P=fence) *$)", re.M | re.S
)
_OUTPUT = re.compile(r"\A( *(?:`{3,}|~{3,}))text *$", re.M)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)"""
)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fills in generated parts; removes comments outside code, and copy buttons of output."""
    filled = _GENERATED.sub(lambda found: PARTS[found[1]](*found[2].split()), markdown)
    _sources[page.file.src_uri] = filled
    parts = _FENCED.split(filled)
    # re.split gives text, then the block and its two named groups, over and over.
    for i in range(0, len(parts), 4):
        parts[i] = _COMMENT.sub("", parts[i])
    for i in range(1, len(parts), 4):
        parts[i] = _OUTPUT.sub(r"\1{ .text .no-copy }", parts[i])
    return "".join(part for i, part in enumerate(parts) if i % 4 < 2)


def _llms(config: Any) -> str:
    """Returns a list of the pages for language models, as llmstxt.org describes it."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    lines += ["Start with [For coding agents](how-to/coding-agents.md).", ""]
    for entry in config["nav"]:
        for title, pages in entry.items():
            lines += [f"## {title}", "", *_links(title, pages), ""]
    return "\n".join(lines)


def _links(title: str, pages: Any) -> Iterator[str]:
    """Yields a line for each page of the navigation below a title."""
    if isinstance(pages, str):
        yield f"- [{title}]({pages})"
    else:
        for page in pages:
            below = page.items() if isinstance(page, dict) else [(title, page)]
            yield from (line for name, one in below for line in _links(name, one))


def on_post_build(config: Any, **_: Any) -> None:
    """Writes llms.txt with the pages as Markdown, and warns, which fails a strict build, of
    anything that would be loaded from a network."""
    site = Path(config["site_dir"])
    for name, text in _sources.items():
        (site / name).write_text(_COMMENT.sub("", text), "utf-8")
    (site / "llms.txt").write_text(_llms(config), "utf-8")
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in _LOADED.finditer(file.read_text("utf-8")):
            address = next(filter(None, found.groups()))
            _log.warning("%s loads %s", file.relative_to(site), address)
