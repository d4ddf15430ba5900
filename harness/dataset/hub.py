"""Files on the Hugging Face hub: their address, the token for it, and the hub's own cache.

The bytes are fetched by `transfer`, since `hf_hub_download` forgets a part when its process ends.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_URL = re.compile(r"hf://datasets/(?P<repo>[^@]+)@(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset repository, at a revision."""

    repo: str
    revision: str
    path: str

    @classmethod
    def parse(cls, url: str) -> HubFile:
        """Read `hf://datasets/OWNER/NAME@REVISION/PATH`; a slash in a revision is written %2F."""
        match = _URL.fullmatch(url)
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


def offline() -> bool:
    """True when the environment forbids the network, as the hub's own library reads it."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in {"1", "ON", "YES", "TRUE"}


def _endpoint() -> str:
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or str(constants.ENDPOINT)).rstrip("/")
