"""Rankings as columns, and readers and writers of run files."""
