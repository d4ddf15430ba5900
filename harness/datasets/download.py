"""Downloads raw files into the cache, pinned and resumable, from any server or from the hub."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from harness.datasets.adapter import RemoteFile
from harness.errors import FileUnavailableError, RunError
from harness.io.files import digest, fsync_path

_BLOCK = 1 << 18
_SILENCE = 30.0  # seconds without a byte before a connection counts as cut
_LEAST = 1 << 16  # bytes per minute; a slower download counts as stalled
_MINUTE = 60.0
_FAILURES = 5  # consecutive attempts without progress
_LONGEST_WAIT = 300.0  # seconds; the hub counts requests in windows of five minutes
_PASSING = {408, 429, 500, 502, 503, 504}
_COUNT = re.compile("[0-9]{1,19}")  # of bytes or seconds; longer numbers are invalid
_EXTENT = re.compile(r"bytes (?:([0-9]{1,19})-[0-9]+|\*)/([0-9]{1,19}|\*)")
_LOCAL_COPY = "or give a local copy with --source PATH"


@dataclass(frozen=True)
class DownloadSource:
    """The location of a file. `advice` maps an HTTP status to a remedy for error messages.

    `headers` go to the first host only, not to redirects, as they may contain a token.
    """

    url: str
    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    advice: Mapping[int, str] = field(default_factory=dict)


class _BrokenError(Exception):
    """Raised when an attempt fails but a retry may succeed; `wait`: Retry-After in seconds."""

    def __init__(self, reason: str, *, wait: float | None = None, reached: bool = True) -> None:
        super().__init__(reason)
        self.wait = wait
        self.reached = reached


def transfer(source: DownloadSource, part: Path, *, resume: bool, size: int, quiet: bool) -> None:
    """Downloads `source` to `part`, and flushes it to disk.

    With `resume`, a partial file is continued; otherwise every attempt starts from the beginning.
    `size` (bytes, 0: unknown) is for the progress bar until the server reports it. After an error
    or Ctrl-C the partial download is kept in `part`.

    Raises RunError when the server is unreachable, refuses, or keeps closing the connection;
    OSError when the disk is full or not writable.
    """
    from tqdm import tqdm

    reached, failures, most = False, 0, -1
    with (
        open(part, "ab") as file,
        tqdm(
            total=size or None,
            desc=source.name,
            unit="B",
            unit_scale=True,
            disable=True if quiet else None,
        ) as bar,
    ):
        while True:
            try:
                _receive(source, file, bar, resume=resume)
                break
            except _BrokenError as error:
                reached = reached or error.reached
                have = file.seek(0, os.SEEK_END)
                failures = 1 if have >= most + _LEAST else failures + 1
                most = max(most, have)
                _wait(source, error, failures, bar, reached=reached)
        file.flush()
        os.fsync(file.fileno())


def _wait(
    source: DownloadSource, error: _BrokenError, failures: int, bar: Any, *, reached: bool
) -> None:
    """Waits before the next attempt. Raises RunError if another attempt would be useless."""
    if not reached:
        raise RunError(
            f"{source.url}: {error}; check the network (HTTPS_PROXY is honoured) {_LOCAL_COPY}"
        )
    if failures > _FAILURES:
        raise RunError(
            f"{source.url}: {error}, {failures} times in a row; run the same again later to go on "
            f"from here, {_LOCAL_COPY}"
        )
    wait = error.wait if error.wait is not None else min(0.25 * 2**failures, 8.0)
    if wait > _LONGEST_WAIT:
        raise RunError(
            f"{source.url}: {error}, and the server asks to wait {wait:.0f} s: try again then, "
            f"{_LOCAL_COPY}"
        )
    bar.set_postfix_str(f"{error}: again in {wait:.0f} s")
    time.sleep(wait)
    bar.set_postfix_str("")


def _receive(source: DownloadSource, file: IO[bytes], bar: Any, *, resume: bool) -> None:
    """Makes one attempt to append the missing bytes to `file`. Raises _BrokenError on failure."""
    if not resume:
        file.truncate(0)
    have = file.seek(0, os.SEEK_END)
    with _open(source, have) as response:
        if response.status == 416:
            _, total = _extent(response)
            if total == have:
                return
            file.truncate(0)
            raise _BrokenError("the part at hand is not of this file")
        start, total = _extent(response)
        if start != have:  # a server without ranges sends the whole file
            file.truncate(0)
            have = 0
            if start:
                raise _BrokenError("the server sent a different part of the file")
        folder = Path(file.name).parent
        if total - have > shutil.disk_usage(folder).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        bar.total = total or bar.total
        bar.n = have
        for block in _blocks(response):
            file.write(block)
            bar.update(len(block))
        file.flush()
    have = file.seek(0, os.SEEK_END)
    if have < total:
        raise _BrokenError(f"cut off after {have:,} of {total:,} bytes")


def _open(source: DownloadSource, have: int) -> HTTPResponse:
    """Requests all bytes from `have` on; returns a response of status 200, 206 or 416."""
    if urlsplit(source.url).scheme not in ("http", "https"):
        raise ValueError(f"{source.url}: neither http nor https")
    # Some file servers refuse Python's default user agent.
    request = Request(source.url, headers={"User-Agent": "memory-retrieval-harness"})
    for name, value in source.headers.items():
        request.add_unredirected_header(name, value)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response: HTTPResponse = build_opener(_Redirects).open(request, timeout=_SILENCE)
        return response
    except HTTPError as error:
        if error.code == 416 and have:
            return error  # type: ignore[return-value]
        error.close()
        if error.code in _PASSING:
            raise _BrokenError(_status(error), wait=_asked_wait(error.headers)) from None
        advice = source.advice.get(error.code, f"try again later, {_LOCAL_COPY}")
        raise RunError(f"{source.url}: {_status(error)}: {advice}") from None
    except ValueError as error:  # an invalid redirect address
        raise RunError(
            f"{source.url}: the server's answer cannot be read ({error}); try again later, "
            f"{_LOCAL_COPY}"
        ) from None
    except URLError as error:
        raise _BrokenError(f"cannot be reached ({error.reason})", reached=False) from None
    except (OSError, HTTPException) as error:
        raise _BrokenError(f"no answer ({error or type(error).__name__})") from None


def _status(error: HTTPError) -> str:
    return f"HTTP {error.code} {error.reason}".rstrip()


def _extent(response: HTTPResponse) -> tuple[int, int]:
    """Returns the offset of the first byte sent, and the total size (0: unknown)."""
    if response.status == 200:
        length = (response.headers.get("Content-Length") or "").strip()
        return 0, int(length) if _COUNT.fullmatch(length) else 0
    stated = response.headers.get("Content-Range") or ""
    match = _EXTENT.fullmatch(stated.strip())
    if match is None:
        return -1, 0
    return int(match[1] or 0), int(match[2]) if match[2] != "*" else 0


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    """Yields the body. Raises _BrokenError for network failures only."""
    since, came = time.monotonic(), 0
    try:
        while block := response.read1(_BLOCK):  # does not wait for a full block
            yield block
            came += len(block)
            if came >= _LEAST:
                since, came = time.monotonic(), 0
            elif time.monotonic() - since > _MINUTE:
                raise _BrokenError(f"fewer than {_LEAST:,} bytes came in {_MINUTE:.0f} s")
    except (OSError, HTTPException) as error:
        raise _BrokenError(f"the connection broke ({error or type(error).__name__})") from None


def _asked_wait(headers: Message) -> float | None:
    """Returns the seconds to wait by Retry-After, else by the RateLimit draft header."""
    value = (headers.get("Retry-After") or "").strip()
    if _COUNT.fullmatch(value):
        return float(value)
    if value:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
        return max(0.0, seconds)
    reset = re.search(r";\s*t=([0-9]{1,18})(?![0-9])", headers.get("RateLimit") or "")
    return float(reset[1]) if reset else None


class _Redirects(HTTPRedirectHandler):
    """Follows HTTP redirects, never from https to http; a token is sent to the same origin only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        there = urlsplit(newurl).scheme
        if there not in ("http", "https") or (req.type == "https" and there == "http"):
            raise RunError(
                f"{req.full_url}: sends on to {newurl}, which is not asked: {req.type} goes on to "
                f"{'https alone' if req.type == 'https' else 'only http and https'}; get the file "
                f"elsewhere, and give a local copy with --source PATH"
            )
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if new is not None and token and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            new.add_unredirected_header("Authorization", token)
        return new


