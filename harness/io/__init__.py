"""Files, checksums, redaction, entry points and terminal output, shared by all packages."""
