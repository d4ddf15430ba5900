"""Secrets are known by name and form; what only resembles one passes."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.io.masking import (
    excerpt,
    filled_in,
    looks_secret,
    masked,
    masked_in,
    refuse_in,
    secret_name,
    values_of_others,
)
from harness.io.printed import one_line, visible

NAMES = [
    "api_key",
    "apikey",
    "openaiApiKey",
    "token",
    "hf_token",
    "secret",
    "client_secret",
    "password",
    "db-password",
    "access_key",
    "private_key",
    "Authorization",
    "bearer",
    "credentials",
    "aws_secret_access_key",
    "x-api-key",
    "api_keys",
    "pgpassword",
    "db_pass",
]
OTHER_NAMES = [
    "max_tokens",
    "tokenizer",
    "token_budget",
    "keyword",
    "key",
    "api_key_env",
    "sort_key",
    "primary_key",
    "tokens",
    "secretary",
    "passwords_file",
    "token_type",
    "bypass",
    "author",
]
NAMED = [
    ("openai_key", "0123abcd4567efab89"),
    ("cohere-key", "x9Yz-12ab-77cd-90ef"),
    ("auth", "a1b2c3d4e5f6a7b8c9"),
    ("OPENAI_KEY", "f47ac10b-58cc-4372-a567"),
    ("jwt", "a1.b2.c3.d4.e5.f6.a7"),
]
"""Secrets by their values, under names that much else has too."""
NOT_NAMED = [
    ("sort_key", "created_at_2024"),
    ("id_key", "metadata.document.id"),
    ("partition_key", "locomo10"),
    ("auth", "basic"),
    ("auth", "oauth2-client-credentials"),
    ("revision", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
]
SECRETS = [
    "sk-proj-abcdefgh12345678",
    "Authorization: Bearer abcdef1234567890",
    "https://u:p@h/x",
    "python x.py --api-key=abcd",
    "python x.py --api-key abcdef",
    "API_KEY=abcd python x",
    "http://h/?key=abc",
    "http://h/#token=abc",
    "{'token': 'abcdef'}",
    "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc",
]
NONE = [
    "python x.py --max-tokens 100",
    "unexpected token: ABC",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sentence-transformers/all-MiniLM-L6-v2",
    "task-1234567890123456789",
    "API_KEY=$KEY",
    "--token env:FOO",
    "the bearer of this letter",
    "http://localhost:8080/x?granularity=turn",
    "--pad-token X",
    "pad_token='<|endoftext|>'",
]


def test_what_is_a_secret_and_what_only_resembles_one() -> None:
    assert [name for name in NAMES if not secret_name(name)] == []
    assert [name for name in OTHER_NAMES if secret_name(name)] == []
    assert [text for text in SECRETS if not looks_secret(text)] == []
    assert [text for text in NONE if looks_secret(text) or masked(text) != text] == []


@pytest.mark.parametrize("params", [{"api_key": "canary"}, {"a": {"token": "canary-12"}}])
def test_a_secret_is_refused_and_the_name_of_its_variable_is_not(params: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="=env:") as refused:
        refuse_in("parameter", params)
    assert "canary" not in str(refused.value)
    refuse_in("parameter", {"api_key": "env:MY_KEY", "max_tokens": 100, "password": None})
    refuse_in("parameter", {"pad_token": "<|endoftext|>", "cls_token": "[CLS]"})
    refuse_in("parameter", {"split_token": "</s>", "token": "word", "credentials": "default"})


def test_a_header_keeps_nothing_of_its_secret_in_any_way_of_writing_it() -> None:
    secret = "qwertyuiop0asdfghjkl"
    for text in (
        f"{{'Authorization': 'Bearer {secret}'}}",
        f'{{"Authorization": "Token {secret}"}}',
        f"Authorization: Token {secret}",
        f"api_key: {secret}",
        f"hf_token = '{secret}'",
        f"http://user:pa@{secret}@host/x",
        f"gsk_{secret}",
    ):
        assert secret not in masked(text), text


def test_a_secret_is_masked_without_the_line_end_that_a_file_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORE_TOKEN", "  canary-0123-abc\n")
    assert masked("said canary-0123-abc.") == "said ***."


def test_a_text_is_masked_before_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_TOKEN", "canary-0123-abc")
    assert excerpt("x" * 190 + "canary-0123-abc") == repr("x" * 190 + "***")


def test_a_command_line_as_a_list_and_the_keys_of_a_report_hold_no_secret() -> None:
    with pytest.raises(UsageError, match=r"parameter opts\.args: .* holds what looks like a key"):
        refuse_in("parameter", {"opts": {"args": ["--password", "hunter2x9"]}})
    assert masked_in({"usage": {"sk-abcdefgh0123456789": 1}}) == {"usage": {"***": 1}}


def test_another_value_of_a_variable_is_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"model": "env:MODEL", "api_key": "env:KEY"}
    found = []
    for model, key in (("a", "1"), ("a", "2"), ("b", "2")):
        monkeypatch.setenv("MODEL", model)
        monkeypatch.setenv("KEY", key)
        found.append(values_of_others(params))
    assert found[0] == found[1] != found[2]
    assert [*found[0]] == ["MODEL"]


def test_a_secret_that_was_taken_is_masked_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VARIABLE", "canary/0123")
    assert filled_in({"a": ["env:MY_VARIABLE"]}, "x") == {"a": ["canary/0123"]}
    assert masked("it said canary/0123!") == "it said ***!"
    with pytest.raises(UsageError, match="NOT_THERE"):
        filled_in("env:NOT_THERE", "x")


def test_control_characters_are_written_out() -> None:
    foreign = "a\x1b[2Jb\rc\x85\u202ed\ud800\ne"
    assert visible(foreign) == "a\\u001b[2Jb\\u000dc\\u0085\\u202ed\\ud800\ne"
    assert one_line("a\nb\tc") == "a\\nb\\tc"


@pytest.mark.parametrize(
    "part",
    [
        "--a_",
        " a_",
        "'a_",
        "?a-",
        "://a",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "&",
        "eyJ.",
        "eyJ-",
    ],
)
def test_a_long_text_of_strangers_is_looked_through_in_time(part: str) -> None:
    """Which a pattern with two ways to the same match would not end with."""
    for text in (part * 20_000, part[0] + part[1:] * 20_000, f"{part * 20_000}!"):
        assert len(masked(text)) <= len(text)


@pytest.mark.parametrize(("name", "value"), NAMED)
def test_what_is_like_a_key_under_such_a_name_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=env:"):
        refuse_in("parameter", {name: value})


@pytest.mark.parametrize(("name", "value"), NOT_NAMED)
def test_a_word_under_such_a_name_passes(name: str, value: str) -> None:
    refuse_in("parameter", {name: value})