_HUB_URL = re.compile(r"hf://datasets/(?P<repo>[^@]+)@(?P<revision>[^/]+)/(?P<path>.+)")
_MOVED = (
    "the publisher has moved it: find it elsewhere and give your copy with --source PATH (its "
    "hash is checked)"
)
_REFUSED = (
    "the server does not give it to this machine: get it with a browser and give your copy with "
    "--source PATH"
)


def fetch(file: RemoteFile, folder: Path, *, quiet: bool = True) -> Path:
    """Download `file` into `folder` unless it exists, check its hash, and return its path.

    Files in the Hugging Face cache are linked, not downloaded again. An interrupted download is
    resumed from `.NAME.part`, in this process or the next, but only if its hash is pinned, since
    the joined parts could not be verified otherwise. The caller must hold a lock on `folder`.

    Raises FileUnavailableError, a RunError with instructions for getting the file, when it cannot
    be downloaded (no network, offline mode, refused, missing) or its hash is wrong; OSError when
    `folder` is not writable or its disk is full.
    """
    try:
        return _fetch(file, folder, quiet)
    except RunError as error:
        said = str(error)
        if file.url.startswith("hf://"):
            said += f"; in a browser it is at {HubFile.parse(file.url).page}"
        raise FileUnavailableError(said, file.name) from None


