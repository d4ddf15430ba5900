"""A provider of memorybench runs by examples/memorybench.mjs, in both of its interfaces.

Run with -m systems: it needs node, and npx for the one in TypeScript.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from notes import corpus
from places import EXAMPLES
from polling import HANGS

from harness.retrievers.command import Command
from harness.retrievers.contract import Hit, Question

pytestmark = pytest.mark.systems

SESSIONS = """
export class Sessions {
  kept = new Map()
  async initialize(config) {
    console.log(`[INFO] Initialized with ${config.apiKey}`)
  }
  async ingest(sessions, { containerTag }) {
    this.kept.set(containerTag, sessions)
    sessions.forEach((_, i) => process.stdout.write(`\\r[${i}] of ${sessions.length}`))
    return { documentIds: sessions.map((session) => session.sessionId) }
  }
  async awaitIndexing(result, containerTag) {
    console.log(`indexed ${result.documentIds.length} of ${containerTag}`)
  }
  async search(query, { containerTag, limit }) {
    if (query === "fail") throw new Error("no credit left")
    if (query === "what is kept") return [{ memory: `${this.kept.size}` }]
    return this.kept.get(containerTag).slice(0, limit).map(({ sessionId, messages, metadata }) => ({
      score: 0.5,
      memory: `${messages[0].role} ${messages[0].content} ${metadata.date}`,
      metadata: { sessionId },
    }))
  }
  async clear(containerTag) {
    console.log(`cleared ${containerTag}`)
    this.kept.delete(containerTag)
  }
}
"""

DOCUMENTS = """
import type { Provider } from "../../types/provider"

interface Kept { customId: string; content: string; metadata: { documentDate?: string } }

export default class Documents implements Provider {
  name = "documents"
  private kept: Kept[] = []
  async initialize(): Promise<void> {}
  async ingest(documents: Kept[]): Promise<{ documentIds: string[] }> {
    this.kept = documents
    return { documentIds: documents.map((one) => one.customId) }
  }
  async awaitIndexing(): Promise<void> {}
  async search(_query: string, { limit }: { limit: number }): Promise<unknown> {
    const results = this.kept.map(({ customId, content, metadata }, i) => ({
      id: `memory-${i}`, rank: i + 1, text: `${content} ${metadata.documentDate}`,
      sessionId: customId, provider: "documents", resultType: "memory",
    }))
    return { results: results.slice(0, limit), diagnostics: {} }
  }
  async clear(): Promise<void> {}
}
"""


def test_sessions_are_told_and_what_it_logs_is_no_reply(tmp_path: Path) -> None:
    (tmp_path / "provider.mjs").write_text(SESSIONS)
    command = Command(
        f"node {EXAMPLES / 'memorybench.mjs'} {tmp_path / 'provider.mjs'}", timeout=HANGS
    )
    command.index(corpus(["green tea", "black tea"], said=[86_400, 86_400]))
    assert command.search([Question("tea")], 5)[0].hits == [
        Hit("user green tea 1970-01-02T00:00:00", ["d1"], 0.5),
        Hit("user black tea 1970-01-02T00:00:00", ["d0"], 0.5),
    ]
    with pytest.raises(ValueError, match="reports: Error: no credit left"):
        command.search([Question("fail")], 5)
    command.index(corpus(["red wine"], titles=["Cellar"]))
    assert command.search([Question("tea")], 5)[0].hits == [
        Hit("user Cellar red wine undefined", ["d0"], 0.5)
    ]
    # The last haystack is gone.
    assert command.search([Question("what is kept")], 5)[0].hits == [Hit("1", [], None)]
    assert command.report() == {}
    command.close()


def test_documents_in_typescript(tmp_path: Path) -> None:
    (tmp_path / "provider.ts").write_text(DOCUMENTS)
    program = f"npx -y tsx {EXAMPLES / 'memorybench.mjs'} {tmp_path / 'provider.ts'}"
    command = Command(program, timeout=HANGS)
    command.index(corpus(["green tea", "black tea"], said=[86_400, 86_400]))
    assert command.search([Question("tea")], 1)[0].hits == [
        Hit("green tea 1970-01-02T00:00:00", ["d1"], None)
    ]
    command.close()
