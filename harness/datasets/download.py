"""Downloads of raw files into the cache, pinned and resumable, from anywhere or from the hub."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from harness.datasets.adapter import RemoteFile
from harness.datasets.transfer import DownloadSource, transfer
from harness.errors import FileUnavailableError, RunError
from harness.io.files import digest, fsync_path

_HUB_URL = re.compile(r"hf://datasets/(?P<repo>[^@]+)@(?P<revision>[^/]+)/(?P<path>.+)")
_MOVED = (
    "the publisher has moved it: find it elsewhere and give your copy with --source PATH (its "
    "hash is checked)"
)
_REFUSED = (
    "the server does not give it to this machine: get it with a browser and give your copy with "
    "--source PATH"
)


def downloads_folder(home: Path, name: str) -> Path:
    """Where the raw files of the dataset `name` are kept."""
    return home / "downloads" / name.replace("/", "__")


def fetch(file: RemoteFile, folder: Path, *, quiet: bool = True) -> Path:
    """Download `file` into `folder` unless it is there, check its hash, and return its path.

    What the Hugging Face cache already holds is linked, not downloaded again. A download that is
    cut, or whose process is stopped, goes on where it was (`.NAME.part`), in this process or the
    next; only a file with a pinned hash does, since nothing else could prove the joined parts. The
    caller sees to it that no other process downloads into `folder` at the same time.

    Raises FileUnavailableError, a RunError that says where a person gets the file, when it cannot
    be downloaded (no network, offline mode, refused, missing) or is not the pinned one; OSError
    when `folder` cannot be written or its disk is full.
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
    """One file of a dataset repository on the Hugging Face hub, at a revision.

    `transfer` fetches its bytes: `hf_hub_download` loses what it has when its process ends.
    """

    repo: str
    revision: str
    path: str

    @classmethod
    def parse(cls, url: str) -> HubFile:
        """Read `hf://datasets/OWNER/NAME@REVISION/PATH`; a slash in a revision is written %2F."""
        match = _HUB_URL.fullmatch(url)
        if match is None:
            raise ValueError(f"{url!r} is not hf://datasets/OWNER/NAME@REVISION/PATH")
        return cls(match["repo"], unquote(match["revision"]), match["path"])

    @property
    def url(self) -> str:
        """Where it is downloaded from: the hub, or the mirror that HF_ENDPOINT names."""
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
        """The page of the file, from which a browser downloads it."""
        return f"{self.repo_page}/blob/{quote(self.revision, safe='')}/{quote(self.path)}"

    @property
    def repo_page(self) -> str:
        """The page on which people accept its terms."""
        return f"{_endpoint()}/datasets/{self.repo}"

    def headers(self) -> dict[str, str]:
        """The authorization, with HF_TOKEN or after `hf auth login`; empty without a token."""
        from huggingface_hub import constants, get_token

        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def cached(self) -> Path | None:
        """Its place in the Hugging Face cache, if it was ever downloaded there."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            self.repo, self.path, repo_type="dataset", revision=self.revision
        )
        return Path(found) if isinstance(found, str) else None


def hub_files(repo: str, revision: str) -> list[RemoteFile]:
    """The files of a dataset repository of the hub at a revision; names are their paths there.

    What the hub keeps apart (LFS) is pinned by its hash. Raises RunError when the hub does not say.
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
    except Exception as error:  # of the hub's library, and of the one that it speaks HTTP with
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
    """True when the environment forbids the network, as the hub's own library reads it."""
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
    """Leave the whole, right file at `part`, or raise."""
    pinned = bool(file.sha256 or file.md5)
    if not pinned:
        part.unlink(missing_ok=True)
    continued = part.exists()
    transfer(source, part, resume=pinned, size=file.bytes, quiet=quiet)
    found = _difference(file, part)
    if found and continued:  # the part was of another file, or damaged
        part.unlink()
        transfer(source, part, resume=True, size=file.bytes, quiet=quiet)
        found = _difference(file, part)
    if found:
        part.unlink()
        raise RunError(
            f"{source.url}: not the file that was expected: {file.name} has {_expected(file)}, "
            f"this one has {found}; it was not kept. Try again (a proxy may have answered in its "
            "place), or give the right file with --source PATH"
        )


def _difference(file: RemoteFile, path: Path) -> str:
    """What `path` has instead of what is pinned; empty when it is the right file.

    A hash decides alone; the size, which may be a rough one, only where no hash is known.
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
    """Let `target` be `cached` without a second copy: a hard link, else (another disk) a soft one.

    A hard link outlives the other cache's cleaning.
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
