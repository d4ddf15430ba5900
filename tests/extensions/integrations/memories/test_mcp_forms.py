"""A document is what a tool's arguments say; what a tool returns is hits, and nothing else is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from notes import corpus

from harness.extensions.integrations.memories import mcp_forms as forms
from harness.extensions.integrations.memories.mcp_forms import ToolCall, ToolSchema
from harness.extensions.integrations.memories.mcp_memory import NOTHING
from harness.retrievers.contract import Hit, Question

DAY = 86_400


def found(
    structured: Any = None,
    texts: tuple[str, ...] = (),
    results: str = "",
    handles: set[str] | None = None,
) -> list[Hit]:
    items = forms.items(structured, texts, results)
    return forms.hits(items, handles, re.compile(NOTHING, re.IGNORECASE))


def test_a_template_is_filled_and_what_is_not_known_is_left_out() -> None:
    template = {
        "entities": [{"name": "{id}", "observations": ["{title}", "on {timestamp}: {text}"]}],
        "when": "{timestamp}",
        "place": "{position}",
        "tags": ["{speaker}", "harness"],
    }
    undated, dated = corpus(['a {"b"} {c}', "d"], said=[None, DAY])
    assert forms.filled(template, forms.of_document(undated)) == {
        "entities": [{"name": "d1", "observations": ['on : a {"b"} {c}']}],
        "tags": ["harness"],
    }
    assert forms.filled(template, forms.of_document(dated))["when"] == "1970-01-02T00:00:00"
    question = forms.of_question(Question('What "is" this, AND that?'), 7)
    assert forms.filled({"limit": "{k}", "query": "{any_word}"}, question) == {
        "limit": 7,
        "query": '"what" OR "is" OR "this" OR "and" OR "that"',
    }


def test_a_tool_alone_is_filled_by_its_schema_or_refused() -> None:
    text = {"type": "string"}
    one = ToolSchema(properties={"note": text, "tags": {"type": "array"}}, required=["note"])
    assert ToolCall("add", None).by_schema(one, "text") == ToolCall("add", {"note": "{text}"})
    two = ToolSchema(properties={"key": text, "note": text}, required=["key", "note"])
    with pytest.raises(ValueError, match="takes key, note: name the arguments"):
        ToolCall("add", None).by_schema(two, "text")
    for arguments, said in [
        ({"key": "{id}"}, "takes key, note: 'note' is required, but missing"),
        ({"key": "{id}", "note": "{text}", "tag": "x"}, "takes key, note, and no 'tag'"),
    ]:
        with pytest.raises(ValueError, match=said):
            ToolCall("add", arguments).by_schema(two, "text")
    with pytest.raises(ValueError, match=r"has \{txt\}; valid placeholders are \{id\}, \{text\}"):
        ToolCall.read({"add": {"note": "{txt}"}}, "add", forms.OF_DOCUMENT)


@pytest.mark.parametrize(
    "structured",
    [
        ["b", "a"],
        {"result": ["b", "a"]},
        {"result": json.dumps(["b", "a"])},
        {"query": "?", "memories": [{"memory": "b"}, {"memory": "a"}], "total": 2},
        {"results": [{"text": "b", "score": 0.9}, {"text": "a", "score": 0.1}]},
    ],
)
def test_a_list_is_found_where_it_stands(structured: Any) -> None:
    assert [hit.text for hit in found(structured)] == ["b", "a"]
    assert [hit.text for hit in found(None, (json.dumps(structured),))] == ["b", "a"]


def test_results_names_the_place_of_the_list_or_is_refused() -> None:
    structured = {"tags": ["x"], "data": {"found": ["a"]}}
    assert [hit.text for hit in found(structured, results="data.found")] == ["a"]
    with pytest.raises(ValueError, match="has no 'hits', but tags, data"):
        found(structured, results="hits")


def test_scores_are_kept_where_they_fall() -> None:
    falling = [{"text": "a", "score": 2}, {"text": "b", "score": 1}]
    assert [hit.score for hit in found(falling)] == [2.0, 1.0]
    assert [hit.score for hit in found(falling[::-1])] == [None, None]


def test_a_handle_in_what_comes_back_is_its_document() -> None:
    entity = {"name": "d12", "entityType": "turn", "observations": ["likes d3 and d99"]}
    assert found([entity], handles={"d12", "d3"}) == [
        Hit("turn\nlikes d3 and d99", ["d12", "d3"], None)
    ]
    # The handle of another haystack comes through, and is an error of the run.
    assert found([{"id": "d77", "text": "old"}], handles={"d12"})[0].sources == ["d77"]
    lines = "Found 2:\nid=1 | talk/d12 x\n  the first\nid=2 | talk/d3 x\n  the second"
    assert found(None, (lines,), handles={"d12", "d3"}) == [
        Hit("id=1 | talk/d12 x\n  the first", ["d12"]),
        Hit("id=2 | talk/d3 x\n  the second", ["d3"]),
    ]


def test_what_says_that_nothing_was_found_is_no_hit() -> None:
    assert found(None, ("1984",)) == [Hit("1984")]
    for text in ("No results.", "no memories found for 'x'", "0 matches", ""):
        assert found(None, (text,)) == []
    assert found({"entities": [], "relations": []}) == []
    assert found(None, ("Nobody came. No results of the election yet.",)) != []
    # Where documents are known by their handles, a text without one is none.
    assert found(None, ("I looked everywhere.",), handles={"d1"}) == []
