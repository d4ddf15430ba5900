"""What the core works without: each folder is an extension, found through entry points."""
