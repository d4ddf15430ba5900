"""Parameters with a secret's name must be variables; keys are masked in output, and only there."""

from __future__ import annotations

import json
import random
import string

import pytest

from harness.cli.output import print_json
from harness.cli.report import ReportOutput
from harness.errors import UsageError
from harness.io.masking import (
    environment_digests,
    excerpt,
    fill_in_variables,
    from_environment,
    redact,
    redact_in,
    redact_texts,
    refuse_secrets,
    secret_name,
)
from harness.io.terminal import one_line, safe_output, visible

NAMES = """api_key apikey openaiApiKey token hf_token access_token secret client_secret password
    db-password private_key Authorization bearer credentials aws_secret_access_key x-api-key
    api_keys pgpassword db_pass openai_key cohere-key MEM0_KEY jwt session_cookie secret_key
    deepseek_key google_key hf_key together_key tavily_key refresh_token id_token"""
OTHER_NAMES = """max_tokens tokenizer token_budget keyword key api_key_env sort_key primary_key
    tokens secretary passwords_file token_type bypass author access_key partition_key pad_token
    cls_token split_token auth revision path model prompt doc_token image_token prefix_token
    eot_token next_token"""

_LETTERS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
KINDS = {
    "OpenAI": ("sk-", 48, _LETTERS),
    "OpenAI project": ("sk-proj-", 100, _LETTERS + "_-"),
    "Anthropic": ("sk-ant-api03-", 93, _LETTERS + "_-"),
    "OpenRouter": ("sk-or-v1-", 64, _HEX),
    "DeepSeek": ("sk-", 32, _HEX),
    "Langfuse": ("sk-lf-", 36, _HEX + "-"),
    "mem0": ("m0-", 40, _LETTERS),
    "Zep": ("z_", 80, _LETTERS + "."),
    "Pinecone": ("pcsk_", 70, _LETTERS + "_"),
    "Stripe": ("sk_live_", 24, _LETTERS),
    "Stripe restricted": ("rk_test_", 24, _LETTERS),
    "npm": ("npm_", 36, _LETTERS),
    "SendGrid": ("SG.aBcDeFgHiJkLmNoPqRsTuV.", 43, _LETTERS + "_-"),
    "Voyage": ("pa-", 43, _LETTERS + "_-"),
    "GitHub": ("ghp_", 36, _LETTERS),
    "GitHub fine-grained": ("github_pat_", 82, _LETTERS + "_"),
    "GitLab": ("glpat-", 20, _LETTERS + "_-"),
    "Hugging Face": ("hf_", 34, _LETTERS),
    "Groq": ("gsk_", 52, _LETTERS),
    "Replicate": ("r8_", 37, _LETTERS),
    "Slack": ("xoxb-", 50, string.digits + "-"),
    "AWS": ("AKIA", 16, string.ascii_uppercase + string.digits),
    "Google": ("AIza", 35, _LETTERS + "_-"),
    "Jina": ("jina_", 60, _LETTERS),
    "Tavily": ("tvly-dev-", 32, _LETTERS),
    "Perplexity": ("pplx-", 48, _LETTERS),
    "xAI": ("xai-", 80, _LETTERS),
    "NVIDIA": ("nvapi-", 64, _LETTERS + "_-"),
    "Together": ("tgp_v1_", 43, _LETTERS),
    "LangSmith": ("lsv2_pt_", 32, _HEX),
    "LlamaCloud": ("llx-", 48, _LETTERS),
    "Firecrawl": ("fc-", 32, _HEX),
    "Databricks": ("dapi", 32, _HEX),
    "Notion": ("ntn_", 46, _LETTERS),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc", 100, _LETTERS + "_-"),
    "Fireworks": ("fw_", 24, _LETTERS),
}
"""The prefix, the length and the characters of keys of many services."""
HARMLESS = {
    "model": """sk-learn-tfidf-word-v2-bigrams sentence-transformers/all-MiniLM-L6-v2 gpt-4o-mini
        gpt-4o-2024-08-06 claude-3-5-sonnet-20241022 hf_ModelNameV2Large BAAI/bge-m3 e5-base-v2
        text-embedding-3-small ft:gpt-4o-mini:org::A1b2C3d4 llama3.1:8b-instruct-q4_K_M
        voyage-3-large Qwen/Qwen2.5-7B-Instruct-1M m0-large-v2-reranker pa-bert-base-multilingual
        z_score_2024 da39a3ee5e6b4b0d3255bfef95601890afd80709
        fw_small_encoder_v2 task-1234567890123456789""",
    "path": """data/hf_ModelNameV2Large /tmp/sk-run-2024-11-21/index.faiss ./key-value-store-2024
        C:\\keys\\file s3://bucket/prefix-2024 ../token-counts/v1.2.3 npm_modules/cache
        file:///var/lib/SG.index.2024 ghp_notes/2023-05-08.md xoxo-letters-2023""",
    "url": "http://localhost:8080/x https://api.example.com/v1 redis://127.0.0.1:6379/0",
    "access_key": "title text metadata.document.id",
    "sort_key": "created_at_2024 -timestamp score",
    "key": "id user_id session_1",
    "tokenizer": "o200k_base words+marks porter",
    "token": "[CLS] [MASK] <s> </s> <|endoftext|>",
    "pad_token": "<|endoftext|> [PAD] </s>",
    "auth": "basic none oauth2-client-credentials",
    "user": "Caroline caroline@example.com conv-26",
    "api_key_env": "MEM0_API_KEY VOYAGE_KEY",
    "args": "--max-tokens --pad-token --k=10 --token-budget=500",
}
PHRASES = [
    "password: the cat",
    "Keep the secret: tell nobody. The bearer of this letter knows.",
    "basic facts about tokens and authorization",
    "unexpected token: ABC",
    "API keys are 1. long 2. random 3. secret",
    "What is my password for the library?",
    "She said https://medium.com/@caroline is her page",
    "token token token 2024-05-08",
    "Answer; never reveal the --password here",
    "TOKEN=words",
]


