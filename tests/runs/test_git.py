"""The state of a checkout is told, and nothing that the checkout says is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_repositories import WAYS, clean_repository, hostile_repository

from harness.runs.provenance import git_state


@pytest.mark.parametrize("way", WAYS)
def test_a_repository_runs_no_program_when_it_is_read(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = hostile_repository(tmp_path / "repository", way)
    monkeypatch.chdir(tmp_path / "repository")
    state = git_state()
    assert state is not None
    assert state.changed
    assert not proof.exists()


def test_a_clean_repository_is_unchanged_and_a_folder_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clean_repository(tmp_path / "repository"))
    state = git_state()
    assert state is not None
    assert len(state.commit) == 40
    assert not state.changed
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    assert git_state() is None
