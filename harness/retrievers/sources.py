"""Finds the user's source files of code under test; their digests identify the system.

Imports are found by parsing, not by running: the code may be for a sandbox, and may import modules
only when it is called. Imports with computed names and data files are not found.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from itertools import pairwise
from pathlib import Path

from harness.errors import UsageError
from harness.io.files import digest

_INSTALLED = {"site-packages", "dist-packages"}
_OURS = Path(__file__).parents[1]
_PYTHON = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}

_IMPORTS = ("import_module", "__import__")
_CODE = (".py", ".toml", ".json", ".yaml", ".yml", ".sh")

Import = tuple[int, str]
"""Number of leading dots of an imported name, and the name: (0, "os.path")."""


def is_own(path: Path) -> bool:
    """Tests whether a file is the user's: not Python's, not installed, not the harness's."""
    apart = {_OURS, *_PYTHON}
    return not (_INSTALLED & set(path.parts) or apart & set(path.parents))


def sources(files: Iterable[Path]) -> list[Path]:
    """Returns Python files and all user files that they import, at any depth."""
    left = [path.expanduser().absolute() for path in files]
    found = dict.fromkeys(left)
    # Folders that are added to Python's path when these files are imported.
    places = [*dict.fromkeys(str(path.parent) for path in left), str(Path.cwd())]
    while left:
        importer = left.pop()
        stat = importer.stat()
        for level, name in _imports(importer, (stat.st_mtime_ns, stat.st_size)):
            for path in _files(level, name, importer, places):
                if path not in found and is_own(path):
                    found[path] = None
                    left.append(path)
    return [*found]


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Returns the sha256 of files and of what they import, by the shortest unique end of each
    path."""
    found = sources(files)
    ends = Counter(path.parts[-n:] for path in found for n in range(1, len(path.parts) + 1))
    named = {}
    for path in found:
        n = next(n for n in range(1, len(path.parts) + 1) if ends[path.parts[-n:]] == 1)
        named[Path(*path.parts[-n:]).as_posix()] = digest(path)
    return dict(sorted(named.items()))


def file_of(kind: object) -> Path | None:
    """Returns the user's file that defines a class or function; None if there is none."""
    module = sys.modules.get(getattr(kind, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return Path(file) if file and is_own(Path(file).absolute()) and Path(file).is_file() else None


def module_files(name: str) -> list[Path]:
    """Returns the user's files of a module and its parent packages, without importing it."""
    plain = all(part.isidentifier() for part in name.split("."))
    here = Path.cwd()
    return [path for path in _files(0, name, here, [str(here)]) if is_own(path)] if plain else []


@lru_cache(1024)
def _imports(path: Path, _stamp: tuple[int, int]) -> frozenset[Import]:
    """Returns all imports of a file; none if this Python version cannot parse it."""
    if path.suffix != ".py":
        return frozenset()
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    nodes = [*ast.walk(tree)]
    importers = {one for node in nodes for one in _importers(node)}
    return frozenset(found for node in nodes for found in _imported(node, importers))


def _importers(node: ast.AST) -> Iterator[str]:
    """Yields a file's aliases of functions that import by name."""
    if isinstance(node, ast.ImportFrom) and node.module in ("importlib", "builtins"):
        yield from (one.asname for one in node.names if one.name in _IMPORTS and one.asname)
    elif isinstance(node, ast.Assign) and _called(node.value) in _IMPORTS:
        yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _called(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _imported(node: ast.AST, importers: Collection[str]) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from ((0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [node.module] if node.module else []
        yield from ((node.level, ".".join([*base, alias.name])) for alias in node.names)
    elif isinstance(node, ast.Call) and _called(node.func) in {*_IMPORTS, *importers}:
        named = [one.value for one in node.keywords if one.arg == "name"]
        for one in (*node.args[:1], *named):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                name = one.value.lstrip(".")
                yield len(one.value) - len(name), name


def _all_of(package: Path) -> Iterator[str]:
    """Yields the names that `from package import *` may import: a literal `__all__`, else every
    module in the package."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        for node in ast.parse(package.read_bytes()).body:
            if isinstance(node, ast.Assign) and [*map(_called, node.targets)] == ["__all__"]:
                yield from ast.literal_eval(node.value)
                return
    for path in sorted(package.parent.iterdir()):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield path.stem


def _files(level: int, name: str, importer: Path, roots: Sequence[str]) -> Iterator[Path]:
    """Yields the files of an imported module and of its parent packages."""
    parts = [part for part in name.split(".") if part not in ("", "*")]
    init = None
    if level:
        if level > len(importer.parents):
            return
        places = [importer.parents[level - 1]]
        init = places[0] / "__init__.py"
        yield from _file(init)
    elif not parts:
        return
    else:
        spec = _spec(parts.pop(0), roots)
        if spec is None:
            return
        init = Path(spec.origin or "")
        yield from _file(init)
        places = [Path(place) for place in spec.submodule_search_locations or ()]
        if places and not any(map(is_own, places)):
            return
    for part in parts:
        inside = _inside(places, part)
        if inside is None:
            return
        yield from _file(inside)
        init = inside
        places = [inside.parent] if inside.name == "__init__.py" else []
    if name.endswith("*") and init is not None and init.name == "__init__.py" and init.is_file():
        for part in _all_of(init):
            if (found := _inside(places, part)) is not None:
                yield from _file(found)


def _inside(places: Sequence[Path], part: str) -> Path | None:
    """Returns the file of a submodule; for a namespace package, its missing `__init__.py`."""
    for place in places:
        module, package = place / f"{part}.py", place / part
        if package.is_dir() and not module.is_file():
            return package / "__init__.py"
        if (package / "__init__.py").is_file():
            return package / "__init__.py"
        if module.is_file():
            return module
    return None


def _file(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path.absolute()


def _spec(name: str, roots: Sequence[str]) -> ModuleSpec | None:
    """Finds a module's spec on Python's path, else in these folders."""
    if name in sys.builtin_module_names or name == "__main__":
        return None
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # ValueError: module without a spec
        found = None
    return found or PathFinder.find_spec(name, roots)


def environment(venv: str) -> dict[str, str] | None:
    """Returns the environment variables that a virtual environment's `activate` sets.

    Returns None, for those of this process, if `venv` is empty. Raises UsageError if the folder is
    not a working virtual environment.
    """
    if not venv:
        return None
    folder = Path(venv).expanduser().absolute()
    programs = folder / "bin"
    if not folder.is_dir():
        raise UsageError(f"venv={venv}: there is no folder {folder}; python3 -m venv makes one")
    if not (folder / "pyvenv.cfg").is_file():
        raise UsageError(
            f"venv={venv}: {folder} is not a virtual environment: it has no pyvenv.cfg"
        )
    if not os.access(programs / "python", os.X_OK):
        raise UsageError(
            f"venv={venv}: {programs / 'python'} does not run, as where a virtual environment was "
            "moved or its Python removed; create it again"
        )
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    path = os.pathsep.join([str(programs), *filter(None, [variables.get("PATH")])])
    return {**variables, "VIRTUAL_ENV": str(folder), "PATH": path}


def revision(command: Sequence[str], venv: str = "") -> str | None:
    """Returns a digest that identifies the program: of files that are words of the command, of code
    and settings that it names otherwise (`FILE:NAME`, `--option=FILE`), of the imports of Python
    files, and of the packages of its environment. None if there are none of these."""
    words = [word for part in command for word in (part, *part.split())]
    named = [text for word in words for text in (word, word.partition("=")[2])]
    places = [place for text in named for place in (text, text.rpartition(":")[0])]
    places = [*command, *(place for place in places if place.endswith(_CODE))]  # not data
    files = [*dict.fromkeys(Path(place).absolute() for place in places if os.path.isfile(place))]
    known = [digest(file)[:12] for file in files]
    scripts = [file for file in files if file.suffix == ".py"]
    modules = {module for option, module in pairwise(words) if option == "-m"}
    for module in [*modules, *(text.rpartition(":")[0] for text in named)]:
        scripts += [*module_files(module), *module_files(f"{module}.__main__")]
    if others := sorted({*sources(scripts)} - {*files}):
        hashes = "\0".join(f"{path.name} {digest(path)}" for path in others)
        known.append(hashlib.blake2b(hashes.encode(), digest_size=6).hexdigest())
    if venv:
        packages = Path(venv).expanduser().glob("lib/python*/site-packages/*.dist-info")
        names = "\0".join(sorted(place.name for place in packages))
        known.append(hashlib.blake2b(names.encode(), digest_size=6).hexdigest())
    return "+".join(known) or None
