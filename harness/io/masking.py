"""Secrets: refused where results would record them, and masked wherever they could be shown.

A key is given by the environment alone: as a parameter it is `env:NAME`, and results hold the name.
What looks like a key, by its name or its form, is refused as a parameter; in text that others wrote
(an error, a reply, what a process writes on stderr) it is masked, as are all values taken from the
environment.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.errors import UsageError

MASK = "***"
"""What stands in the place of a secret."""

_PLACES = {"PWD", "OLDPWD"}
_REFERENCE = re.compile(r"env:([A-Za-z_]\w*)")
_SHORTEST = 8
"""Characters from which on the value of a variable is masked wherever it stands."""

# -- What looks like a secret ----------------------------------------------------------------------

_SECRET_NAME = re.compile(
    r"(?:.*[^a-z])?(?:(?:api|access|private|secret|account|master|service)_?keys?|secrets?"
    r"|pwd|authorization|bearer|credentials?|token)"
    r"|.*(?:passwords?|passwd|passphrase)|.+_pass"
)
_OPEN_NAME = re.compile(r"(?:.*[^a-z])?(?:auth|jwt|pat|dsn)|.+[^a-z]key", re.IGNORECASE)
_LIKE_A_KEY = re.compile(r"(?=[\w.~+/=-]{16,}\Z)[^\d\s]*(?:\d+[^\d\s]+){2}\d")
"""Names of secrets and of much else (openai_key, sort_key): a value decides, which is long, without
spaces, and has digits among its letters in three places."""

_FORM = re.compile(
    r"\bsk-(?=[\w-]{0,60}?\d)[\w-]{16,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\b(?:hf|gsk|r8)_(?=[A-Za-z]{0,60}?[A-Z0-9])[A-Za-z0-9]{16,}"
    r"|\bxox[a-z]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a JWT begins with {" in base64
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
    r"(?:(?:[^-]|-(?!----BEGIN )){0,9999}?-----END [A-Z ]{0,20}PRIVATE KEY-----)?"
    r"|(?i:\bbearer)\s+(?=[^\s'\"]{0,90}?[\d=])[\w.~+/=-]{12,}"
    r"|(?i:\bbasic)\s+[A-Za-z0-9+/]{16,}={0,2}(?![\w-])"
    r"|(?<=://)[^\s/'\"<>]{1,500}(?=@)",  # user and password of an address
    re.DOTALL,
)
_NAME_BEFORE = re.compile(
    r"""(?P<first>[?&\#;]|(?<![\w.-]))(?P<name>[\w.-]{1,80})(?P<quote>['"]?)
        (?P<sign>\s*[:=]\s*|(?<=\w)\s+)['"]?(?:(?:bearer|basic|token)\s+)?""",
    re.IGNORECASE | re.VERBOSE,
)
"""A name before a value: in a query, a command line, a header, code or JSON. Text of strangers is
looked through: no two ways may lead to a match, or a long line would take for ever."""
_VALUE = re.compile(r"""[^\s'"&;,)\]}>]{3,}""")
_NO_SECRET = re.compile(
    rf"env:[A-Za-z_]\w*|\$.*|[{{<%\[].*|{re.escape(MASK)}|none|null|true|false|(?:str|bytes|int)\b.*",
    re.IGNORECASE,
)
"""A value that is none: a reference, a placeholder, a special token of a tokenizer (<|end|>)."""


@lru_cache(4096)
def secret_name(name: str) -> bool:
    """Whether a parameter of this name can hold a secret: `api_key`, `hf_token`; not `tokens`."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").replace(".", "_").lower()
    return _SECRET_NAME.fullmatch(plain) is not None


def looks_secret(text: str) -> bool:
    """Whether a key, a token or a password stands in a text."""
    return _FORM.search(text) is not None or any(True for _ in _named_secrets(text))


def _named_secrets(text: str) -> Iterator[re.Match[str]]:
    """The values in a text that are secrets by the name before them."""
    position = 0
    while before := _NAME_BEFORE.search(text, position):
        position = before.end()
        value = _VALUE.match(text, position) if _can_name_secret(before) else None
        if value is not None and _is_value_of(before, value[0]):
            position = value.end()
            yield value


def _can_name_secret(before: re.Match[str]) -> bool:
    name = before["name"].strip("-.").rpartition(".")[2]
    if before["first"] and before["sign"] == "=" and name.lower() in ("key", "sig", "signature"):
        return True
    return secret_name(name) and (not before["sign"].isspace() or before["name"].startswith("-"))


def _is_value_of(before: re.Match[str], value: str) -> bool:
    if _NO_SECRET.fullmatch(value):
        return False
    in_header = before["name"].lower() in ("authorization", "x-api-key", "api-key", "password")
    certain = before["sign"] == "=" or before["sign"].isspace() or before["quote"] or in_header
    return bool(certain) or any(character.isdigit() for character in value)


def _is_secret(name: str, value: Any) -> bool:
    """Whether a value is one by its name; a number called token counts some, and is none."""
    if isinstance(value, str) and _LIKE_A_KEY.match(value) and _OPEN_NAME.fullmatch(name):
        return True
    if isinstance(value, bool) or value is None or value == "" or not secret_name(name):
        return False
    if not name.lower().endswith(("token", "credentials")):
        return True
    # A number so called counts some; a short word is a piece of text, or the name of a way.
    is_text = isinstance(value, str) and len(value) >= _SHORTEST and not value.isalpha()
    return is_text and not _NO_SECRET.fullmatch(value)


# -- Refused where it would be recorded ------------------------------------------------------------


def refuse_in(where: str, values: Mapping[str, object]) -> None:
    """Raises UsageError for the first of these settings that is a secret, at any depth.

    Results record them, so that a secret comes as `env:NAME`, by a variable of the environment.
    """
    for path, name, value in _leaves(values):
        if isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
            from_environment(found[1])  # masked here too, where another process is given it
            continue
        if _is_secret(name, value):
            variable = re.sub(r"\W", "_", name).upper()
            raise UsageError(
                f"{where} {path}: results record it, and it holds a secret by its name: put it "
                f"into a variable of the environment, and write {path}=env:{variable}"
            )
        if isinstance(value, str):
            refuse_text(f"{where} {path}", value)


def refuse_text(where: str, text: str) -> None:
    """Raises UsageError for a text that is recorded, and in which a secret stands."""
    if looks_secret(text):
        raise UsageError(
            f"{where}: results record it, and it holds what looks like a key, a token or a "
            "password: put that into a variable of the environment, which what is started or asked "
            "reads there; a whole parameter may be env:NAME"
        )


def refuse_address(what: str, url: str, remedy: str = "give secrets by the environment") -> None:
    """Raises UsageError for an address that may hold a secret: results record addresses."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{what}: is no address: {masked(str(error))}") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{what}: the address must not hold a user or a password, nor a ?query or a #fragment, "
            f"since results record it; {remedy}"
        )
    refuse_text(what, unquote(url))


