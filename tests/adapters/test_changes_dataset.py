"""The shipped benchmark of changes keeps its promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.datasets.adapters.changes import SHIPPED
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.schema import Ability


@pytest.fixture
def changes(home: Path) -> Dataset:
    return open_dataset("changes")


def grades(dataset: Dataset) -> dict[int, dict[int, int]]:
    """Grade of every judged row, by query."""
    key = dataset.qrels()
    found: dict[int, dict[int, int]] = {row: {} for row in range(dataset.n_queries)}
    rows = zip(key.query.tolist(), key.document.tolist(), key.grade.tolist(), strict=True)
    for query, row, grade in rows:
        found[query][row] = grade
    return found


def test_twelve_people_whose_talks_change_and_questions_in_between(changes: Dataset) -> None:
    assert changes.manifest.official
    assert changes.manifest.licence == "CC0-1.0"
    assert len(changes.haystack_ids) == 12
    for haystack in range(12):
        documents = [changes.documents[row] for row in changes.haystack_rows(haystack).tolist()]
        dates = list({d.session: d.timestamp or 0 for d in documents}.values())
        assert 40 <= len(documents) <= 60
        assert 6 <= len(dates) == len(set(dates)) <= 10
        assert dates == sorted(dates)
        kinds = Counter(one.kind for one in changes.changes(haystack))
        assert kinds["update"] >= 2
        assert kinds["forget"] >= 1
    kinds = Counter(changes.categories.tolist())
    assert changes.n_queries == sum(kinds.values()) >= 60
    assert {"unchanged", "what-was", "before-forget", "after-forget"} < set(kinds)
    assert kinds["before-update"] >= 20
    assert kinds["after-update"] >= 25
    assert set(changes.abilities) == {
        *(Ability.LOOKUP, Ability.KNOWLEDGE_UPDATE, Ability.TEMPORAL, Ability.ABSTENTION)
    }


def test_a_judgement_says_what_holds_when_the_question_is_asked(changes: Dataset) -> None:
    for row, judged in grades(changes).items():
        query = changes.query(row)
        when = query.timestamp or 0
        came = changes.changes(int(changes.query_haystack[row]))
        gone = {one.row for one in came if one.timestamp <= when}
        held = set(changes.haystack_rows(int(changes.query_haystack[row])).tolist())
        assert judged
        assert set(judged) <= held
        assert all((changes.documents[one].timestamp or 0) <= when for one in judged)
        # What is judged 0 no longer holds; what no longer holds is right where it is asked for.
        assert {one for one, grade in judged.items() if grade == 0} <= gone
        assert query.category == "what-was" or not {
            one for one, grade in judged.items() if grade == 1 and one in gone
        }
        silent = query.ability is Ability.ABSTENTION
        assert silent == (not query.answers) == (1 not in judged.values())


def test_every_change_is_asked_after_and_forgotten_ones_were_known_before(
    changes: Dataset,
) -> None:
    judged = grades(changes)
    for haystack in range(12):
        mine = [q for q in judged if changes.query_haystack[q] == haystack]
        for one in changes.changes(haystack):
            asked = [q for q in mine if one.row in judged[q]]
            after = [q for q in asked if (changes.query(q).timestamp or 0) >= one.timestamp]
            assert any(judged[q][one.row] == 0 for q in after)
            if one.kind == "forget":
                assert any(judged[q][one.row] == 1 for q in set(asked) - set(after))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["changes"][1].update(document=["s01", 99]), r"change 1: the document \['s01"),
        (lambda r: r["changes"][1].update(kind="drop"), "change 1: the kind 'drop' is none of"),
        (lambda r: r["changes"][1].pop("by"), "change 1: the field 'by' is missing"),
        (lambda r: r["questions"][1].update(no_longer=[["s99", 0]]), "question 1: the no_longer"),
        (lambda r: r.pop("changes"), "'changes' is missing"),
    ],
)
def test_a_damaged_copy_is_refused_with_the_place_of_the_damage(
    home: Path, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    record = orjson.loads((SHIPPED / "aino.json").read_bytes())
    change(record)
    copy = tmp_path / "copy.json"
    copy.write_bytes(orjson.dumps(record))
    with pytest.raises(UsageError, match=message):
        open_dataset("changes", source=copy)
