"""Files, checksums, redaction and terminal output: what every package writes with."""
