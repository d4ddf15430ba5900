"""A model by rule: a reader that errs with set chances, and a judge of set sensitivity.

    rule = Rule(dataset, accuracy_given_evidence=0.9, accuracy_given_part=0.3)
    with OpenAIEndpoint(rule) as endpoint: ...

It knows the dataset's evidence, and looks for its texts in what it is shown: so that what it is
shown decides, as with a model, and the true rates are known. The same prompt and seed have the same
answer. It speaks to the reader and the judge called `plain`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from openai_endpoint import Chat

from harness.datasets.reader import Dataset
from harness.schema import Ability

DECLINED = "No information available."
WRONG = "Something else altogether"


@dataclass
class Rule:
    """The chances: of a right answer by how much of the evidence is shown, of declining a question
    without an answer, of declining in place of a wrong answer; and the judge's own."""

    dataset: Dataset
    accuracy_given_evidence: float = 1.0
    accuracy_given_part: float = 0.0
    accuracy_given_no_evidence: float = 0.0
    declines_unanswerable: float = 1.0
    declines_wrong: float = 0.0
    sensitivity: float = 1.0
    specificity: float = 1.0
    neither: float = 0.0
    seed: int = 0
    of: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        data = self.dataset
        texts = data.query_table["text"].to_pylist()
        self.of = {text: row for row, text in enumerate(texts)}
        assert len(self.of) == len(texts), "questions are told apart by their words"
        judged = data.qrels()
        mine = (judged.grade >= 1) & (judged.document >= 0)
        self.gold: dict[int, list[str]] = {}
        for query, row in zip(judged.query[mine], judged.document[mine], strict=True):
            text = data.documents.contents(np.array([row], np.int32))[0]
            self.gold.setdefault(int(query), []).append(text)
        self.answers = data.query_table["answers"].to_pylist()

    def __call__(self, chat: Chat) -> str:
        text = str(chat.messages[-1]["content"])
        if "Verdict:" in text:
            return self._judge(text)
        return self._read(text, chat.text)

    def truth(self, row: int, response: str) -> bool:
        """Whether a response is right."""
        if self.dataset.abilities[row] == str(Ability.ABSTENTION):
            return response == DECLINED
        return response in self.answers[row]

    def _read(self, text: str, whole: str) -> str:
        row = self.of[text.partition("\nQuestion: ")[2].rpartition("\nAnswer:")[0]]
        chance = self._chance("read", whole)
        if self.dataset.abilities[row] == str(Ability.ABSTENTION):
            return DECLINED if chance < self.declines_unanswerable else WRONG
        there = [one in text for one in self.gold[row]]
        right = self.accuracy_given_evidence if all(there) else self.accuracy_given_part
        if not any(there):
            right = self.accuracy_given_no_evidence
        if chance < right:
            return str(self.answers[row][0])
        return DECLINED if self._chance("declines", whole) < self.declines_wrong else WRONG

    def _judge(self, text: str) -> str:
        question = text.partition("Question: ")[2].partition("\n")[0]
        response = text.partition("Response: ")[2].rpartition("\nVerdict:")[0]
        right = self.truth(self.of[question], response)
        if self._chance("neither", text) < self.neither:
            return "I would rather not say."
        correct = self._chance("judge", text) < (self.sensitivity if right else self.specificity)
        return "RIGHT" if right == correct else "WRONG"

    def _chance(self, kind: str, text: str) -> float:
        """A number from 0 to 1 that the text and the seed settle."""
        said = f"{self.seed} {kind} {text}".encode()
        return int.from_bytes(hashlib.sha256(said).digest()[:8]) / 2**64
