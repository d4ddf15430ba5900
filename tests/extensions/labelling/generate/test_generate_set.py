"""Documents to a labelling project: what is judged, what is proposed, what is never moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated_notes import NOTES, lines, write, write_lines

from harness.errors import UsageError
from harness.extensions.labelling.generate.generate import GenerateOptions, generate
from harness.extensions.labelling.generate.templates import QueryTemplate
from harness.extensions.labelling.generate.write_project import DEFAULT_SPLITS, parse_splits
from harness.extensions.labelling.pool import pooled_system
from harness.extensions.labelling.start import StartOptions, start

PLAIN = GenerateOptions(
    [QueryTemplate.parse("What is said about {topic}?")], parse_splits(DEFAULT_SPLITS)
)

pytestmark = pytest.mark.usefixtures("home")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".lock" not in path.name
    }


def test_the_same_documents_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", NOTES)
    first, again, other = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    generate(docs, first, PLAIN)
    generate(docs, again, PLAIN)
    assert bytes_of(first) == bytes_of(again)
    generate(docs, first, PLAIN)  # nothing is new
    assert bytes_of(first) == bytes_of(again)
    few = replace(PLAIN, number=5)
    generate(docs, tmp_path / "d", few)
    generate(docs, other, replace(few, seed=1))
    texts = [{q["text"] for q in lines(tmp_path / n / "queries.jsonl")} for n in ("c", "d")]
    assert texts[0] != texts[1]
    assert {len(of) for of in texts} == {5}


def test_judgements_are_by_construction_and_ids_say_nothing(tmp_path: Path) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    found = generate(docs, out, PLAIN)
    queries = lines(out / "queries.jsonl")
    grades = {
        (j["query"], j["document"]): j["grade"]
        for j in lines(out / "annotations" / "construction.jsonl")
    }
    assert len(queries) == len(NOTES) - 2 == found.queries  # not the short one, nor the copy
    for query in queries:
        origin = query["generated"]
        assert {grades[query["id"], document] for document in origin["documents"]} == {3}
        assert origin["topic"] in query["text"]
        assert origin["method"] == "template"
        assert not any(document in query["id"] for document in NOTES)
    order = [query["generated"]["documents"][0] for query in queries]
    assert order != sorted(order)
    assert queries == sorted(queries, key=lambda q: q["id"])
    assert found.excluded == {
        "documents with fewer than 8 words": 1,
        "documents with the text of another": 1,
    }
    assert found.leakage.quotes.quoting == 0


def test_an_equal_text_and_a_shared_topic_are_proposed_and_not_judged(tmp_path: Path) -> None:
    texts = {
        "one.md": "# Tide tables\n\nHigh water at noon, low water in the evening, says the town.",
        "two.md": "# Second\n\nThe tide tables hang in the hall and nobody reads them now.",
        "copy.md": "# tide TABLES\n\nHigh water at noon; low water in the evening, says the town!",
    }
    template = QueryTemplate.parse("What is said of {title}?")
    docs = write(tmp_path / "docs", texts)
    found = generate(docs, tmp_path / "out", replace(PLAIN, templates=[template]))
    pool = lines(tmp_path / "out" / "pool.jsonl")
    proposed = {c["document"]: c["proposal"] for c in pool if c["proposal"] != "construction"}
    assert proposed == {"one.md": "same text"}
    assert (found.proposals, found.proposals_by_reason) == (1, {"same text": 1})
    # By topic: every phrase of a text that stands in another one too.
    share = {
        "a.txt": "The copper kettle. The copper kettle. The copper kettle.",
        "b.txt": "Somebody polished the copper kettle until one saw the whole harbour in it.",
    }
    generate(write(tmp_path / "share", share), tmp_path / "topic", PLAIN)
    pool = lines(tmp_path / "topic" / "pool.jsonl")
    by_topic = [c["document"] for c in pool if c["proposal"] == "topic"]
    assert by_topic == ["b.txt"]
    judged = lines(tmp_path / "topic" / "annotations" / "construction.jsonl")
    assert {j["document"] for j in judged} == {"a.txt", "b.txt"}
    assert len(judged) == 2


def test_a_field_that_many_share_makes_no_query(tmp_path: Path) -> None:
    records = [
        {"id": str(i), "speaker": "Ann" if i < 12 else "Bob", "text": f"word{i} " * 9}
        for i in range(14)
    ]
    docs = write_lines(tmp_path / "documents.jsonl", records)
    what = [QueryTemplate.parse("What did {speaker} say?")]
    found = generate(docs, tmp_path / "out", replace(PLAIN, templates=what))
    (query,) = lines(tmp_path / "out" / "queries.jsonl")
    # Equal queries are one, made from both documents; twelve that fit tell no document apart.
    assert query["text"] == "What did Bob say?"
    assert sorted(query["generated"]["documents"]) == ["12", "13"]
    assert found.multi_document_queries == 1
    assert found.excluded == {"documents that share what is asked with more than 10 others": 12}


def test_queries_that_quote_are_excluded_unless_kept(tmp_path: Path) -> None:
    title = "How we mended the old harbour bell"
    docs = write(tmp_path / "docs", {**NOTES, "bell.md": f"# {title}\n\nWith rope and much tin."})
    by_title = replace(PLAIN, templates=[QueryTemplate.parse("Who wrote {title}?")])
    found = generate(docs, tmp_path / "out", by_title)
    assert found.excluded["queries that quote 5 words and more of their document"] == 1
    assert title not in (tmp_path / "out" / "queries.jsonl").read_text()
    kept = generate(docs, tmp_path / "kept", replace(by_title, keep_quotes=True))
    (example,) = kept.leakage.quotes.examples
    assert (example.run_length, example.quoted) == (7, title)
    assert kept.leakage.leaks == 1


def test_what_is_added_later_moves_no_query_and_is_proposed(tmp_path: Path) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    generate(docs, out, PLAIN)
    before = (out / "queries.jsonl").read_bytes()
    judged = out / "annotations" / "ana.jsonl"
    judged.write_text('{"query": "q", "document": "d", "grade": 1}\n')
    new = "About the mesh repeater: varroa mites do not like Skarholm, Locus iste and 1,260 euros."
    write(
        docs, {"new.txt": new, "more.txt": "Lanterns are lit along the quay when the fog comes in."}
    )
    found = generate(docs, out, PLAIN)
    assert (out / "queries.jsonl").read_bytes().startswith(before)
    assert judged.read_text().startswith('{"query": "q"')
    assert found.new_queries in (1, 2)
    assert found.queries == len(NOTES) - 2 + found.new_queries
    topics = {q["generated"]["topic"].lower(): q["id"] for q in lines(out / "queries.jsonl")}
    pool = {(c["query"], c["document"]) for c in lines(out / "pool.jsonl")}
    holding = [id_ for topic, id_ in topics.items() if topic in new.lower()]
    assert holding
    assert {(id_, "new.txt") for id_ in holding} <= pool
    (docs / "vet.md").write_text("# Vet visit\n\nsomething else")
    with pytest.raises(UsageError, match=r"'vet\.md' has another text"):
        generate(docs, out, PLAIN)
    with pytest.raises(UsageError, match="was generated with --seed 0, which fixes"):
        generate(docs, out, replace(PLAIN, seed=1))


def test_a_document_that_ties_two_splits_together_gets_no_query(tmp_path: Path) -> None:
    names = ["oak", "elm", "ash", "fir", "yew", "box", "bay", "fig"]
    texts = {f"{n}.txt": f"In the {n}leaf by the {n}root on the {n}bark" for n in names}
    docs, out = write(tmp_path / "docs", texts), tmp_path / "out"
    made = replace(PLAIN, shares={"test": 0.5, "dev": 0.5})
    generate(docs, out, made)
    split = {q["generated"]["topic"]: q["split"] for q in lines(out / "queries.jsonl")}
    assert set(split.values()) == {"test", "dev"}
    bridge = ". ".join(split)  # holds the topic of every query
    write(docs, {"bridge.txt": f"{bridge}. And a lighthouse with nine blue windows."})
    found = generate(docs, out, made)
    assert found.excluded["queries that would tie two splits together"] == 1
    assert {q["split"] for q in lines(out / "queries.jsonl")} == {"test", "dev"}
    # It is proposed to all of them, and the check says that it would stand in both.
    across = found.leakage.splits.proposed_documents
    assert [one.ids for one in across] == [["bridge.txt"]]
    assert found.leakage.leaks == 0


def test_haystacks_bound_what_is_proposed(tmp_path: Path) -> None:
    text = "The lantern keeper counts nine ships before the fog comes in."
    records = [
        {"id": "1", "haystack": "x", "text": text},
        {"id": "1", "haystack": "y", "text": text},
        {"id": "2", "haystack": "y", "text": text},
    ]
    docs = write_lines(tmp_path / "documents.jsonl", records)
    generate(docs, tmp_path / "out", PLAIN)
    found = {q["haystack"]: q["id"] for q in lines(tmp_path / "out" / "queries.jsonl")}
    assert set(found) == {"x", "y"}
    assert found["x"] != found["y"]
    pool = [(c["query"], c["document"]) for c in lines(tmp_path / "out" / "pool.jsonl")]
    assert sorted(pool) == sorted([(found["x"], "1"), (found["y"], "1"), (found["y"], "2")])


def test_folders_that_hold_something_else_are_left_alone(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", NOTES)
    with pytest.raises(UsageError, match="is not a labelling project and is not empty"):
        generate(docs, docs, PLAIN)
    with pytest.raises(UsageError, match="is a file"):
        generate(docs, docs / "vet.md", PLAIN)
    write(
        tmp_path / "project",
        {
            "label.json": '{"version": 1, "depth": 1, "seed": 0, "overlap": 1.0}',
            **dict.fromkeys(("documents.jsonl", "queries.jsonl", "pool.jsonl"), ""),
        },
    )
    with pytest.raises(UsageError, match="that was not generated"):
        generate(docs, tmp_path / "project", PLAIN)
    with pytest.raises(UsageError, match="no document has a field 'topci'; did you mean topic"):
        generate(docs, tmp_path / "out", replace(PLAIN, templates=[QueryTemplate.parse("{topci}")]))


@pytest.mark.parametrize(
    "text", ["none", "{id} x", "{topic!r}", "{topic:>9}", "{topic", "{a.b}", "{}"]
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the template"):
        QueryTemplate.parse(text)


def test_a_template_keeps_what_is_not_a_field() -> None:
    template = QueryTemplate.parse("{{x}} {topic} and {speaker}: {topic}")
    assert template.fields == ("topic", "speaker")
    assert template.fill({"topic": "{a}", "speaker": "Ann"}) == "{x} {a} and Ann: {a}"


def test_a_generated_set_is_pooled_like_any_project(tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(write(tmp_path / "docs", NOTES), out, PLAIN)
    before, queries = lines(out / "pool.jsonl"), (out / "queries.jsonl").read_bytes()
    start(
        out,
        out / "documents.jsonl",
        out / "queries.jsonl",
        [pooled_system("bm25", {})],
        options=StartOptions(depth=3),
    )
    pool = lines(out / "pool.jsonl")
    assert (out / "queries.jsonl").read_bytes() == queries
    assert len(pool) > len(before)
    assert [one["proposal"] for one in pool if "proposal" in one] == [
        one["proposal"] for one in before
    ]
