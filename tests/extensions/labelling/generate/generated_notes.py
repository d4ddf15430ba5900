"""A dozen notes to generate from, two of which say the same in other words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTES = {
    "harbour.md": (
        "---\ntitle: Harbour timetable\nspeaker: Ines\ndate: 2024-03-02\ntags: [a, b]\n---\n"
        "The morning ferry to Skarholm leaves the north pier at twenty past seven. Bicycles "
        "are free."
    ),
    "recipes/sourdough.md": (
        "# Sourdough bread\n\nFeed the rye starter the evening before. The dough rests "
        "overnight in the cold pantry and is baked in an iron pot at 240 degrees, lid on."
    ),
    "recipes/rye.md": (
        "# Rye loaf\n\nThe rye starter is fed in the evening. The dough stays overnight in a "
        "cold room, then is baked in an iron pot at 230 degrees with the lid on."
    ),
    "recipes/copy.txt": (
        "Sourdough bread. FEED the rye starter the evening before; the dough rests overnight "
        "in the cold pantry, and is baked in an iron pot at 240 degrees (lid on)!"
    ),
    "bees.md": (
        "# Keeping bees\n\nVarroa mites are counted on a sugar roll in August. Oxalic acid is "
        "trickled in December, when the colony has no brood."
    ),
    "boiler.md": (
        "# Boiler service\n\nThe pressure of the heating circuit belongs between 1.2 and 1.8 "
        "bar. Error F28 means that the gas valve did not open."
    ),
    "tax.txt": (
        "The allowance for a home office was raised to 1,260 euros a year. Receipts are kept "
        "for ten years."
    ),
    "garden.md": (
        "# Garden in March\n\nPrune the raspberry canes that carried fruit. Broad beans may be "
        "sown under fleece from the second week."
    ),
    "choir.md": (
        "# Choir rehearsal\n\nThe altos rehearse Locus iste on Tuesday. The soloist is ill, so "
        "Marit sings the tenor entry."
    ),
    "router.md": (
        "# Router\n\nThe guest network is switched off at midnight. Firmware 7.57 broke the "
        "mesh repeater in the attic."
    ),
    "trip.txt": (
        "We took the night train from Vienna to Venice. The vaporetto pass for three days was "
        "cheaper than single tickets."
    ),
    "vet.md": (
        "# Vet visit\n\nThe cat weighs 4.6 kilograms. The vaccination against feline leukaemia "
        "is due in October."
    ),
    "short.md": "# Todo\n\nmilk",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    """The files below the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    """Records as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
