"""Archives are unpacked whole and inside their folder, or not at all."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.dataset.archive import unpack
from harness.errors import UsageError

FILES = {"scifact/corpus.jsonl": b"corpus\n" * 9000, "scifact/qrels/test.tsv": b"q\td\t1\n"}


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scifact/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        folder = tarfile.TarInfo("scifact")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


Make = Callable[[Path, dict[str, bytes]], Path]
both = pytest.mark.parametrize("make", [make_zip, make_tar])


@both
def test_the_files_replace_what_stood_there(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old").write_text("old")
    unpack(make(tmp_path / "archive", FILES), folder)
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == FILES
    assert sorted(p.name for p in tmp_path.iterdir()) == ["archive", "out"]


@both
@pytest.mark.parametrize(
    "name", ["../out.txt", "a/../../out.txt", "/tmp/out.txt", "..\\out.txt", "C:\\out.txt"]
)
def test_a_path_that_climbs_out_is_refused_and_nothing_is_left(
    make: Make, name: str, tmp_path: Path
) -> None:
    archive = make(tmp_path / "archive", {**FILES, name: b"out"})
    with pytest.raises(UsageError, match=r"^[^\n]*has a path that leaves the folder[^\n]*$"):
        unpack(archive, tmp_path / "in" / "out")
    assert [p.name for p in tmp_path.rglob("*")] == ["archive", "in"]


@both
def test_a_link_is_refused_and_nothing_is_left(make: Make, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", FILES)
    if make is make_zip:
        with zipfile.ZipFile(archive, "a") as zipped:
            link = zipfile.ZipInfo("scifact/link")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            zipped.writestr(link, "/etc/passwd")
    else:
        with tarfile.open(archive, "w:gz") as tarred:
            member = tarfile.TarInfo("scifact/link")
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tarred.addfile(member)
    with pytest.raises(UsageError, match="'scifact/link' is a link"):
        unpack(archive, tmp_path / "in" / "out")
    assert [p.name for p in tmp_path.rglob("*")] == ["archive", "in"]


@both
@pytest.mark.parametrize("keep", [0, 1, 60, 150, -40, -9, -1])
def test_an_archive_cut_off_anywhere_is_refused_and_nothing_is_left(
    make: Make, keep: int, tmp_path: Path
) -> None:
    archive = make(tmp_path / "archive", FILES)
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(UsageError, match=rf"^{archive}: not a tar or zip[^\n]*get it again$"):
        unpack(archive, tmp_path / "in" / "out")
    assert not list((tmp_path / "in").iterdir())


@both
def test_flipped_bytes_in_the_content_are_noticed(make: Make, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", FILES)
    data = bytearray(archive.read_bytes())
    data[130] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(UsageError, match="not a tar or zip"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
