"""Documents to a labelling project: what is judged, what is proposed, what is never moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated_notes import NOTES, lines, write, write_lines

from harness.errors import UsageError
from harness.extensions.labelling.export import export
from harness.extensions.labelling.generate.generate import GenerateOptions, generate
from harness.extensions.labelling.generate.leakage import check_folder, from_project
from harness.extensions.labelling.generate.templates import DEFAULT, QueryTemplate
from harness.extensions.labelling.generate.write_project import DEFAULT_SPLITS, parse_splits
from harness.extensions.labelling.pool import pooled_system
from harness.extensions.labelling.project import Project
from harness.extensions.labelling.start import StartOptions, start

PLAIN = GenerateOptions(
    [QueryTemplate.parse("What is said about {title}?")], parse_splits(DEFAULT_SPLITS)
)
TITLED = sum("# " in text or "title:" in text for text in NOTES.values()) - 1  # without the short

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
    assert len(queries) == TITLED == found.queries
    for query in queries:
        origin = query["generated"]
        assert {grades[query["id"], document] for document in origin["documents"]} == {3}
        assert origin["method"] == "template"
        assert not any(document in query["id"] for document in NOTES)
    order = [query["generated"]["documents"][0] for query in queries]
    assert order != sorted(order)
    assert queries == sorted(queries, key=lambda q: q["id"])
    assert found.excluded == {
        "documents with fewer than 8 words": 1,
        "documents with the text of another": 1,
        "documents that lack a field of every template": 2,
    }
    assert found.leakage.quotes.quoting == 0


def test_near_duplicates_and_documents_that_fit_are_proposed_and_copies_are_relevant(
    tmp_path: Path,
) -> None:
    text = "High water is at noon, low water in the evening, says the town on its board."
    texts = {
        "one.md": f"# Tide tables\n\n{text}",
        "same.md": f"---\ntitle: Tide tables\n---\n{text}\n",
        "marks.txt": f"tide TABLES\n\n{text[:-1]}!",
        "near.txt": "Low water in the evening, says the town on its board. Tide tables: "
        "high water is at noon.",
        "fits.txt": "The tide tables hang in the hall and nobody reads them now.",
        "other.txt": "The ferry leaves the pier in the morning, and nobody knows when.",
    }
    found = generate(write(tmp_path / "docs", texts), tmp_path / "out", PLAIN)
    reasons = {c["document"]: c["proposal"] for c in lines(tmp_path / "out" / "pool.jsonl")}
    assert reasons == {
        "marks.txt": "near-duplicate",
        "near.txt": "near-duplicate",
        "fits.txt": "field",
        "one.md": "construction",
        "same.md": "same text",
    }
    assert found.proposals_by_reason == {"near-duplicate": 2, "field": 1}
    judged = from_project(Project.read(tmp_path / "out"))
    relevant = {judged.documents[row].id for row in judged.queries[0].relevant}
    assert relevant == {"one.md", "same.md"}


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
    assert found.excluded == {"documents that share what is asked with more than 10 others": 12}


def test_queries_that_quote_are_excluded(tmp_path: Path) -> None:
    quoted = "with rope and much tin"
    text = f"---\ntitle: The bell\nhow: {quoted}\n---\nWe mended the bell {quoted}."
    docs = write(tmp_path / "docs", {**NOTES, "bell.md": text})
    options = replace(PLAIN, templates=[*PLAIN.templates, QueryTemplate.parse("What is {how}?")])
    found = generate(docs, tmp_path / "out", replace(options, each=2))
    assert found.excluded["queries that quote 5 words and more of their document"] == 1
    assert quoted not in (tmp_path / "out" / "queries.jsonl").read_text()


def test_a_long_title_is_asked_about_and_is_no_quotation(tmp_path: Path) -> None:
    title, out = "How we mended the old harbour bell", tmp_path / "out"
    texts = {
        "a.md": f"# {title}\n\nWith rope and much tin.",
        "b.md": f"---\ntitle: {title} again\n---\n# {title} again\n\nWith glue and no tin.",
    }
    default = replace(PLAIN, templates=[QueryTemplate.parse(DEFAULT)])
    found = generate(write(tmp_path / "docs", texts), out, default)
    asked = {f"What do we know about {one}?" for one in (title, f"{title} again")}
    assert {query["text"] for query in lines(out / "queries.jsonl")} == asked
    export(out, unfinished=True)
    assert (found.leakage.quotes.quoting, check_folder(out / "dataset").quotes.quoting) == (0, 0)


def test_a_project_of_templates_that_are_gone_goes_on(tmp_path: Path) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    generate(docs, out, PLAIN)
    queries = out / "queries.jsonl"
    old = '"template":"What does this document say about {topic}?","topic":"Router"'
    new = '"template":"What is said about {title}?"'
    queries.write_text(queries.read_text().replace(new, old))
    pool = (out / "pool.jsonl").read_text()
    write(docs, {"new.md": "# Lanterns\n\nThey are lit along the quay when the fog comes in."})
    found = generate(docs, out, PLAIN)
    assert (found.queries, found.new_queries) == (TITLED + 1, 1)
    assert (out / "pool.jsonl").read_text().startswith(pool)


def test_what_is_added_later_moves_no_query_and_is_proposed(tmp_path: Path) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    generate(docs, out, PLAIN)
    before = (out / "queries.jsonl").read_bytes()
    judged = out / "annotations" / "ana.jsonl"
    judged.write_text('{"query": "q", "document": "d", "grade": 1}\n')
    new = "At the vet visit we spoke of keeping bees, and of the garden in March."
    more = "# Lanterns\n\nThey are lit along the quay when the fog comes in."
    write(docs, {"new.txt": new, "more.md": more})
    found = generate(docs, out, PLAIN)
    assert (out / "queries.jsonl").read_bytes().startswith(before)
    assert judged.read_text().startswith('{"query": "q"')
    assert (found.new_queries, found.queries) == (1, TITLED + 1)
    text = {q["id"]: q["text"] for q in lines(out / "queries.jsonl")}
    pool = {(text[c["query"]], c["document"]) for c in lines(out / "pool.jsonl")}
    titles = ("Vet visit", "Keeping bees", "Garden in March")
    assert {(f"What is said about {title}?", "new.txt") for title in titles} <= pool
    (docs / "vet.md").write_text("# Vet visit\n\nsomething else")
    with pytest.raises(UsageError, match=r"'vet\.md' has another text"):
        generate(docs, out, PLAIN)
    with pytest.raises(UsageError, match="was generated with --seed 0, which fixes"):
        generate(docs, out, replace(PLAIN, seed=1))


def test_a_document_that_ties_two_splits_together_gets_no_query(tmp_path: Path) -> None:
    names = ["oak", "elm", "ash", "fir", "yew", "box", "bay", "fig"]
    texts = {f"{n}.md": f"# {n} wood\n\nIn {n}leaf by {n}root on {n}bark" for n in names}
    docs, out = write(tmp_path / "docs", texts), tmp_path / "out"
    made = replace(PLAIN, shares={"test": 0.5, "dev": 0.5})
    generate(docs, out, made)
    assert {q["split"] for q in lines(out / "queries.jsonl")} == {"test", "dev"}
    bridge = ". ".join(f"{name} wood" for name in names)  # fits every query
    write(docs, {"bridge.md": f"# Lighthouse\n\n{bridge}. And nine blue windows."})
    found = generate(docs, out, made)
    assert found.excluded["queries that would tie two splits together"] == 1
    assert {q["split"] for q in lines(out / "queries.jsonl")} == {"test", "dev"}
    # It is proposed to all of them; once a person accepts it in two splits, that is a leak.
    pool = lines(out / "pool.jsonl")
    assert sum(one["document"] == "bridge.md" for one in pool) == len(names)
    assert found.leakage.leaks == 0


def test_haystacks_bound_what_is_proposed(tmp_path: Path) -> None:
    text = "The lantern keeper counts nine ships before the fog comes in."
    records = [
        {"id": id_, "haystack": haystack, "title": "Lantern", "text": text}
        for id_, haystack in (("1", "x"), ("1", "y"), ("2", "y"))
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
    with pytest.raises(UsageError, match="contains other files"):
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
    with pytest.raises(UsageError, match="no document has a field 'titel'; did you mean title"):
        generate(docs, tmp_path / "out", replace(PLAIN, templates=[QueryTemplate.parse("{titel}")]))


@pytest.mark.parametrize(
    "text",
    ["none", "{id} x", "{title!r}", "{title:>9}", "{title", "{a.b}", "{}", "{title} in the text"],
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the template"):
        QueryTemplate.parse(text)


def test_a_template_keeps_what_is_not_a_field() -> None:
    template = QueryTemplate.parse("{{x}} {title} and {speaker}: {title}")
    assert template.fields == ("title", "speaker")
    assert template.fill({"title": "{a}", "speaker": "Ann"}) == "{x} {a} and Ann: {a}"


def test_the_default_template_says_nothing_that_a_model_may_not_say() -> None:
    assert QueryTemplate.parse(DEFAULT).fields == ("title",)
    with pytest.raises(UsageError, match="who asks does not know the document"):
        QueryTemplate.parse("What does this document say about {title}?")


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
    kept = {(one["query"], one["document"]): one.get("proposal") for one in pool}
    assert all(kept[one["query"], one["document"]] == one["proposal"] for one in before)
