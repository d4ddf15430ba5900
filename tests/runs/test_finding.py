"""`--retriever NAME`: in which order a name is looked up, and what is said when it is not found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from corpora import labelled, ranked

from harness.datasets.reader import Dataset
from harness.errors import RunError, UsageError
from harness.retrievers.registry import RetrieverSpec, find, names, parameters
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings

FIRST = '''
from harness.io.plugins import register_retriever

class First:
    """The first document in the order of their texts."""

    def __init__(self, nth=0, **more):
        self.nth = int(nth)

    def index(self, corpus):
        self.order = sorted(range(len(corpus)), key=lambda i: corpus[i].text)

    def search(self, queries, k):
        return [[self.order[self.nth]] for _ in queries]

@register_retriever("registered-first")
class Registered(First):
    def __init__(self, nth=0):
        super().__init__(nth)

@register_retriever("registered-function")
def fixed(text, k, prefix="d"):
    return [prefix + "1"]

@register_retriever("bm25")
class Pretender(First):
    pass

class Lame:
    def index(self, corpus): ...

class OneByOne:
    def index(self, corpus): ...
    def search(self, query): ...

def without_k(text): ...

class Fails:
    def __init__(self):
        raise FileNotFoundError("no model here")

class Needs:
    def __init__(self, model):
        self.model = model

instance = First()
'''


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "first.py"
    path.write_text(FIRST)
    return str(path)


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    documents = [{"id": f"d{i}", "text": f"note {i}"} for i in range(4)]
    return labelled(tmp_path / "files", documents, [{"id": "q", "text": "note"}], {"q": ["d0"]})


def _package(folder: Path, name: str, entry_points: str, code: str) -> None:
    """A package as pip leaves it."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(code)
    info = folder / f"{name}-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
    (info / "top_level.txt").write_text(name + "\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize(
    ("name", "params", "plugins", "found", "workers"),
    [
        ("{}:First", {}, False, "d0", 1),
        ("{}:First", {"nth": 2}, False, "d2", 1),
        ("{}:First", {"nth": 1, "anything": "else"}, False, "d1", 1),
        ("{}:fixed", {"prefix": "d"}, False, "d1", 1),
        ("registered-first", {"nth": 3}, True, "d3", 1),
        ("registered-function", {}, True, "d1", 1),
        ("registered-first", {"nth": 3}, True, "d3", 2),
    ],
)
def test_files_and_plug_ins_are_found_with_their_parameters(
    notes: Dataset,
    tmp_path: Path,
    plugin: str,
    name: str,
    params: dict[str, Any],
    plugins: bool,
    found: str,
    workers: int,
) -> None:
    spec = RetrieverSpec(name.format(plugin), params, (plugin,) if plugins else ())
    folder = run(notes, spec, Settings(workers=workers), out=tmp_path)
    assert ranked(folder) == {"q": [found]}
    about = RunFolder(folder).record.retriever
    assert (
        about.params
        == ({"nth": 0} if "First" in name else {})
        | ({"nth": 0} if name == "registered-first" else {})
        | ({"prefix": "d"} if "fixed" in name or "function" in name else {})
        | params
    )
    assert list(about.files) == ["first.py"]


