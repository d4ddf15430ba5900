"""Folders of notes and files of records as documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated_notes import NOTES, write, write_lines

from harness.errors import UsageError
from harness.extensions.labelling.generate.templates import template_fields
from harness.extensions.labelling.generate.write_project import normalised
from harness.extensions.labelling.inputs import read_documents


def test_a_folder_of_notes_gives_titles_front_matter_and_ids_by_path(tmp_path: Path) -> None:
    extra = {
        ".hidden/x.md": "not seen",
        "picture.png": "not text",
        "code.md": "```\n# a comment\n```\n# The heading #\nbody text",
        "crlf.md": "\ufeff# Über uns\r\n\r\nZeile eins\r\n",
    }
    documents, empty = read_documents(write(tmp_path, {**NOTES, **extra, "empty.txt": ""}))
    by_id = {document.id: document for document in documents}
    assert sorted(by_id) == sorted([*NOTES, "code.md", "crlf.md", "empty.txt"])
    assert empty == ["empty.txt"]
    harbour = by_id["harbour.md"]
    assert (harbour.title, harbour.timestamp) == ("Harbour timetable", "2024-03-02")
    assert harbour.speaker == "Ines"
    assert harbour.text.startswith("The morning ferry")
    assert "tags" not in template_fields(harbour)
    assert harbour.extra == {}
    assert by_id["recipes/rye.md"].title == "Rye loaf"
    assert by_id["code.md"].title == "The heading"
    assert by_id["code.md"].text == "```\n# a comment\n```\nbody text"
    assert (by_id["crlf.md"].title, by_id["crlf.md"].text) == ("Über uns", "Zeile eins")
    assert by_id["tax.txt"].title is None
    same = [
        one.id
        for one in documents
        if normalised(one.content) == normalised(by_id["recipes/sourdough.md"].content)
    ]
    assert same == ["recipes/copy.txt", "recipes/sourdough.md"]


def test_records_are_read_as_the_labelled_dataset_reads_them(tmp_path: Path) -> None:
    jsonl = write_lines(
        tmp_path / "a" / "documents.jsonl",
        [
            {"id": "1", "text": "one", "haystack": ["x", "y"], "speaker": "Ann"},
            {"id": "1", "text": "other", "haystack": "z", "metadata": {"team": "red"}},
        ],
    )
    for place in (jsonl, jsonl.parent):
        found, _ = read_documents(place)
        assert [one.haystacks for one in found] == [["x", "y"], ["z"]]
        assert [one.key for one in found] == ["x/1", "z/1"]
        assert [template_fields(one) for one in found] == [{"speaker": "Ann"}, {"team": "red"}]
    csv = tmp_path / "documents.csv"
    csv.write_text('id,text,title\nd1,"a, b",T\n')
    assert [(s.id, s.title, s.text) for s in read_documents(csv)[0]] == [("d1", "T", "a, b")]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "contains no document"),
        ({"a.md": "", "b.txt": "..."}, "those there are empty: 2"),
        ({"documents.jsonl": '{"id": "1"}\n'}, "documents.jsonl:1: no field 'text'"),
        ({"documents.jsonl": '{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n'}, "line 1 already"),
        ({"documents.jsonl": "{\n"}, "documents.jsonl:1: not valid JSON"),
        ({"documents.jsonl": "", "corpus.jsonl": ""}, "several files could be the documents"),
    ],
)
def test_what_cannot_be_read_is_one_line_for_a_person(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        read_documents(write(tmp_path, files))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"# Caf\xc3\xa9\nau lait caf\xe9\n")
    with pytest.raises(UsageError, match=r"a\.md:2: byte 0xe9 is not UTF-8"):
        read_documents(tmp_path)
    with pytest.raises(UsageError, match="rename it"):
        read_documents(tmp_path / "a.md")
    with pytest.raises(UsageError, match="no such file"):
        read_documents(tmp_path / "b")
