"""Normalised datasets: adapter protocol, registry, cache, reader and writer."""

from pathlib import Path

# `adapters` is a folder here if installed, and in a checkout a link to the top-level folder. If the
# link is missing (source archives, systems without links), the top-level folder is used directly.
if not Path(__file__).with_name("adapters").is_dir():
    __path__.append(str(Path(__file__).parents[2]))
