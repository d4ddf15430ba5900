"""Secrets are only given by environment variables, and masked in printed and written output.

Parameters with the name of a secret must be `env:NAME`, which results record. The values of such
variables are masked in output, and so are texts with the form of a known kind of key. Inputs are
never refused because of their form.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from harness.errors import UsageError

MASK = "***"
"""Replacement of a secret."""

_REFERENCE = re.compile(r"env:([A-Za-z_]\w*)")
_SHORTEST = 8
"""Minimum length of a variable's value that is masked."""

_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:(?:api|secret|private|service|account|master|admin|encryption|signing|shared_access"
    r"|secret_access|subscription|openai|anthropic|azure|cohere|deepseek|firecrawl|fireworks|gemini"
    r"|google|groq|hf|jina|langfuse|langsmith|mem0|mistral|nvidia|openrouter|perplexity|pinecone"
    r"|qdrant|replicate|serper|tavily|together|voyage|weaviate|xai|zep)_?keys?|secrets?|pwd"
    r"|authorization|bearer|credentials?|cookie|jwt|(?:api|auth|access|bearer|bot|github|gitlab|hf"
    r"|hub|id|refresh|secret|session|slack)_?token)|token|.*(?:passwords?|passwd|passphrase)"
    r"|.+_pass"
)
"""Names of secrets, in lower case; does not match other tokens, as a tokenizer's `pad_token`."""

_NO_SECRET = re.compile(r"|\[[A-Z]{1,8}\]|</?[a-z_]{1,8}>|<\|[a-z_]{1,16}\|>")
"""Values that are never secrets: empty, and tokens of a tokenizer such as `[CLS]` and `</s>`."""

_KEY_FORMS = (
    r"sk-[A-Za-z0-9]{16,}",  # OpenAI, DeepSeek
    r"[sp]k-(?:proj|svcacct|admin|ant|or|lf|let)-[\w-]{16,}",  # OpenAI, Anthropic, OpenRouter, ...
    r"[rs]k_(?:live|test)_\w{16,}|whsec_\w{16,}",  # Stripe
    r"gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}",  # GitHub, GitLab
    r"(?:hf|npm|jina|ntn)_[A-Za-z0-9]{30,}|pypi-\w[\w-]{50,}",  # Hugging Face, npm, Jina, Notion
    r"(?:gsk|tgp_v1|r8|fw|sbp|dop_v1)_(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{16,}",  # Groq, Together, ...
    r"(?:xai|pplx|csk|tvly|tvly-dev|tvly-prod|llx|fc|m0|key)-(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{24,}",
    r"nvapi-[\w-]{40,}",
    r"pa-(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z])[\w-]{40,}",  # Voyage
    r"z_(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z])[\w.-]{40,}",  # Zep
    r"pcsk_\w{16,}|lsv2_\w{2}_\w{30,}|dapi[a-f0-9]{32}",  # Pinecone, LangSmith, Databricks
    r"SG\.[\w-]{16,}\.[\w-]{16,}|shp(?:at|ca|ss)_\w{32}|ATATT3[\w=-]{40,}",  # SendGrid, Shopify
    r"xox[a-z]-(?=\w{0,60}\d)[\w-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|ya29\.[\w-]{20,}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",  # a JWT
)
"""Forms of keys by their prefixes; applied to output only."""

_FORM = re.compile(
    rf"(?<![\w-])(?:{'|'.join(_KEY_FORMS)})"
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:(?!-----)[\s\S]){0,9999}"
    r"|(?P<header>(?i:\b(?:authorization|x-api-key)['\"]?\s{0,9}[:=]\s{0,9}['\"]?"
    r"(?:(?:bearer|basic|token)\s{1,9})?))(?!env:)[^\s\\'\"&;,)\]}]{3,}"
    r"|(?i:\bbearer)\s{1,9}(?=[^\s'\"]{0,90}?[\d=])[\w.~+/=-]{12,}"
    r"|(?i:\bbasic)\s{1,9}[A-Za-z0-9+/]{16,}={0,2}(?![\w-])"
    r"|(?<=://)[^\s\\/'\"<>]{1,500}(?=@)",  # user and password of an address
)
_COMMANDS = ("run", "command", "args", "")  # "": a list of texts
_OPTION = re.compile(r"""(?:^|\s)['"]?(?:--([\w-]+)(?:=|\s+)|([A-Z_]+)=)(?!['"]?\$|[\s-])""")
"""An option or a variable followed by its value, in a command line."""


