"""The commands' reference, from the parser itself: no option is missing, none is made up."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from harness.cli.config_file import reference
from harness.cli.parser import build_parser
from harness.cli.run_single import file_keys

_SPECIAL = re.compile(r"([*_<>|\[\]])")


def verbs() -> dict[str, argparse.ArgumentParser]:
    """Every command below `harness`, in the order of `harness --help`."""
    return _commands(build_parser(load_all=True))


def command(name: str) -> str:
    """Usage and options of one command and of the commands below it, as Markdown."""
    return "\n".join(_section(verbs()[name], 2))


def command_list() -> str:
    """A table of all commands: what each is for, with a link to its page."""
    said = _help(build_parser(load_all=True))
    rows = [f"| [`harness {name}`]({name}.md) | {text(said[name])} |" for name in verbs()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def run_keys() -> str:
    """A table of the keys of a run in a TOML file."""
    return reference(file_keys())


def option_id(prog: str, action: argparse.Action) -> str:
    """The anchor of an option: `run--limit`, `label-start--overlap`, `gate-run`."""
    command_name = prog.removeprefix("harness ").replace(" ", "-")
    if action.option_strings:
        return f"{command_name}{action.option_strings[-1]}"
    return f"{command_name}-{action.dest}"


def _commands(above: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in above._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _help(above: argparse.ArgumentParser) -> dict[str, str]:
    """The line of each command in the help of the parser above it."""
    for action in above._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {}


def _section(one: argparse.ArgumentParser, level: int) -> Iterator[str]:
    below = _commands(one)
    arguments = list(_arguments(one))
    yield "" if level == 2 else f"{'#' * (level - 1)} `{one.prog}`\n"
    yield from (f"{'#' * level} Usage", "", "```text", _usage(one, below), "```", "")
    if one.description:
        yield from (text(one.description), "")
    if one.epilog:
        yield from (text(one.epilog), "")
    if arguments:
        yield from (f"{'#' * level} Arguments and options", "")
        for title, group in _groups(one, arguments):
            if title:
                yield from (f"{'#' * (level + 1)} {title.capitalize()}", "")
            for action in group:
                yield from _argument(one, action)
    if below:
        said = _help(one)
        yield from (f"{'#' * level} Commands", "")
        for name, parser_below in below.items():
            anchor = parser_below.prog.replace(" ", "-")
            yield f"- [`{parser_below.prog}`](#{anchor}): {text(said.get(name, ''))}"
        yield ""
        for parser_below in below.values():
            yield from _section(parser_below, 3)


def _arguments(one: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """What may be given, what must be first; without --help and the commands below."""
    own = [
        action
        for action in one._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]
    yield from (action for action in own if not action.option_strings)
    yield from (action for action in own if action.option_strings)


def _groups(
    one: argparse.ArgumentParser, arguments: list[argparse.Action]
) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Yields the arguments without a group, then those of each group with its title."""
    own = {group.title: group._group_actions for group in one._action_groups[2:]}
    grouped = [action for actions in own.values() for action in actions]
    yield "", [action for action in arguments if action not in grouped]
    yield from ((str(title), actions) for title, actions in own.items())


def _usage(one: argparse.ArgumentParser, below: dict[str, argparse.ArgumentParser]) -> str:
    needed, optional = [], False
    for action in _arguments(one):
        if not action.option_strings:
            open_, close = ("[", "]") if action.nargs in ("?", "*") else ("", "")
            needed.append(f"{open_}{_metavar(action)}{close}")
        elif action.required:
            needed.append(_written(action))
        else:
            optional = True
    if below:
        needed.append("COMMAND ..." if _needs_command(one) else "[COMMAND ...]")
    return " ".join([one.prog, *needed, *(["[options]"] if optional else [])])


def _needs_command(one: argparse.ArgumentParser) -> bool:
    return any(isinstance(a, argparse._SubParsersAction) and a.required for a in one._actions)


def _argument(one: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    """One entry of a definition list, with an anchor."""
    yield f"`{_written(action)}`{{ #{option_id(one.prog, action)} .option }}"
    formatter = one._get_formatter()
    said = formatter._expand_help(action) if action.help else ""
    parts = [text(said[:1].upper() + said[1:])] if said else []
    if action.choices is not None:
        parts.append(f"One of {', '.join(f'`{choice}`' for choice in action.choices)}.")
    if isinstance(action, argparse._AppendAction) and "repeat" not in said:
        parts.append("May be given several times.")
    if action.required and action.option_strings:
        parts.append("Required.")
    default = action.default
    known = default not in (None, False, [], "", argparse.SUPPRESS)
    if known and str(default) not in said:
        parts.append(f"Default: `{default}`.")
    whole = " ".join(part if part.endswith((".", ")", "?")) else part + "." for part in parts)
    yield f":   {whole or 'See the description.'}"
    yield ""


def _written(action: argparse.Action) -> str:
    """As it is typed: `--limit N`, `--json`, `FOLDER`."""
    if not action.option_strings:
        return _metavar(action)
    name = ", ".join(action.option_strings)
    if action.nargs == 0:
        return name
    optional = action.nargs == "?"
    return f"{name} [{_metavar(action)}]" if optional else f"{name} {_metavar(action)}"


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def text(said: str) -> str:
    """Converts help to Markdown: escapes markup outside backquotes."""
    parts = said.replace("%%", "%").split("`")
    for i in range(0, len(parts), 2):
        parts[i] = _SPECIAL.sub(r"\\\1", parts[i])
    return "`".join(parts)
