"""Changes of what was said: written, checked and read back; who has none is as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import Fill, prepared

from harness.datasets.manifest import FILES
from harness.datasets.reader import ChangedRow, Dataset
from harness.datasets.verify import verify
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.io.checksums import BLOCK_SUMS, DamagedError
from harness.schema import Change


def talk(*changes: Change) -> Fill:
    """Two haystacks with the same ids: in `b` everything was said 100 seconds later."""

    def fill(out: DatasetWriter) -> None:
        rows = [out.document(id_, id_, timestamp=when) for id_, when in (("x", 1), ("y", 2))]
        out.haystack("a", rows)
        rows = [out.document(id_, id_, timestamp=1) for id_ in ("x", "y", "z")]
        out.haystack("b", rows, [101, 102, 103])
        out.haystack("c", [0])
        for change in changes:
            out.change(change)

    return fill


FORGET = Change("b", "forget", "z", 130)
UPDATE = Change("b", "update", "x", 102, "y")


def test_changes_are_read_by_haystack_as_rows_in_time_order(tmp_path: Path) -> None:
    mine = Change("a", "forget", "x", 50, "y")
    dataset = prepared(tmp_path / "data", talk(FORGET, UPDATE, mine))
    assert dataset.has_changes
    assert dataset.changes(0) == [ChangedRow("forget", 0, 50, 1)]
    assert dataset.changes(1) == [
        ChangedRow("update", 2, 102, 3),
        ChangedRow("forget", 4, 130, None),
    ]
    assert dataset.changes(2) == []
    assert dataset.manifest.counts["changes"] == 3
    assert [found.ok for found in verify(dataset) if found.what == "content"] == [True]


def test_who_has_no_changes_has_no_table_of_them(tmp_path: Path, sample: Dataset) -> None:
    dataset = prepared(tmp_path / "data", talk())
    assert set(dataset.manifest.files) == set(FILES)
    assert sorted(path.name for path in dataset.folder.glob("*.arrow")) == sorted(
        [*FILES, BLOCK_SUMS]
    )
    assert not dataset.has_changes
    assert dataset.changes(0) == []
    assert "changes" not in dataset.manifest.counts
    # As it was before datasets could have changes: published numbers hang on it.
    assert sample.fingerprint.startswith("0ce7190a")


def test_a_change_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    sets = [
        (),
        (FORGET,),
        (UPDATE,),
        (FORGET, UPDATE),
        (Change("b", "forget", "z", 131),),
        (Change("b", "forget", "z", 130, "x"),),
        (Change("b", "forget", "y", 130),),
        (Change("a", "forget", "y", 130),),
    ]
    prints = {prepared(tmp_path / str(i), talk(*one)).fingerprint for i, one in enumerate(sets)}
    assert len(prints) == len(sets)


def test_a_table_that_is_not_the_manifest_s_is_told(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "data", talk(FORGET))
    other = prepared(tmp_path / "other", talk(Change("b", "forget", "y", 130)))
    (dataset.folder / "changes.arrow").write_bytes((other.folder / "changes.arrow").read_bytes())
    with pytest.raises(DamagedError, match=r"changes\.arrow: is damaged"):
        Dataset(dataset.folder)
    (dataset.folder / "changes.arrow").unlink()
    assert not dataset.manifest.matches(dataset.folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("b", "drop", "x", 130), "the kind 'drop' is none of update, forget"),
        (Change("d", "forget", "x", 130), "the haystack 'd', which is not there"),
        (Change("a", "forget", "z", 130), "the document 'z' is not in the haystack 'a'; add it"),
        (Change("a", "update", "x", 130, "z"), "the document 'z' is not in the haystack 'a'"),
        (Change("b", "update", "x", 130), "an update by nothing; name the new document"),
        (Change("b", "forget", "x", 130, "x"), "is changed by itself"),
        (Change("b", "forget", "x", 100), "before the document 'x' was said"),
        (Change("b", "update", "x", 101, "y"), "before the document 'y' was said"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, change: Change, said: str
) -> None:
    with pytest.raises(UsageError) as error:
        prepared(tmp_path / "data", talk(UPDATE, change))
    assert str(error.value).startswith(f"change 2, of the document {change.document!r}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_change_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"change 3.*: the same change as change 1"):
        prepared(tmp_path / "data", talk(FORGET, UPDATE, FORGET))
