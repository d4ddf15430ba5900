"""All leakage checks of a labelled set, and what they looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.labelling.generate.benchmarks import Benchmark, named, prepared
from harness.labelling.generate.labelled import LabelledSet, read_set
from harness.labelling.generate.leakage import leaks, public, quotes, splits
from harness.labelling.generate.made import Made
from harness.labelling.generate.near import Embed, embedder
from harness.labelling.generate.repeated import content_words
from harness.retrievers.words import Words

LEAKAGE = "leakage.json"

Found = dict[str, Any]


def check(
    labelled: LabelledSet,
    embed: Embed | None,
    similarity: float | None,
    against: Sequence[Benchmark] = (),
) -> Found:
    """What the three checks found (see leakage.py), `leaks` how many findings are leaks.

    `against` are looked at beside the datasets that are prepared here.
    """
    cached, not_looked_at = prepared()
    asked = list(against)
    there = {one.dataset.fingerprint for one in asked}
    every = [*asked, *(one for one in cached if one.dataset.fingerprint not in there)]
    found: Found = {
        "quotes": quotes(labelled),
        "splits": splits(labelled, embed, similarity),
        "public": {"looked_at": public(labelled, every), "not_looked_at": not_looked_at},
    }
    return {**found, "leaks": leaks(found)}


def check_folder(
    folder: Path,
    similarity: float | None,
    embedding: str = "",
    against: Sequence[str] = (),
    *,
    quiet: bool = True,
) -> Found:
    """The same of a labelling project, or of a folder that the dataset `labelled` reads.

    Raises UsageError for any other folder, and where the model is missing.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a labelling project or a labelled set")
    what = "harness label check (without --similarity off)"
    embed = embedder(what, embedding) if similarity is not None else None
    return check(read_set(folder), embed, similarity, named(against, quiet=quiet))


def asking_the_same(queries: Sequence[Made]) -> list[list[int]]:
    """For queries of one haystack with the same content words: a document of each, together."""
    terms = Words()
    found: dict[tuple[object, ...], list[int]] = {}
    for made in queries:
        words = content_words(made.text, terms)
        if words:
            found.setdefault((made.haystack, words), []).append(made.golds[0])
    return [together for together in found.values() if len(together) > 1]
