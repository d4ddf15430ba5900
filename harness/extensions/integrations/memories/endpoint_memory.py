"""What memories share that ask a language model at an OpenAI-compatible endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.extensions.answers.endpoint import Endpoint
from harness.extensions.dense.embedder import Embedder
from harness.extensions.dense.minilm import packaged_embedder
from harness.extensions.integrations.memories.session_feed import check_batch
from harness.retrievers.extras import need

MINILM = "minilm"


@dataclass(kw_only=True, eq=False, repr=False)
class EndpointMemory:
    """Parameters of such a memory, and what is made of them.

    `model` at `base_url` extracts (OpenAI-compatible; key: OPENAI_API_KEY). `embedder`: minilm
    (here), or a model of the endpoint. `batch`: session or turn at once.
    """

    modules: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    """What messages call it."""

    model: str = "gpt-4.1-mini"
    base_url: str = ""
    embedder: str = MINILM
    batch: str = "session"
    timeout: float = 120.0
    retries: int = 3

    def __post_init__(self) -> None:
        need(self.title, *self.modules)
        check_batch(self.batch)
        self._endpoint = Endpoint(self.base_url, self.timeout, self.retries)
        if self._asks_endpoint():
            self._endpoint.check_key(self.title)
        self._embedder: Embedder | None = None
        if self.embedder == MINILM:
            self._embedder = packaged_embedder(f"{self.title} with embedder=minilm")

    def _asks_endpoint(self) -> bool:
        """Return whether any model is asked, for which a key may be needed."""
        return True

    def _model_report(self) -> dict[str, object]:
        """Return what the endpoint and the embedder say was used."""
        embedding = {"embedding": self._embedder.report()} if self._embedder is not None else {}
        return self._endpoint.report() | embedding
