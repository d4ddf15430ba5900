"""Defines each setting once, as a dataclass field with its name, description and bounds.

Command-line options, TOML keys, validation and the reference pages are generated from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError

_MOST = 2**62
"""What a setting that counts may be: records hold 64 bits."""

_METADATA = "setting"


@dataclass(frozen=True)
class Setting:
    """A setting of a dataclass. `type` is that of the field: bool, int, float, str or list[str].

    `kind` refines the type: a `time` (30, "2m"), a `path`, comma-separated `names`, or `prices`.
    `repeat`: the option may be repeated on the command line. `least`: the smallest number allowed;
    `above_zero`: the unit of a number that must be positive. `reference`: the text of the reference
    page, if longer than the help; `in_file`: whether it is a key of TOML files.
    """

    name: str
    type: str
    default: Any
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    kind: str = ""
    repeat: bool = False
    least: int | None = None
    above_zero: str = ""
    reference: str = ""
    in_file: bool = True

    @property
    def option(self) -> str:
        """The option of the command line."""
        return f"--{self.name.replace('_', '-')}"


def setting(
    default: Any = None,
    help: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    **more: Any,
) -> Any:
    """Return a dataclass field that is a `Setting`; `more` are attributes of it."""
    metadata = {_METADATA: {"help": help, **more}}
    if factory is not None:
        return dataclasses.field(default_factory=factory, hash=False, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(*groups: type) -> dict[str, Setting]:
    """Return the settings of dataclasses by name, in their order."""
    return {
        field.name: Setting(
            field.name,
            str(field.type).removesuffix(" | None"),
            field.default,
            **field.metadata[_METADATA],
        )
        for group in groups
        for field in dataclasses.fields(group)
        if _METADATA in field.metadata
    }


def check_settings(values: Any) -> None:
    """Raise UsageError for a setting of a dataclass object that is out of its bounds."""
    for name, one in settings_of(type(values)).items():
        value = getattr(values, name)
        if value is None:
            continue
        if one.least is not None and value < one.least:
            raise UsageError(f"{one.option} must be {one.least} or more, not {value}")
        if one.least is not None and value > _MOST:
            raise UsageError(f"{one.option} must be {_MOST:,} or less")
        if one.above_zero and not 0 < value < float("inf"):
            raise UsageError(f"{one.option} must be {one.above_zero} above 0, not {value}")
