"""Team-draft interleaving: what is shown, whose it is, and that chance clicks favour nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import ABTest
from harness.errors import UsageError
from harness.extensions.online.abtest import Interleaved, team_draft

RANKINGS = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)


def test_the_draft_by_hand() -> None:
    # Rounds: a first takes p, b takes q; b first takes r, a (whose q, r are gone) takes s.
    coins = [True, False]
    found = team_draft(["p", "q", "r", "s"], ["q", "r", "p", "t"], 4, lambda turn: coins[turn])
    assert found == Interleaved(("p", "q", "r", "s"), ("a", "b", "b", "a"))
    assert found.credit(["q", "r", "s", "s"]) == (1, 2)
    assert found.credit([]) == (0, 0)
    with pytest.raises(UsageError, match="was not shown"):
        found.credit(["t"])


def test_what_both_rank_alike_from_the_top_is_of_no_team() -> None:
    same = team_draft(["p", "q", "r"], ["p", "q", "r"], 5, lambda turn: True)
    assert same == Interleaved(("p", "q", "r"), (None, None, None))
    found = team_draft(["p", "q", "r"], ["p", "r", "q"], 3, lambda turn: True)
    assert found == Interleaved(("p", "q", "r"), (None, "a", "b"))


def test_short_and_repeating_rankings() -> None:
    assert team_draft([], ["p", "q"], 5, lambda turn: True).teams == (None, None)
    assert team_draft([], [], 5, lambda turn: True).documents == ()
    found = team_draft(["p", "p", "q"], ["r", "s", "t", "u"], 10, lambda turn: False)
    assert found.documents == ("r", "p", "s", "q", "t", "u")
    assert found.teams == ("b", "a", "b", "a", None, None)
    for wrong in ("pq", [1, 2], None):
        with pytest.raises((UsageError, TypeError)):
            team_draft(wrong, ["p"], 5, lambda turn: True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="k must be"):
        team_draft(["p"], ["q"], 0, lambda turn: True)


@given(RANKINGS, RANKINGS, st.integers(1, 9))
def test_every_coin_shows_the_best_of_both_and_in_the_mean_teams_are_equal(
    a: list[str], b: list[str], k: int
) -> None:
    together = set(a) | set(b)
    teams: dict[int, Counter[str | None]] = defaultdict(Counter)
    for coins in product((True, False), repeat=4):
        found = team_draft(a, b, k, lambda turn, coins=coins: coins[turn])
        assert len(found.documents) == len(set(found.documents)) == min(k, len(together))
        assert set(found.documents) <= together
        for team, ranking in (("a", a), ("b", b)):
            # A team's documents come in the order of its ranking.
            own = [d for d, t in zip(found.documents, found.teams, strict=True) if t == team]
            assert own == [document for document in ranking if document in own]
        for place, team in enumerate(found.teams):
            teams[place][team] += 1
    # Clicks by place alone, which say nothing of the documents, favour neither.
    assert all(of_place["a"] == of_place["b"] for of_place in teams.values())


def test_the_coin_of_an_impression_is_fixed_and_fair() -> None:
    test = ABTest("old", "new", name="draft", interleave=True)
    first = [
        test.interleave(["p", "q"], ["q", "p"], 2, user, impression=query).documents[0]
        for user in range(200)
        for query in ("when", "who")
    ]
    again = test.interleave(["p", "q"], ["q", "p"], 2, 0, impression="when")
    assert again.documents[0] == first[0]
    assert 150 < first.count("p") < 250
    assert {first[at] != first[at + 1] for at in range(0, 400, 2)} == {True, False}