def _fetch(file: RemoteFile, folder: Path, quiet: bool) -> Path:
    target = folder / file.name
    if target.is_file() and not _difference(file, target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    hub = HubFile.parse(file.url) if file.url.startswith("hf://") else None
    if hub is not None:
        cached = hub.cached()
        if cached is not None and not _difference(file, cached):
            return _link(cached, target)
    if offline():
        raise RunError(
            f"{file.name} is not in the cache and HF_HUB_OFFLINE is set, so {file.url} is not "
            "asked: unset it, or give a local copy with --source PATH"
        )
    part = target.with_name(f".{target.name}.part")
    _download(file, _source(file, hub), part, quiet=quiet)
    os.replace(part, target)
    fsync_path(target.parent)
    return target


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset repository on the Hugging Face hub, at a revision.

    It is downloaded by `transfer`, since `hf_hub_download` cannot resume after its process ends.
    """

    repo: str
    revision: str
    path: str

    @classmethod
    def parse(cls, url: str) -> HubFile:
        """Parses `hf://datasets/OWNER/NAME@REVISION/PATH`; %2F is a slash in a revision."""
        match = _HUB_URL.fullmatch(url)
        if match is None:
            raise ValueError(f"{url!r} is not hf://datasets/OWNER/NAME@REVISION/PATH")
        return cls(match["repo"], unquote(match["revision"]), match["path"])

    @property
    def url(self) -> str:
        """Download address: on the hub, or on the mirror named by HF_ENDPOINT."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(
            self.repo,
            self.path,
            repo_type="dataset",
            revision=self.revision,
            endpoint=_endpoint(),
        )

    @property
    def page(self) -> str:
        """Address of the file's page for a browser."""
        return f"{self.repo_page}/blob/{quote(self.revision, safe='')}/{quote(self.path)}"

    @property
    def repo_page(self) -> str:
        """Address of the page to accept the repository's terms."""
        return f"{_endpoint()}/datasets/{self.repo}"

    def headers(self) -> dict[str, str]:
        """Returns the authorization by HF_TOKEN or `hf auth login`; empty without a token."""
        from huggingface_hub import constants, get_token

        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def cached(self) -> Path | None:
        """Returns its path in the Hugging Face cache, or None."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            self.repo, self.path, repo_type="dataset", revision=self.revision
        )
        return Path(found) if isinstance(found, str) else None


def hub_files(repo: str, revision: str) -> list[RemoteFile]:
    """Lists the files of a Hugging Face dataset repository at a revision, named by their paths.

    LFS files are pinned by their hash. Raises RunError when the hub does not list the files.
    """
    if offline():
        raise RunError(
            f"HF_HUB_OFFLINE is set, so the hub is not asked for the files of {repo}: unset it, or "
            "give a local copy with --source PATH"
        )
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi(endpoint=_endpoint())
    try:
        tree = api.list_repo_tree(repo, recursive=True, revision=revision, repo_type="dataset")
        found = [file for file in tree if isinstance(file, RepoFile)]
    except Exception as error:  # errors of the hub's library and of its HTTP client
        said = (str(error).strip() or "no reason given").splitlines()[0]
        raise RunError(
            f"the hub does not list the files of {_endpoint()}/datasets/{repo} at {revision}: "
            f"{type(error).__name__}: {said}; if it is gated, accept its terms there and set "
            "HF_TOKEN, or give a local copy with --source PATH"
        ) from error
    climbing = [f.path for f in found if f.path[0] == "/" or ".." in f.path.split("/")]
    if climbing:
        raise RunError(
            f"{_endpoint()}/datasets/{repo} names {climbing[0]!r}, a path that climbs out of it; "
            "do not use this repository"
        )
    return [
        RemoteFile(
            file.path,
            f"hf://datasets/{repo}@{revision}/{file.path}",
            sha256="" if file.lfs is None else file.lfs.sha256,
            bytes=file.size,
        )
        for file in found
    ]


def offline() -> bool:
    """Tests whether the environment forbids network access, as the hub's library does."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in {"1", "ON", "YES", "TRUE"}