def _leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Path, name and value of everything in nested tables; items of lists bear the list's name."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one, path, name)
        if all(isinstance(one, str) for one in value):
            yield path, "", " ".join(value)  # a command line, where a name is beside its value
    else:
        yield path, name, value


# -- Taken from the environment --------------------------------------------------------------------

_taken: set[str] = set()


def from_environment(variable: str) -> str | None:
    """The secret in a variable of the environment; None where it is empty or not there.

    From then on it is masked in all that is said and written.
    """
    value = os.environ.get(variable)
    if value:
        _taken.add(value)
    return value or None


def _shown_as(secret: str) -> set[str]:
    """A secret as it may be said: whole, without the line end that a file gave it, line by line."""
    lines = (line.strip() for line in secret.splitlines())
    return {secret, secret.strip(), *(line for line in lines if len(line) >= 2 * _SHORTEST)}


def filled_in(value: Any, what: str) -> Any:
    """Settings with the values of `env:NAME`, at any depth: for the one who uses them, never kept.

    Raises UsageError, which begins with `what`, for a variable that is not set.
    """
    if isinstance(value, Mapping):
        return {key: filled_in(one, what) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(filled_in(one, what) for one in value)
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    secret = from_environment(found[1])
    if secret is None:
        raise UsageError(f"{what}: the variable {found[1]} of the environment is not set")
    return secret


def values_of_others(params: Mapping[str, object]) -> dict[str, str]:
    """Of the variables that stand in for parameters which are no secrets by their names, the first
    digits of the sha256 of what they hold: with another model, say, it is another system."""
    return {
        found[1]: hashlib.sha256(os.environ.get(found[1], "").encode()).hexdigest()[:12]
        for _, name, value in _leaves(params)
        if isinstance(value, str) and (found := _REFERENCE.fullmatch(value))
        if not secret_name(name)
    }


def _known() -> tuple[str, ...]:
    """Secrets of this process, the longest first: those that it took, and variables by their names.

    A word or a number that anybody guesses (`postgres`) is left, and so is a place (PWD, or a file
    of credentials): to mask it would change other text.
    """
    return _known_of(tuple(os.environ.items()), frozenset(_taken))


@lru_cache(4)  # an answer with texts asks each time
def _known_of(variables: tuple[tuple[str, str], ...], taken: frozenset[str]) -> tuple[str, ...]:
    values = {
        one
        for name, one in variables
        if (secret_name(name) or (_OPEN_NAME.fullmatch(name) and _LIKE_A_KEY.match(one)))
        and name not in _PLACES
    }
    said = {one for secret in values | taken for one in _shown_as(secret)}
    found = {one for one in said if len(one) >= _SHORTEST}
    plain = (one for one in found if not (one.isalpha() or one.isdigit() or _is_place(one)))
    return tuple(sorted(plain, key=len, reverse=True))


@lru_cache(64)
def _is_place(value: str) -> bool:
    return os.path.exists(value)


# -- Masked in what others wrote -------------------------------------------------------------------


def masked(text: str) -> str:
    """A text of others (an error, a log, a reply) without the secrets that stand in it."""
    text = without_forms(without_known(text))
    parts, end = [], 0
    for found in _named_secrets(text):
        parts += [text[end : found.start()], MASK]
        end = found.end()
    return "".join([*parts, text[end:]])


def without_forms(text: str) -> str:
    """A text of ours without what is a secret by its form: an error may quote an address."""
    return _FORM.sub(MASK, text)


def without_known(text: str) -> str:
    """A text without the secrets that this process was given; what only looks like one stays."""
    (left,) = all_without_known([text])
    return left


def all_without_known(texts: Iterable[str]) -> list[str]:
    """As `without_known`, for many texts: the secrets are looked up once."""
    left = [*texts]
    for secret in _known():
        left = [text.replace(secret, MASK) for text in left]
    return left


def record_masked(record: Any) -> Any:
    """A record as it was read, without secrets: an older one, or somebody else's, may hold them."""
    import orjson

    said = orjson.dumps(record).decode()
    return masked_in(record) if looks_secret(said) or without_known(said) != said else record


def masked_in(value: Any, name: str = "") -> Any:
    """Nested values of others, as JSON has them, with `MASK` for what is a secret by name or form.

    What is `env:NAME` stays.
    """
    if isinstance(value, Mapping):
        return {masked(str(key)): masked_in(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_in(one, name) for one in value]
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    if _is_secret(name, value):
        return MASK
    return masked(value) if isinstance(value, str) else value


def excerpt(said: str | bytes, most: int = 200) -> str:
    """The begin of what others said, quoted, for an error: masked before it is cut."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return repr(masked(text[: 100 * most])[:most])
