"""The shipped benchmark of users keeps its promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

from harness.datasets.adapters.scopes import SHIPPED
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.schema import Ability


@pytest.fixture
def scopes(home: Path) -> Dataset:
    return open_dataset("scopes")


def test_five_offices_of_four_users_with_teams_and_documents_for_everyone(scopes: Dataset) -> None:
    assert scopes.manifest.official
    assert scopes.manifest.licence == "CC0-1.0"
    # The content must not depend on the Python version.
    assert scopes.fingerprint[:8] == "d87860d6"
    assert (len(scopes.haystack_ids), len(scopes.documents), scopes.n_queries) == (5, 255, 230)
    for haystack in range(5):
        rows = scopes.haystack_rows(haystack).tolist()
        owners = Counter(scopes.documents[row].user_id for row in rows)
        assert sorted(owners.values()) == [3, 4, 4, 10, 10, 10, 10]
        assert owners[None] == 3
        kinds = Counter(one.kind for one in scopes.changes(haystack))
        assert kinds == {"update": 4, "forget": 4}


def test_evidence_may_be_read_and_two_thirds_of_the_documents_may_not(scopes: Dataset) -> None:
    assert scopes.scopes is not None
    judged = scopes.qrels()
    assert not scopes.scopes.foreign(judged.query, judged.document).any()
    rows = {h: scopes.haystack_rows(h) for h in range(5)}
    assert set(scopes.scopes.foreign_counts(scopes.query_haystack, rows).tolist()) == {34}
    relevant = np.bincount(judged.query[judged.grade > 0], minlength=scopes.n_queries)
    assert ((relevant == 0) == (scopes.abilities == str(Ability.ABSTENTION))).all()
    for row in range(scopes.n_queries):
        query = scopes.query(row)
        assert bool(query.answers) == (query.ability != Ability.ABSTENTION)
        assert query.user_id
        assert len(query.groups) == 1


def test_what_a_user_never_stated_others_did(scopes: Dataset) -> None:
    facts = orjson.loads((SHIPPED / "facts.json").read_bytes())
    for row in np.flatnonzero(scopes.categories == "unknown").tolist():
        query = scopes.query(row)
        (kind,) = [name for name, fact in facts["personal"].items() if query.text in fact["ask"]]
        users = facts["offices"][query.haystack]
        known = scopes.rows_by_id(int(scopes.query_haystack[row]))
        stated = [user for user in users if f"{user}_{kind}" in known]
        assert query.user_id not in stated
        assert stated, (query.id, kind)


def test_a_damaged_copy_is_refused_with_the_place_of_the_damage(home: Path, tmp_path: Path) -> None:
    text = (SHIPPED / "facts.json").read_text(encoding="utf-8")
    copy = tmp_path / "facts.json"
    copy.write_text(text.replace('"say"', '"says"', 1), encoding="utf-8")
    with pytest.raises(UsageError, match=r"facts\.json.*says"):
        open_dataset("scopes", source=copy)
