"""A memory of the words that are shared, as a server by the official SDK; a test runs it.

python mcp_notes_server.py [FILE | PORT]: over its standard input, kept in FILE if one is named, or
over HTTP, where it lives on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")
given = sys.argv[1] if len(sys.argv) > 1 else ""
file = Path(given) if given and not given.isdecimal() else None
kept: dict[str, str] = json.loads(file.read_text()) if file and file.is_file() else {}


@server.tool()
def remember(note: str, key: str = "") -> str:
    """Keep a note; a key is made up where none is given."""
    if note == "unspeakable":
        raise ValueError("of that I keep nothing")
    kept[key or f"note-{len(kept)}"] = note
    if file:
        file.write_text(json.dumps(kept))
    return f"kept {len(kept)}"


@server.tool()
def recall(query: str, limit: int = 10) -> list[dict[str, Any]]:
    """The notes that share the most words."""
    asked = set(query.lower().split())
    scores = {key: len(asked & set(note.lower().split())) for key, note in kept.items()}
    best = sorted(filter(scores.get, scores), key=lambda key: -scores[key])[:limit]
    return [{"key": key, "text": kept[key], "score": scores[key]} for key in best]


@server.tool()
def forget() -> str:
    """Forget everything."""
    kept.clear()
    return "forgotten"


if __name__ == "__main__":
    if given.isdecimal():
        server.run("streamable-http", port=int(given))
    else:
        server.run("stdio")
