"""Downloads from a file server and from a hub, both real and on loopback."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from urllib.request import Request

import pytest
from loopback import Failure, Loopback
from polling import wait_until

from harness.datasets.adapter import RemoteFile
from harness.datasets.download import _Redirects, fetch
from harness.errors import RunError

CONTENT = bytes(range(256)) * 8192  # 2 MB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REPO, REVISION = "someone/memories", "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as server:
        yield server


@pytest.fixture
def hub(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loopback:
    server.put_dataset(REPO, REVISION, {"data/all.json": CONTENT})
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return server


def pinned(url: str, **other: object) -> RemoteFile:
    return RemoteFile("all.json", url, sha256=SHA256, bytes=len(CONTENT), **other)  # type: ignore[arg-type]


def on_hub(path: str = "data/all.json", revision: str = REVISION) -> RemoteFile:
    return pinned(f"hf://datasets/{REPO}@{revision}/{path}")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def start_fetch(file: RemoteFile, folder: Path) -> subprocess.Popen[str]:
    """`fetch` in a process of its own, with this one's environment."""
    code = (
        "import sys; from pathlib import Path\n"
        "from harness.datasets.adapter import RemoteFile\n"
        "from harness.datasets.download import fetch\n"
        "from harness.errors import HarnessError\n"
        "try: print(fetch(RemoteFile(*sys.argv[2:5]), Path(sys.argv[1]), quiet=False))\n"
        "except HarnessError as error: sys.exit(f'error: {error}')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), file.name, file.url, file.sha256],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_right_file_is_kept_whole_and_not_asked_for_twice(
    server: Loopback, tmp_path: Path
) -> None:
    file = pinned(server.put("/all.json", CONTENT))
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert fetch(file, tmp_path) == tmp_path / "all.json"
    assert names(tmp_path) == ["all.json"]
    assert len(server.requests) == 1


def test_a_wrong_hash_is_an_error_that_says_which_file_was_expected(
    server: Loopback, tmp_path: Path
) -> None:
    url = server.put("/all.json", b"<html>please log in</html>")
    found = hashlib.sha256(b"<html>please log in</html>").hexdigest()
    with pytest.raises(RunError) as caught:
        fetch(pinned(url), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    for part in (url, "all.json", SHA256, found, "2,097,152 bytes", "--source"):
        assert part in message
    assert names(tmp_path) == []


def test_md5_stands_in_where_the_publisher_gives_nothing_better(
    server: Loopback, tmp_path: Path
) -> None:
    url = server.put("/all.json", CONTENT)
    md5 = hashlib.md5(CONTENT).hexdigest()
    assert fetch(RemoteFile("all.json", url, md5=md5), tmp_path).is_file()
    with pytest.raises(RunError, match=f"md5 {md5[::-1]}"):
        fetch(RemoteFile("other.json", url, md5=md5[::-1]), tmp_path)


def test_a_file_damaged_on_the_disk_is_downloaded_again(server: Loopback, tmp_path: Path) -> None:
    file = pinned(server.put("/all.json", CONTENT))
    fetch(file, tmp_path).write_bytes(CONTENT[:-1] + b"?")
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_a_cut_connection_goes_on_where_it_was(server: Loopback, tmp_path: Path) -> None:
    file = pinned(server.put("/all.json", CONTENT))
    server.fail("/all.json", Failure(cut_after=700_000), Failure(cut_after=300_000))
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    asked = server.asked("/all.json")
    assert [r.range for r in asked] == [None, "bytes=700000-", "bytes=1000000-"]
    assert sum(sum(r.sent) for r in asked) == len(CONTENT)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_process_leaves_a_part_that_the_next_one_goes_on_from(
    server: Loopback, tmp_path: Path, stop: signal.Signals
) -> None:
    file = pinned(server.put("/all.json", CONTENT))
    server.holds_after = 1_000_000
    process = start_fetch(file, tmp_path)
    part = tmp_path / ".all.json.part"
    wait_until(lambda: part.exists() and part.stat().st_size > 500_000, process)
    process.send_signal(stop)
    process.communicate()
    assert names(tmp_path) == [".all.json.part"]
    had = part.stat().st_size
    server.holds_after = None
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert server.requests[-1].range == f"bytes={had}-"
    assert names(tmp_path) == ["all.json"]


def test_a_server_without_ranges_sends_the_file_from_the_start(
    server: Loopback, tmp_path: Path
) -> None:
    server.ranges = False
    file = pinned(server.put("/all.json", CONTENT))
    server.fail("/all.json", Failure(cut_after=700_000))
    assert fetch(file, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"of another file", CONTENT, CONTENT + b"more"])