def _key(kind: str) -> str:
    prefix, length, letters = KINDS[kind]
    random_ = random.Random(kind)
    body = "".join(random_.choice(letters) for _ in range(length - 2))
    return f"{prefix}{body[:4]}7A{body[4:]}" if _HEX not in letters else f"{prefix}{body}7a"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_refused_under_a_secret_name_and_masked_in_output(kind: str) -> None:
    key = _key(kind)
    for value in (key, f"<{key}>", f"[{key}]"):
        with pytest.raises(UsageError, match="api_key=env:API_KEY") as refused:
            refuse_secrets("parameter", {"api_key": value})
        assert key not in str(refused.value)
    for text in (f"401: bad key {key}.", f"{{'key': '{key}'}}", f"?k={key}&x=1", f"KEY={key}\n"):
        assert key[-12:] not in redact(text), text
        assert redact(text) != "***"
    assert redact_in({"usage": {key: 1}}) == {"usage": {"***": 1}}


def test_harmless_values_are_accepted_and_stay_in_output() -> None:
    values = [(name, value) for name, texts in HARMLESS.items() for value in texts.split()]
    values += [("prompt", phrase) for phrase in PHRASES]
    assert len(values) >= 60
    for name, value in values:
        refuse_secrets("parameter", {name: value})
        assert redact_in({name: value}) == {name: value}
        assert redact(f"{name}={value}") == f"{name}={value}"


def test_a_name_says_whether_a_parameter_is_a_secret() -> None:
    assert [name for name in NAMES.split() if not secret_name(name)] == []
    assert [name for name in OTHER_NAMES.split() if secret_name(name)] == []


