"""Which files BEAM is, by tier: their names at the publisher's and, where known, their hashes.

The copy at the Hugging Face hub is none of this: it has the chats of the repository before they
were cut to the size of their tier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.datasets.adapter import RemoteFile, Variant
from harness.datasets.adapters.raw_files import published_files, refuse_a_part
from harness.errors import UsageError

_CHAT = re.compile(r"[0-9]{1,9}")
CHAT, CUT, QUESTIONS = (
    "chat.json",
    "chat_trunecated.json",
    "probing_questions/probing_questions.json",
)
REPOSITORY = "https://github.com/mohammadtavakoli78/BEAM"
_RAW = (
    "https://raw.githubusercontent.com/mohammadtavakoli78/BEAM/"
    "b2a3ee8ba12d68f83143dda191097dc3e028ddd3/"
)
CHATS = {"100K": 20, "500K": 35, "1M": 35, "10M": 10}
"""How many chats each tier has, numbered from 1."""

_CUT = {
    "100K": (5, 7, 10, 11, 12, 16, 17, 18, 19, 20),
    "500K": (),
    "1M": (6, 11, 12, 13, 14, 18, 19, 20, 21, 24, 25, 26, 28, 30, 33, 34),
}
"""The chats that were cut to the size of their tier: the authors' code reads that file then."""

_PINS = Path(__file__).with_name("beam.sha256")
"""The files of 100K; the hashes of those of other tiers are not known."""


def published(tier: str) -> tuple[RemoteFile, ...]:
    """The files of a tier; none where their names are not known (10M)."""
    if tier not in _CUT:
        return ()
    pinned = {one.name: one for one in published_files(_PINS, _RAW)}
    paths = (
        f"chats/{tier}/{chat}/{name}"
        for chat in range(1, CHATS[tier] + 1)
        for name in (CUT if chat in _CUT[tier] else CHAT, QUESTIONS)
    )
    return tuple(pinned.get(path) or RemoteFile(path, _RAW + path) for path in paths)


def local(source: Path, variant: Variant) -> Mapping[str, Path]:
    """The files of a local copy: a clone of the repository, its `chats`, or the tier's own folder.

    Raises UsageError where there is no such folder, or a chat or its questions are missing.
    """
    tier = variant.name.upper()
    folder = _folder(source, tier)
    files = {}
    for chat in _numbered(folder):
        cut = (folder / str(chat) / CUT).is_file()
        for name in (CUT if cut else CHAT, QUESTIONS):
            path = folder / str(chat) / name
            if not path.is_file():
                raise UsageError(f"{path}: no such file; get it again from {REPOSITORY}")
            files[f"chats/{tier}/{chat}/{name}"] = path
    refuse_a_part(files, variant, folder)
    return files


def _folder(source: Path, tier: str) -> Path:
    """The folder whose subfolders are the tier's chats. Raises UsageError."""
    for folder in (source / "chats" / tier, source / tier):
        if folder.is_dir():
            return folder
    if source.is_dir() and source.name not in {*CHATS} - {tier} and _numbered(source):
        return source
    raise UsageError(
        f"{source}: no chats of {tier} here; name a clone of {REPOSITORY}, its folder chats, or "
        f"chats/{tier}"
    )


def _numbered(folder: Path) -> list[int]:
    """The numbers of the chats in a folder."""
    return sorted(int(path.name) for path in folder.iterdir() if _CHAT.fullmatch(path.name))