def test_a_part_at_hand_is_never_trusted_unseen(
    server: Loopback, tmp_path: Path, part: bytes
) -> None:
    (tmp_path / ".all.json.part").write_bytes(part)
    assert fetch(pinned(server.put("/all.json", CONTENT)), tmp_path).read_bytes() == CONTENT
    assert names(tmp_path) == ["all.json"]


def test_a_file_without_a_hash_is_never_joined_from_parts(server: Loopback, tmp_path: Path) -> None:
    file = RemoteFile("all.json", server.put("/all.json", CONTENT))
    (tmp_path / ".all.json.part").write_bytes(b"old")
    server.fail("/all.json", Failure(cut_after=700_000))
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert [r.range for r in server.requests] == [None, None]


def test_a_server_that_does_not_recover_is_given_up(server: Loopback, tmp_path: Path) -> None:
    url = server.put("/all.json", CONTENT)
    server.fail("/all.json", *[Failure(503, {"Retry-After": "0"})] * 9)
    with pytest.raises(RunError, match=r"HTTP 503 .*, 6 times in a row; .*--source PATH"):
        fetch(pinned(url), tmp_path)


def test_a_server_that_drips_is_given_up(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("/all.json", CONTENT)
    server.bytes_a_second = 2000
    monkeypatch.setattr("harness.datasets.download._MINUTE", 0.1)
    hurried = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    monkeypatch.setattr("harness.datasets.download.time", hurried)
    with pytest.raises(RunError, match=r"fewer than 65,536 bytes came .* times in a row"):
        fetch(pinned(server.url + "/all.json"), tmp_path)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("http", "ftp://127.0.0.1/x"),
        ("http", "file:///etc/passwd"),
        ("https", "http://127.0.0.1/x"),
    ],
)
def test_a_redirect_to_another_scheme_is_not_followed(
    first: str, then: str, server: Loopback, tmp_path: Path
) -> None:
    if first == "https":  # without a certificate at hand: as it is asked when a reply says so
        with pytest.raises(RunError, match="https alone"):
            _Redirects().redirect_request(
                Request("https://here/x"), io.BytesIO(), 302, "", Message(), then
            )
        return
    server.fail("/all.json", Failure(302, {"Location": then}))
    with pytest.raises(RunError, match=r"not asked|not allowed|302"):
        fetch(pinned(server.url + "/all.json"), tmp_path)
    assert names(tmp_path) == [".all.json.part"]


def test_a_missing_file_is_one_line_with_its_address(server: Loopback, tmp_path: Path) -> None:
    url = f"{server.url}/all.json"
    with pytest.raises(RunError, match=rf"^{url}: HTTP 404 .*--source PATH[^\n]*$"):
        fetch(pinned(url), tmp_path)
    assert len(server.requests) == 1


