"""List the bundled examples, or print the path of one.

The examples are files: services, vector stores, A/B tests, CI.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.cli.output import add_output, emit
from harness.errors import UsageError, suggest
from harness.io.records import Output, OutputPart


class Example(OutputPart):
    """An example that comes with the harness."""

    name: str
    about: str
    path: str


class ExamplesOutput(Output, tag="harness.examples/1"):
    """harness examples."""

    examples: list[Example]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.epilog = 'A copy to change: cp "$(harness examples command.py)" .'
    parser.add_argument("name", nargs="?", metavar="NAME", help="print the path of this one")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the list, or the path of one example."""
    examples = files("examples")
    if options.name is not None:
        if options.name not in examples:
            known = list(examples)
            raise UsageError(f"unknown example {options.name!r}{suggest(options.name, known)}")
        examples = {options.name: examples[options.name]}
    rows = [
        Example(name=name, about=about(path), path=str(path)) for name, path in examples.items()
    ]
    text = (
        str(examples[options.name])
        if options.name is not None
        else f"{table(examples, 'example')}\n\nin {folder('examples')}; `harness examples NAME` "
        "prints the path of one"
    )
    return emit(options, ExamplesOutput(examples=rows), text)


# -- Files that come with the harness --------------------------------------------------------------


def folder(kind: str) -> Path:
    """Returns the folder of `configs` or `examples`: in `cli/data`, or at the top of a checkout."""
    installed = Path(__file__).parent / "data" / kind
    return installed if installed.is_dir() else Path(__file__).parents[2] / kind


def files(kind: str) -> dict[str, Path]:
    """Returns every file by its path in the folder, without compiled Python and pages about it."""
    top = folder(kind)
    left_out = {".pyc", ".md"}
    found = (p for p in sorted(top.rglob("*")) if p.is_file() and p.suffix not in left_out)
    return {path.relative_to(top).as_posix(): path for path in found}


def about(path: Path) -> str:
    """Returns a file's description: its first line, of a notebook that of its first cell."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    return text.partition("\n")[0].strip('#"/ ')


def config_file(name: str, quiet: bool = False) -> Path:
    """Returns the file of that name, with or without `.toml`, else the bundled config of that name.

    Prints the path on stderr if it is not the given one. Raises UsageError, with similar names of
    files and of bundled configs, if there is neither.
    """
    given = Path(name)
    shipped = {path.stem: path for path in files("configs").values()}
    if given.is_file():
        return given
    own = given.with_name(f"{given.name}.toml") if given.name else given
    found = own if own.is_file() else shipped.get(name.removesuffix(".toml"))
    if found is None:
        if given.exists():
            return given  # a pipe can be read; reading refuses a folder
        raise UsageError(f"--config {name}: no such file{_near(given, list(shipped))}")
    if not quiet:
        print(f"config: {found}", file=sys.stderr)
    return found


def _near(given: Path, shipped: list[str]) -> str:
    from difflib import get_close_matches

    there = {path.stem: str(path) for path in sorted(given.parent.glob("*.toml"))}
    names = {**{name: name for name in shipped}, **there}
    close = get_close_matches(given.stem, names, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {', '.join(names[stem] for stem in close)}?"
    return f"; bundled configs: {', '.join(shipped)}"


def table(paths: dict[str, Path], title: str) -> str:
    """Formats file names with descriptions."""
    from harness.io.terminal import grid

    rows = [[name, about(path)] for name, path in paths.items()]
    return grid(rows, [title, "description"], most=[None, 80])
