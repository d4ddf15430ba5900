"""ArcadeDB with its Bolt listener on loopback: `python arcadedb_bolt.py FOLDER PASSWORD PORT`.

It prints `ready` when it listens, and ends with its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import arcadedb_embedded

folder, password, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = arcadedb_embedded.create_server(
    root_path=str(folder),
    root_password=password,
    config={
        "host": "127.0.0.1",
        "http_port": 0,
        "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "bolt_port": port,
    },
)
server.start()
server.create_database("notes")
print("ready", flush=True)
sys.stdin.read()
server.stop()
