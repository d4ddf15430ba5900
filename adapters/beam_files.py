"""Which files BEAM is, by tier: their names at the publisher's and, where known, their hashes.

The copy at the Hugging Face hub is none of this: it has the chats of the repository before they
were cut to the size of their tier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.dataset.adapter import RemoteFile, Variant
from harness.dataset.adapters.raw_files import refuse_a_part
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

_PINNED = {
    1: (
        ("ea71efd5dcc13f7366d3737b45d532eadb3d1497f3d6f23d1fa1c4004d5ffdf2", 564_977),
        ("047398ff1497674b11585e7b4829c3d64d2d5e63f7f3572c826b73ca1faaf898", 31_547),
    ),
    2: (
        ("3a3bd796f4aa24e8f34e718dc2823ae942663349eb89054f03885051e2daf1c4", 535_114),
        ("d188e929644c9ef9fcd4520e7b5a3daf2c2e069b1247a324bd13d5aadd1ed96e", 29_546),
    ),
    3: (
        ("432d3ae5493c04a17a5b6b0ef7c012a70e70ac5cfcaef13059fca6bedb903009", 552_331),
        ("f53030f3753b0e0a93b330bc62d597cb66375c0c794094d7e69b7646df46e324", 32_522),
    ),
    4: (
        ("e0ef0f74b1f7ac911e8e0518722335c422cbc1112048e9909911b208c51fc027", 720_144),
        ("f69eda522cd7325830c8f78b6f02a571c992b6cf43311fa96f28043fd3c18dae", 34_657),
    ),
    5: (
        ("7d4bbb737bb9fc8430500903af321ba681708f472e42a34bd6f5da8ac548dd9a", 475_450),
        ("bdd0819a911e46951dbf998905b8eba96a0cdb103cd3dda79ae9c6831e5f195d", 29_882),
    ),
    6: (
        ("5365cdc41da212fb7143cf9f191ff7862eed8e9ca175b3728fe593adedc87871", 635_112),
        ("7a6f88dfdeb3f1b582209a745e7c980158dbb2829a9ceae6cdb08bb868a00035", 34_228),
    ),
    7: (
        ("b3e2d90a1d27970161ec2f179f2a382833bb186a1fdf19b28dfc9cc6aefdf3af", 618_349),
        ("2c00219e839d54c7cd3e4fbb396f8a2517fd9f143d3a3b8ea1c4fb9f5c4435c7", 32_366),
    ),
    8: (
        ("3207b8f5aa45cd1b2d1e2f37f224831b4696d0cc2352ef514af08f2092b6c239", 570_827),
        ("d279dbd8fd293692d29f0057b3dd2468ccb97c7da6df28ae2adc8481d9970148", 30_609),
    ),
    9: (
        ("446777f3eed114c27d62030ad86cfb8ad6610fda0fc83dfe98403b8d68b74bd4", 630_826),
        ("b7ab1c7022c0b7ac6928f4c2efadd08e2a438dc91e1288209df066cdcd5e9573", 32_766),
    ),
    10: (
        ("b420ff71ac33686522b8c4f80296a5bfc123d80faf3060ce5e6e91ef730b9aaf", 621_661),
        ("e9bf9bb545b350425a770ef65b501434ba9983c7535b4524dd6ae4d5743b5a95", 32_129),
    ),
    11: (
        ("f3266874081e5a6048727e3cf4ceda9884b357042293f4d57ade9558ee4b9685", 657_744),
        ("3aa98a74a03be59472834422dd14004d3b432a0c800bbef8f316865834449c08", 33_044),
    ),
    12: (
        ("0229c8ad4fbdd675304bf7832fa3e48a7512493897eb3b68f41d0cf947dcc6e0", 667_514),
        ("c36c9b1d4df0d063d1c7db81b35b5ea4743e38a804382d6e557f37ec46e1d6e3", 33_666),
    ),
    13: (
        ("aea586c143dab53cb5a021b3fab23380d5d9628fea1c4b718f91411019166dc6", 568_613),
        ("02dee0ba1d5576aed8ac535328a23fe4f882f6dcff3b96e039162e10d547236b", 32_094),
    ),
    14: (
        ("43fbffd9ca235a980203faf4c5d6f636e97af4f31f6d91d9cbe42035ab4f0b0d", 492_497),
        ("f30350303b4ccd52a36deaf57750a2bf6924fa5885da92d8230797a82dcfbe5f", 30_180),
    ),
    15: (
        ("e758dfbdfe6d5a6bd060c6577e6f0282eb445fd7f93150208dcd56e8f8676f43", 476_327),
        ("6d6ed59bd8cad87ce279c08f42137c2199502d09f198cfa880ef3ab04debd891", 28_314),
    ),
    16: (
        ("a90a86bfe313ce0f6082a69188a500fc2afad2fe86f2fdb1a21c7610ca2a3385", 598_174),
        ("abf20d16a37322112af0fe48f5c43be0d824d54ae2bb2c5e3e069c6e84c54033", 30_613),
    ),
    17: (
        ("fb2067c1ee096dea1cff5cb0f9eafc88e7c6fea41014aebf9ac96ad4a30592bd", 585_782),
        ("7948981c2e40751bfe9ace82e53497d32229245e6012a2e5d4da2e801c929451", 30_779),
    ),
    18: (
        ("0b6224918bb4ffa5e51f22b77d40881daeba233d664c7957fe8937a4a2d75ed2", 628_351),
        ("d813db9e2b416e6ac7cc22841b131ea5c80e5931e690f81bb37aa16c3b9edc3a", 27_006),
    ),
    19: (
        ("dece8764492998bb88c2ec75597bc31c36629483ed1813a6dccdac78ce01bc34", 637_094),
        ("b911651b2b18e835aaac58b2bc3cb018bc782e252b9161dca8174961ca498ce2", 28_691),
    ),
    20: (
        ("774a329b9c43eba22145aadd43203ab6d9a31c1486c70b10b1e2d40908b46758", 638_168),
        ("46b679bffff904fd71ed247f5172e9a4a30ed7eb2fdaacc1d89aac0932e5f043", 30_564),
    ),
}
"""sha256 and bytes of a chat of 100K and of its questions. Those of other tiers are not known."""


def published(tier: str) -> tuple[RemoteFile, ...]:
    """The files of a tier; none where their names are not known (10M)."""
    if tier not in _CUT:
        return ()
    found = []
    for chat in range(1, CHATS[tier] + 1):
        names = (CUT if chat in _CUT[tier] else CHAT, QUESTIONS)
        pins = _PINNED.get(chat) if tier == "100K" else None
        for name, (sha256, size) in zip(names, pins or (("", 0),) * 2, strict=True):
            path = f"chats/{tier}/{chat}/{name}"
            found.append(RemoteFile(path, _RAW + path, sha256=sha256, bytes=size))
    return tuple(found)


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