def test_a_module_on_the_path_is_found(
    notes: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory_of_ann").mkdir()
    (tmp_path / "memory_of_ann" / "parts.py").write_text(FIRST)
    # `python -m harness` has the working folder on its path; so must the `harness` command.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part != ""])
    spec = RetrieverSpec("memory_of_ann.parts:First")
    assert ranked(run(notes, spec, out=tmp_path / "out")) == {"q": ["d0"]}


def test_an_installed_package_s_entry_point_is_found_with_its_version(
    notes: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[harness.retrievers]\nann-memory = ann_memory:First\nbroken = ann_memory:Gone\n"
    _package(tmp_path / "site", "ann_memory", points, FIRST)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert "ann-memory" in names()
    folder = run(notes, RetrieverSpec("ann-memory", {"nth": 2}), out=tmp_path / "out")
    assert ranked(folder) == {"q": ["d2"]}
    assert RunFolder(folder).record.retriever.version == "2.5"
    said = "'broken' of the package ann_memory 2.5: ann_memory:Gone: AttributeError"
    with pytest.raises(UsageError, match=said):
        find("broken")


def test_built_in_names_come_first_then_entry_points_then_plug_ins(
    tmp_path: Path, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[harness.retrievers]\nbm25 = cuckoo:First\nregistered-first = cuckoo:First\n"
    _package(tmp_path / "site", "cuckoo", points, FIRST)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert type(RetrieverSpec("bm25", plugins=(plugin,)).build()).__module__.startswith("harness.")
    built = RetrieverSpec("registered-first", plugins=(plugin,)).build()
    assert type(built).__module__ == "cuckoo"


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("bm-25", {}, "unknown retriever 'bm-25'; did you mean bm25"),
        ("xyzzy", {}, "unknown retriever 'xyzzy'; `harness retrievers` lists"),
        ("bm25,tfidf", {}, "given as --retriever bm25 --retriever tfidf"),
        ("zep", {}, "write a class with index(corpus) and search(queries, k) in a file"),
        ("{}:Frist", {}, "has no 'Frist'; did you mean First"),
        ("{}", {}, "add the name of the class or function, {}:NAME"),
        ("/nowhere/mine.py:Mine", {}, "/nowhere/mine.py: no such Python file"),
        ("no_such_package.part:Mine", {}, "there is no module 'no_such_package'"),
        ("harness.nowhere:Mine", {}, "there is no module 'harness.nowhere'"),
        ("harness.schema:Documnt", {}, "has no 'Documnt'; did you mean Document"),
        ("{}:Registered", {"nht": 1}, "has no parameter 'nht'; did you mean nth?"),
        ("{}:fixed", {"prefx": 1}, "has no parameter 'prefx'; did you mean prefix?"),
        ("{}:fixed", {"text": "x"}, "has no parameter 'text'"),
        ("{}:Lame", {"x": 1}, "has no parameter 'x'; known: none"),
        ("{}:Lame", {}, "lacks index(corpus) or search(queries, k)"),
        ("{}:OneByOne", {}, "called as search(queries, k): too many positional arguments"),
        ("{}:without_k", {}, "called as without_k(text, k): too many positional arguments"),
        ("{}:instance", {}, "is a First, not a class or a function"),
        ("{}:Needs", {}, "needs --param model=...; for an object, write a function that returns"),
        ("http", {}, "needs --param url=..."),
        ("{}:First", {"nth": "second"}, "invalid literal for int()"),
    ],
)
def test_what_is_not_found_or_does_not_fit_is_said_in_one_line(
    plugin: str, name: str, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        RetrieverSpec(name.format(plugin), params).build()
    assert said.format(plugin) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class Mine(:\n", "line 1: invalid syntax"),
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("x = 1\n\ny = x / 0\n", "ZeroDivisionError: division by zero (raised at {}, line 3)"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_says_where(tmp_path: Path, code: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(code)
    for spec in (RetrieverSpec(f"{path}:Mine"), RetrieverSpec("bm25", plugins=(str(path),))):
        with pytest.raises(UsageError) as caught:
            spec.check()
        assert said.format(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_constructor_that_fails_says_where(plugin: str) -> None:
    with pytest.raises(RunError, match="was not built: FileNotFoundError: no model here") as caught:
        RetrieverSpec(f"{plugin}:Fails").build()
    assert f"(raised at {plugin}, line " in str(caught.value)


@pytest.mark.extensions
def test_every_built_in_is_built_by_its_name_or_says_what_to_install() -> None:
    said = {}
    needed = {"url": "http://127.0.0.1:9", "run": "cat", "build": "langchain_core.stores:InMemory"}
    for name in names():
        accepted = {parameter.name for parameter in parameters(find(name))}
        given = {key: value for key, value in needed.items() if key in accepted}
        if name == "mteb":
            given["model"] = "mteb/baseline-bm25s"
        try:
            assert RetrieverSpec(name, given).build() is not None
        except UsageError as error:
            said[name] = str(error)
    assert {"bm25", "bm25-okapi", "recency", "random", "oracle"}.isdisjoint(said)
    assert all("pip install" in text for text in said.values())
