"""A small benchmark of users who share a store: five offices of four people each.

All people are invented, and the data is free to use (CC0). `facts.json` has forms of statements and
questions; `convert` assigns values with a fixed seed. Everyone in an office (a haystack) states
the same kinds of facts ("My locker is number 27"), so only `user_id` identifies the owner of one.
Each user may also read the documents of one of two teams (a group), and those for everyone.
Categories by ability:

* lookup: `own` (a fact of the user), `team`, `everyone`;
* knowledge-update: `corrected` (the outdated statement has grade 0);
* abstention: `forgotten` (the user asked to forget it), `unknown` (only others stated such a fact).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.raw_files import published_files
from harness.datasets.registry import register_adapter
from harness.io.records import Record, decode
from harness.schema import Ability, Change, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

SHIPPED = Path(__file__).parent
VARIANTS = (
    Variant(
        "",
        "230 questions of twenty invented people who share stores, each allowed to see a third of "
        "the documents; ships with the harness",
        "CC0-1.0",
        pinned={one.name: one.sha256 for one in published_files(SHIPPED / "published.sha256")},
        granularities=("turn",),
        k=20,
    ),
)
_START = timestamp(datetime(2024, 3, 4, 9))
_HOUR = 3600
_STATED, _OWN, _UNKNOWN = 8, 4, 2
"""Numbers of facts that a user states, and of questions about own and unknown facts."""


class Fact(Record):
    """A kind of fact: forms of statements (`{}`: the value) and questions, and values."""

    say: list[str]
    ask: list[str]
    values: list[str]


class Facts(Record):
    """The content of facts.json: users of each office, kinds of facts, forms of requests."""

    offices: dict[str, list[str]]
    personal: dict[str, Fact]
    team: dict[str, Fact]
    everyone: dict[str, Fact]
    correct: str
    forget: str


@register_adapter("scopes")
class ScopesDataset:
    """Adapter of the shipped benchmark of users."""

    version: ClassVar[int] = 1
    shipped = SHIPPED

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds facts.json: the file, or its folder."""
        return {"facts.json": source if source.is_file() else source / "facts.json"}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes one haystack per office, its changes, and the questions. Raises UsageError."""
        (path,) = raw.files.values()
        facts = decode(path.read_bytes(), Facts, str(path))
        for office, users in facts.offices.items():
            _Office(office, users, facts, out).write()


@dataclass
class _Statement:
    """A document to write: who may read it, its text, and the value in it."""

    id: str
    user_id: str | None
    text: str
    value: str = ""


class _Office:
    """Writer of one office: statements in random order, then corrections and questions."""

    def __init__(self, name: str, users: list[str], facts: Facts, out: DatasetWriter) -> None:
        self._name, self._users, self._facts, self._out = name, users, facts, out
        self._random = Random(name)
        teams = [f"{name}-a", f"{name}-b"]
        self._teams = {user: teams[i % 2] for i, user in enumerate(users)}
        # No two users have the same value.
        self._kinds = facts.personal | facts.team | facts.everyone
        self._values = {
            kind: self._random.sample(fact.values, len(fact.values))
            for kind, fact in self._kinds.items()
        }
        self._personal = self._random.sample(list(facts.personal), len(facts.personal))
        self._first: list[_Statement] = []
        self._later: list[_Statement] = []
        self._changes: list[tuple[str, _Statement, _Statement]] = []  # kind, old, new
        self._judged: list[tuple[str, _Statement, int]] = []
        self._number = 0

    def write(self) -> None:
        """Writes the documents, the haystack, the changes and the questions."""
        ask = self._ask
        for kind in self._facts.everyone:
            fact = self._state(kind, None)
            for user in self._random.sample(self._users, 2):
                ask("everyone", Ability.LOOKUP, kind, user, fact)
        for team in dict.fromkeys(self._teams.values()):
            members = [user for user in self._users if self._teams[user] == team]
            for kind in self._facts.team:
                fact = self._state(kind, team)
                ask("team", Ability.LOOKUP, kind, self._random.choice(members), fact)
        for user in self._users:
            self._of_user(user)
        self._write_documents()

    def _of_user(self, user: str) -> None:
        """Adds the statements of a user and the questions about them."""
        # The next user states what this one leaves out.
        start = 3 * self._users.index(user)
        kinds = [*self._personal[start:], *self._personal[:start]]
        stated = self._random.sample(kinds[:_STATED], _STATED)
        statements = {kind: self._state(kind, user) for kind in stated}
        own, (corrected, forgotten) = stated[:_OWN], stated[_OWN : _OWN + 2]
        for kind in own:
            self._ask("own", Ability.LOOKUP, kind, user, statements[kind])
        new = self._state(corrected, user, self._facts.correct)
        self._changes.append(("update", statements[corrected], new))
        update = Ability.KNOWLEDGE_UPDATE
        self._ask("corrected", update, corrected, user, new, statements[corrected])
        request = _Statement(f"{user}_forget", user, self._facts.forget.format(forgotten))
        self._later.append(request)
        self._changes.append(("forget", statements[forgotten], request))
        none = Ability.ABSTENTION
        self._ask("forgotten", none, forgotten, user, None, statements[forgotten])
        for kind in kinds[_STATED : _STATED + _UNKNOWN]:
            self._ask("unknown", none, kind, user, None)

    def _state(self, kind: str, user: str | None, form: str = "{}") -> _Statement:
        """Adds a statement with a new value, or (with a `form`) a correction."""
        value = self._values[kind].pop()
        text = form.format(self._random.choice(self._kinds[kind].say).format(value))
        later = form != "{}"
        id_ = f"{user or 'everyone'}_{kind}" + ("_new" if later else "")
        statement = _Statement(id_, user, text, value)
        (self._later if later else self._first).append(statement)
        return statement

    def _ask(
        self,
        category: str,
        ability: Ability,
        kind: str,
        user: str,
        evidence: _Statement | None,
        outdated: _Statement | None = None,
    ) -> None:
        """Writes a question and its judgements."""
        id_ = f"{self._name}_{self._number}"
        self._number += 1
        self._out.query(
            id_,
            self._random.choice(self._kinds[kind].ask),
            self._name,
            ability=ability,
            category=category,
            timestamp=_START + 365 * 24 * _HOUR,
            answers=[evidence.value] if evidence else [],
            user_id=user,
            groups=[self._teams[user]],
        )
        self._judged += [(id_, one, grade) for one, grade in ((evidence, 1), (outdated, 0)) if one]

    def _write_documents(self) -> None:
        rows: dict[str, int] = {}
        when: dict[str, int] = {}
        for part in (self._first, self._later):
            for one in self._random.sample(part, len(part)):
                when[one.id] = _START + len(rows) * _HOUR
                rows[one.id] = self._out.document(
                    one.id, one.text, timestamp=when[one.id], speaker="user", user_id=one.user_id
                )
        self._out.haystack(self._name, list(rows.values()))
        for kind, old, new in self._changes:
            self._out.change(Change(self._name, kind, old.id, when[new.id], new.id))
        for query, one, grade in self._judged:
            self._out.qrel(query, rows[one.id], grade)