@lru_cache(4096)
def secret_name(name: str) -> bool:
    """Tests whether a parameter name is that of a secret, such as `api_key` or `hf_token`."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").replace(".", "_").lower()
    return _SECRET_NAME.fullmatch(plain) is not None


def refuse_secrets(where: str, values: Mapping[str, object]) -> None:
    """Raises UsageError for the first setting, at any depth, with a secret's name and a text other
    than `env:NAME` as its value; names include options of a command line."""
    for path, name, value in _leaves(values):
        if not isinstance(value, str) or _NO_SECRET.fullmatch(value):
            continue
        if found := _REFERENCE.fullmatch(value):
            from_environment(found[1])  # also masked here if another process gets it
            continue
        options = [a or b for a, b in _OPTION.findall(value)] if name in _COMMANDS else []
        named = name if secret_name(name) else next(filter(secret_name, options), None)
        if named is not None:
            variable = re.sub(r"\W", "_", named).upper().strip("_")
            give = f"write {path}=env:{variable}"
            if named is not name:
                give = f"let the program read it, or run it by sh -c '... ${variable}'"
            raise UsageError(
                f"{where} {path}: results record it, and {named} is the name of a secret: put it "
                f"into a variable of the environment, and {give}"
            )


def refuse_address(what: str, url: str, remedy: str = "give secrets by the environment") -> None:
    """Raises UsageError for an address that may hold a secret: results record addresses."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{what}: is no address: {redact(str(error))}") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{what}: the address must not hold a user or a password, nor a ?query or a #fragment, "
            f"since results record it; {remedy}"
        )


def _leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yields path, name and value of all leaves of nested tables; the items of a list have its
    name, and a list of texts is also yielded as a command line."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one, path, name)
        if all(isinstance(one, str) for one in value):
            yield path, "", " ".join("$" if _REFERENCE.fullmatch(one) else one for one in value)
    else:
        yield path, name, value


_taken: set[str] = set()


def from_environment(variable: str) -> str | None:
    """Returns the secret in a variable, masked in output from then on; None if empty or not set."""
    value = os.environ.get(variable)
    if value:
        lines = (line.strip() for line in value.splitlines())
        shown = {value, value.strip(), *(line for line in lines if len(line) >= 2 * _SHORTEST)}
        # Plain words, numbers and the path of a file of secrets are not secrets.
        _taken.update(
            one
            for one in shown
            if len(one) >= _SHORTEST and not (one.isalpha() or one.isdigit() or os.path.exists(one))
        )
    return value or None


def fill_in_variables(value: Any, what: str) -> Any:
    """Replaces `env:NAME` by its value, at any depth; the result must not be stored.
    Raises UsageError, beginning with `what`, for a variable that is not set."""
    if isinstance(value, Mapping):
        return {key: fill_in_variables(one, what) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fill_in_variables(one, what) for one in value)
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    secret = from_environment(found[1])
    if secret is None:
        raise UsageError(f"{what}: the variable {found[1]} of the environment is not set")
    return secret


def environment_digests(params: Mapping[str, object]) -> dict[str, str]:
    """Returns 12 digits of the sha256 of each variable's value, except for parameters with a
    secret's name; the values identify the system, for example by its model."""
    return {
        found[1]: hashlib.sha256(os.environ.get(found[1], "").encode()).hexdigest()[:12]
        for _, name, value in _leaves(params)
        if isinstance(value, str) and (found := _REFERENCE.fullmatch(value))
        if not secret_name(name)
    }


def redact(text: str) -> str:
    """Masks the values of variables, and texts with the form of a key."""
    text = _FORM.sub(lambda found: f"{found['header'] or ''}{MASK}", text)
    return redact_texts([text])[0]


def redact_texts(texts: Iterable[str], given: Callable[[], Iterable[str]] = tuple) -> list[str]:
    """Masks the values of variables in texts that a system or a model returns. Keeps values that
    occur in its input `given`, since masking must not change scored texts."""
    left = [*texts]
    for secret in sorted(_taken, key=len, reverse=True):
        if any(secret in text for text in left) and not any(secret in text for text in given()):
            left = [text.replace(secret, MASK) for text in left]
    return left


def redact_in(value: Any, name: str = "") -> Any:
    """Redacts nested JSON values: secrets in texts, and all texts under a secret's name unless
    they are `env:NAME`."""
    if isinstance(value, Mapping):
        return {redact(str(key)): redact_in(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact_in(one, name) for one in value]
    if not isinstance(value, str) or _NO_SECRET.fullmatch(value) or _REFERENCE.fullmatch(value):
        return value
    return MASK if secret_name(name) else redact(value)


def excerpt(said: str | bytes, most: int = 200) -> str:
    """Quotes the beginning of a reply for an error; masks it before cutting."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return repr(redact(text[: 100 * most])[:most])