def test_too_many_requests_waits_as_long_as_the_server_asks(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    watched = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("harness.datasets.download.time", watched)
    server.fail("/all.json", Failure(429, {"Retry-After": "1"}))
    fetch(pinned(server.put("/all.json", CONTENT)), tmp_path)
    assert waits == [1]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "many"},
        {"Content-Length": "9" * 400},
        {"Content-Range": "bytes x-y/z"},
        {"Retry-After": "\u00b2"},
        {"Retry-After": "Mon, 99 Jan 99999 99:99:99 GMT"},
        {"RateLimit": "t=" + "9" * 400},
        {"Location": "http://[::1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [200, 206, 302, 416, 429, 503])
def test_headers_that_say_nothing_are_an_error_in_one_line(
    headers: dict[str, str], status: int, server: Loopback, tmp_path: Path
) -> None:
    url = server.put("/all.json", CONTENT)
    encoded = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    server.fail("/all.json", Failure(status, encoded))
    with suppress(RunError):
        assert fetch(pinned(url), tmp_path).read_bytes() == CONTENT


def test_too_many_requests_for_an_hour_is_said_at_once(server: Loopback, tmp_path: Path) -> None:
    url = server.put("/all.json", CONTENT)
    server.fail("/all.json", Failure(429, {"RateLimit": '"resolvers";r=0;t=3600'}))
    with pytest.raises(RunError, match=r"HTTP 429 .* asks to wait 3600 s"):
        fetch(pinned(url), tmp_path)


def test_a_file_that_does_not_fit_on_the_disk_is_refused_before_a_byte_of_it_is_written(
    server: Loopback, tmp_path: Path
) -> None:
    url = server.put("/all.json", CONTENT)
    server.fail("/all.json", Failure(200, {"Content-Length": str(1 << 60)}))
    with pytest.raises(OSError, match="No space left") as caught:
        fetch(pinned(url), tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_no_network_is_one_line_that_names_the_local_copy(tmp_path: Path) -> None:
    with Loopback() as gone:
        url = gone.url + "/all.json"
    with pytest.raises(RunError, match=rf"^{url}: cannot be reached .*--source PATH$"):
        fetch(pinned(url), tmp_path)


def test_a_hub_file_comes_from_hf_endpoint_and_goes_on_after_a_cut(
    hub: Loopback, tmp_path: Path
) -> None:
    hub.fail(f"/lfs/{SHA256}", Failure(cut_after=700_000))
    assert fetch(on_hub(), tmp_path / "raw").read_bytes() == CONTENT
    resolve = f"/datasets/{REPO}/resolve/{REVISION}/data/all.json"
    assert [(r.path, r.range) for r in hub.requests] == [
        (resolve, None),
        (f"/lfs/{SHA256}", None),
        (resolve, "bytes=700000-"),
        (f"/lfs/{SHA256}", "bytes=700000-"),
    ]


def test_hf_token_opens_a_gated_file_and_never_reaches_another_host(
    hub: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put_dataset(REPO, REVISION, {"data/all.json": CONTENT}, token="hf_right")
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert fetch(on_hub(), tmp_path / "raw").read_bytes() == CONTENT
    to_hub, to_storage = hub.requests
    assert to_hub.headers["Authorization"] == "Bearer hf_right"
    assert "Authorization" not in to_storage.headers


def test_a_gated_file_says_where_to_accept_the_terms(hub: Loopback, tmp_path: Path) -> None:
    hub.put_dataset(REPO, REVISION, {"data/all.json": CONTENT}, token="hf_right")
    with pytest.raises(RunError) as caught:
        fetch(on_hub(), tmp_path / "raw")
    message = str(caught.value)
    for part in ("HTTP 401", f"{hub.url}/datasets/{REPO}", "HF_TOKEN", "--source PATH"):
        assert part in message
    assert "\n" not in message


def test_a_file_or_revision_that_the_hub_lacks_is_one_line(hub: Loopback, tmp_path: Path) -> None:
    for file in (on_hub(path="data/none.json"), on_hub(revision="f" * 40)):
        with pytest.raises(RunError, match=r"^http.*resolve.*: HTTP 404 .*--source PATH[^\n]*$"):
            fetch(file, tmp_path / "raw")


def test_offline_mode_asks_nobody(
    hub: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for file in (on_hub(), pinned(hub.put("/all.json", CONTENT))):
        with pytest.raises(RunError, match=r"HF_HUB_OFFLINE .*--source PATH"):
            fetch(file, tmp_path / "raw")
    assert hub.requests == []


def test_what_the_hugging_face_cache_holds_is_linked_and_not_downloaded_again(
    hub: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's own client fills its cache from this server; then nothing more is asked."""
    code = (
        "from huggingface_hub import hf_hub_download as get\n"
        f"print(get({REPO!r}, 'data/all.json', repo_type='dataset', revision={REVISION!r}))"
    )
    environment = os.environ | {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    cached = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    ).stdout.strip()
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    process = start_fetch(on_hub(), tmp_path / "raw")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert Path(out.strip()) == tmp_path / "raw" / "all.json"
    assert (tmp_path / "raw" / "all.json").samefile(cached)
    assert hub.requests == []


def test_no_progress_bar_without_a_terminal(server: Loopback, tmp_path: Path) -> None:
    process = start_fetch(pinned(server.put("/all.json", CONTENT)), tmp_path)
    assert process.communicate() == (f"{tmp_path / 'all.json'}\n", "")