@pytest.mark.parametrize(
    "params",
    [
        {"api_key": "canary"},
        {"a": {"token": "canary-12"}},
        {"opts": {"args": ["--password", "canary"]}},
        {"run": "python x.py --api-key=canary"},
        {"run": "API_KEY=canary python x.py"},
        {"run": "python x.py --api-key env:canary"},  # which a command is given as it stands
        {"args": ["--api-key=env:canary"]},
    ],
)
def test_a_secret_is_refused_and_the_name_of_its_variable_is_not(params: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"env:|\$") as refused:
        refuse_secrets("parameter", params)
    assert "canary" not in str(refused.value)
    refuse_secrets(
        "parameter", {"api_key": "env:MY_KEY", "token": 100, "password": None, "secret": ""}
    )
    refuse_secrets("parameter", {"run": "sh -c 'API_KEY=\"$KEY\" python x.py --api-key $KEY'"})
    refuse_secrets("parameter", {"args": ["--token", "env:T"]})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'Authorization': 'Bearer qwertyuiop0asdf'}", "{'Authorization': 'Bearer ***'}"),
        ("Authorization: Token qwertyuiop", "Authorization: Token ***"),
        ("X-API-Key: qwertyuiop", "X-API-Key: ***"),
        ("with bearer abcdef0123456789", "with ***"),
        ("http://user:pa@ss@host/x", "http://***@host/x"),
        ("-----BEGIN PRIVATE KEY-----\nDEK: A-B\nabc", "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc", "***"),
    ],
)
def test_headers_addresses_and_private_keys_are_masked_in_output(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_json_stays_json_where_secrets_in_it_are_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_TOKEN", 'canary"0123\\abc')
    from_environment("STORE_TOKEN")
    said = {
        'Authorization: Bearer abcdef" number 0': 'Authorization: Bearer ***" number 0',
        "see http://x.org\nand me@x.org": "see http://x.org\nand me@x.org",
        '-----BEGIN PRIVATE KEY-----\nabc"': "***",
        'said canary"0123\\abc, http://me:pass@x.org': "said ***, http://***@x.org",
    }
    with safe_output():
        for text in said:
            print_json(ReportOutput(page=text))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["page"] for line in lines] == [*said.values()]
    assert redact(repr("http://x.org\nand me@x.org")) == repr("http://x.org\nand me@x.org")


def test_a_secret_is_masked_without_the_line_end_that_a_file_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORE_TOKEN", "  canary-0123-abc\n")
    from_environment("STORE_TOKEN")
    assert redact("said canary-0123-abc.") == "said ***."


def test_a_text_is_masked_before_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_TOKEN", "canary-0123-abc")
    from_environment("STORE_TOKEN")
    assert excerpt("x" * 190 + "canary-0123-abc") == repr("x" * 190 + "***")


def test_a_variable_that_nobody_named_masks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "the art class of 2023")
    assert redact("I took the art class of 2023") == "I took the art class of 2023"


def test_a_value_that_is_in_the_memory_texts_is_not_masked_in_what_is_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", "the art class-2023")
    from_environment("MY_TOKEN")
    texts = ["Caroline: the art class-2023", "nothing"]
    assert redact_texts(texts, lambda: ["I took the art class-2023"]) == texts
    assert redact_texts(texts, lambda: ["another memory"]) == ["Caroline: ***", "nothing"]


def test_another_value_of_a_variable_is_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"model": "env:MODEL", "api_key": "env:KEY"}
    found = []
    for model, key in (("a", "1"), ("a", "2"), ("b", "2")):
        monkeypatch.setenv("MODEL", model)
        monkeypatch.setenv("KEY", key)
        found.append(environment_digests(params))
    assert found[0] == found[1] != found[2]
    assert [*found[0]] == ["MODEL"]


def test_a_secret_that_was_taken_is_masked_in_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VARIABLE", "canary/0123")
    assert fill_in_variables({"a": ["env:MY_VARIABLE"]}, "x") == {"a": ["canary/0123"]}
    assert redact("it said canary/0123!") == "it said ***!"
    with pytest.raises(UsageError, match="NOT_THERE"):
        fill_in_variables("env:NOT_THERE", "x")


def test_control_characters_are_written_out() -> None:
    foreign = "a\x1b[2Jb\rc\x85\u202ed\ud800\ne"
    assert visible(foreign) == "a\\u001b[2Jb\\u000dc\\u0085\\u202ed\\ud800\ne"
    assert one_line("a\nb\tc") == "a\\nb\\tc"


@pytest.mark.parametrize(
    "part",
    [
        *(
            "?a-",
            "://a",
            "bearer ",
            "-----BEGIN PRIVATE KEY-----",
            "sk-",
            "eyJ.",
            "eyJ-",
            "pa-",
            "z_",
        ),
        *("authorization: ", "authorization", "m0-", "SG.", "xoxb-", "gsk_"),
    ],
)
def test_a_long_text_of_strangers_is_looked_through_in_time(part: str) -> None:
    """Which a pattern with two ways to the same match would not end with."""
    for text in (part * 20_000, part[0] + part[1:] * 20_000, f"{part * 20_000}!"):
        assert len(redact(text)) <= len(text)


def test_a_long_command_line_is_looked_through_in_time() -> None:
    for part in ("--a ", "--", " A_", "A=", "--a=", "\n--a"):
        refuse_secrets("parameter", {"run": part * 20_000})