def _source(file: RemoteFile, hub: HubFile | None) -> DownloadSource:
    if hub is None:
        return DownloadSource(
            file.url, file.name, advice={401: _REFUSED, 403: _REFUSED, 404: _MOVED}
        )
    gated = (
        f"it is gated or private: accept its terms at {hub.repo_page} with your Hugging Face "
        "account, set HF_TOKEN to a token of it, and try again, or give a local copy with --source "
        "PATH"
    )
    return DownloadSource(hub.url, file.name, hub.headers(), {401: gated, 403: gated, 404: _MOVED})


def _download(file: RemoteFile, source: DownloadSource, part: Path, *, quiet: bool) -> None:
    """Downloads the complete, verified file to `part`. Raises RunError for another file."""
    pinned = bool(file.sha256 or file.md5)
    if not pinned:
        part.unlink(missing_ok=True)
    continued = part.exists()
    transfer(source, part, resume=pinned, size=file.bytes, quiet=quiet)
    found = _difference(file, part)
    if found and continued:  # the partial file was damaged or of another file
        part.unlink()
        transfer(source, part, resume=True, size=file.bytes, quiet=quiet)
        found = _difference(file, part)
    if found:
        part.unlink()
        raise RunError(
            f"{source.url}: not the file that was expected: {file.name} has {_expected(file)}, "
            f"this one has {found}; it was deleted. Try again (a proxy may have answered in its "
            "place), or give the right file with --source PATH"
        )


def _difference(file: RemoteFile, path: Path) -> str:
    """Describes how `path` differs from the pinned file; empty if it does not.

    Compares hashes; the size, which may be approximate, only if no hash is known.
    """
    for algorithm, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected:
            found = digest(path, algorithm)
            size = path.stat().st_size
            return "" if found == expected.lower() else f"{algorithm} {found} ({size:,} bytes)"
    size = path.stat().st_size
    return f"{size:,} bytes" if file.bytes and size != file.bytes else ""


def _expected(file: RemoteFile) -> str:
    size = f"{file.bytes:,} bytes" if file.bytes else ""
    if file.sha256 or file.md5:
        pin = f"sha256 {file.sha256}" if file.sha256 else f"md5 {file.md5}"
        return f"{pin} ({size})" if size else pin
    return size


def _link(cached: Path, target: Path) -> Path:
    """Links `target` to `cached` without a copy: a hard link, or a symbolic one on another disk.

    A hard link is not affected if the other cache is cleaned.
    """
    aside = target.with_name(f".{target.name}.link")
    aside.unlink(missing_ok=True)
    try:
        os.link(cached.resolve(), aside)
    except OSError:
        os.symlink(cached.resolve(), aside)
    os.replace(aside, target)
    return target


def _endpoint() -> str:
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or str(constants.ENDPOINT)).rstrip("/")
