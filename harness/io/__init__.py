"""Files, checksums, redaction, entry points and terminal output: what every package uses."""
