"""Foreign code in a process of its own, with `--isolate`."""
