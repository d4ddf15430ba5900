"""Files of a run that do not belong together, or are not as they were written, give no number."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.analysis.compare.compare import compare
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import read_json, write_bytes
from harness.runs.folder import score_folder
from harness.runs.folder.run_folder import RunFolder, note_in, read_scores
from harness.runs.folder.score_folder import score_run
from harness.scoring.protocols import Choices

Runs = Callable[..., Path]


@pytest.fixture
def pair(sample_run: Runs, sample: Dataset, tmp_path: Path) -> tuple[Path, Path]:
    """Two scored runs that may be damaged."""
    folders = []
    for name in ("bm25", "tfidf"):
        made = sample_run(name)
        folders.append(Path(shutil.copytree(made, tmp_path / made.name)))
        score_run(folders[-1], sample)
    return folders[0], folders[1]


@pytest.mark.slow
def test_scores_of_which_half_was_written_are_refused_until_they_are_scored_again(
    pair: tuple[Path, Path], sample: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        write_bytes(path, data)
        if path.name == "scores.parquet":
            raise KeyboardInterrupt  # as the power goes, once the first file is replaced

    with monkeypatch.context() as patch:
        patch.setattr(score_folder, "write_bytes", full)
        with pytest.raises(KeyboardInterrupt):
            score_run(pair[1], sample, Choices(ks=(3,)))
    with pytest.raises(UsageError, match=r"scores\.parquet: is not the file .* makes it again"):
        compare(pair)
    score_run(pair[1], sample)
    compare(pair)


@pytest.mark.slow
def test_a_number_changed_by_hand_passes_no_verdict(
    pair: tuple[Path, Path], harness: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "gate.toml").write_text(
        '[[at_least]]\nmetric = "recall@10"\nvalue = 0.9\n', "utf-8"
    )
    path = pair[0] / "scores.json"
    scores = orjson.loads(path.read_bytes())
    scores["protocols"][0]["slices"]["all"]["value"][0] = 0.99
    for seal, said in ((scores["checksums"], "was changed since"), (None, "has no checksums")):
        changed = {**scores, "checksums": seal} if seal else {**scores}
        if seal is None:
            del changed["checksums"]
        path.write_bytes(orjson.dumps(changed))
        for words in (
            ("compare", *pair),
            ("gate", pair[0], "--config", "gate.toml"),
            ("report", pair[0], "--out", "page.html"),
            ("leaderboard", "--results", tmp_path),
        ):
            told = harness(*words)
            status = 1 if words[0] == "leaderboard" else 2  # which has the other run
            assert (told.status, said in told.err) == (status, True), (words, told)


def test_rankings_of_another_time_are_not_scored_and_scores_of_others_not_read(
    pair: tuple[Path, Path], sample: Dataset
) -> None:
    shutil.copy(pair[1] / "rankings.parquet", pair[0] / "rankings.parquet")
    with pytest.raises(UsageError, match=r"rankings\.parquet: is not the file .* run it again"):
        score_run(pair[0], sample)
    other = pair[1] / "scores.json"
    shutil.copy(pair[0] / "scores.json", other)
    shutil.copy(pair[0] / "scores.parquet", pair[1] / "scores.parquet")
    shutil.copy(pair[0] / "excluded.json", pair[1] / "excluded.json")
    with pytest.raises(UsageError, match="is of other rankings than those here"):
        read_scores(pair[1])


def test_scores_of_another_run_are_not_read_beside_a_record_without_a_seal(
    pair: tuple[Path, Path], sample: Dataset
) -> None:
    for name in ("scores.json", "scores.parquet", "excluded.json"):
        shutil.copy(pair[0] / name, pair[1] / name)
    record = pair[1] / "run.json"
    record.write_bytes(
        orjson.dumps({k: v for k, v in read_json(record).items() if k != "checksums"})
    )
    with pytest.raises(UsageError, match="is of other rankings than those here"):
        compare(pair)
    score_run(pair[1], sample)
    compare(pair)


def test_runs_verify_names_every_damaged_file(
    pair: tuple[Path, Path], harness: Callable[..., Any], tmp_path: Path
) -> None:
    told = harness("runs", "verify", "--results", tmp_path)
    assert (told.status, told.out.count(": whole")) == (0, 2), told
    for name in ("queries.parquet", "scores.parquet"):
        data = bytearray((pair[0] / name).read_bytes())
        data[len(data) // 2] ^= 1
        (pair[0] / name).write_bytes(data)
    (pair[1] / "rankings.parquet").unlink()
    told = harness("runs", "verify", pair[0], pair[1], "--json")
    assert told.status == 1
    found = [one["damage"] for one in orjson.loads(told.out)["runs"]]
    assert [len(one) for one in found] == [2, 1]
    for name in ("queries.parquet", "scores.parquet", "rankings.parquet"):
        assert f"{name}: is" in told.err


def test_a_lost_file_of_questions_is_not_taken_as_all_of_them_asked(
    pair: tuple[Path, Path], sample: Dataset
) -> None:
    (pair[0] / "queries.parquet").unlink()
    with pytest.raises(UsageError, match=r"queries\.parquet: is missing"):
        score_run(pair[0], sample)


def test_a_name_is_noted_in_a_sealed_record_and_files_may_still_not_change(
    pair: tuple[Path, Path],
) -> None:
    note_in(pair[0], name="night")
    assert RunFolder(pair[0]).record.name == "night"
    assert RunFolder(pair[0]).rankings.is_file()
    with (pair[0] / "rankings.parquet").open("r+b") as file:
        file.seek(40)
        file.write(bytes([file.read(1)[0] ^ 1]))
    note_in(pair[0], name="other")
    with pytest.raises(UsageError, match=r"rankings\.parquet: is not the file"):
        assert RunFolder(pair[0]).rankings


@pytest.mark.slow
def test_every_flipped_bit_of_a_folder_is_told_or_changes_nothing(
    pair: tuple[Path, Path], sample: Dataset
) -> None:
    def read() -> list[Any]:
        run = RunFolder(folder)
        scores = read_scores(folder)
        found = compare([folder, pair[1]])["recall@10"].pairs[0].found.difference
        return [run.record, run.rankings.read_bytes(), scores, repr(found)]

    folder = pair[0]
    before, told = read(), 0
    names = ("run.json", "rankings.parquet", "scores.json", "scores.parquet")
    for number in range(60):
        path = folder / names[number % 4]
        data = path.read_bytes()
        at = number * len(data) // 60  # all over the file, whatever its length
        if path.suffix == ".json":  # white space of JSON is nobody's number
            at = next(i % len(data) for i in count(at) if data[i % len(data)] not in b" \n")
        flipped = bytearray(data)
        flipped[at] ^= 1 << number % 8
        path.write_bytes(flipped)
        try:
            found = read()
        except UsageError as error:
            told += path.name in str(error)
        else:
            assert found == before, f"bit {number % 8} of byte {at} of {path.name}"
        path.write_bytes(data)
    assert told > 50  # of a flip in the checksums themselves, the file that they are of is named
