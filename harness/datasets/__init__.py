"""The normalised dataset: adapters' contract, catalogue, cache, reader and writer."""

from pathlib import Path

# Installed, `adapters` is a folder here; in a checkout it is a link to the one at the top level.
# Where the link was lost (source archives, systems without links) that one is found all the same.
if not Path(__file__).with_name("adapters").is_dir():
    __path__.append(str(Path(__file__).parents[2]))
