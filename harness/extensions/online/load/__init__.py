"""Load and write-to-read lag of a retriever."""
