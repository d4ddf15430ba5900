// A provider of supermemory's memorybench as a command: what its search returns is scored as it is.
//
// cp "$(harness examples memorybench.mjs)" .   # in a checkout of memorybench, after `bun install`
// harness run --dataset sample --retriever command \
//     --param run="bun memorybench.mjs src/providers/mem0/index.ts"
//
// The key of its service is PROVIDER_API_KEY of the environment. `npx tsx` serves where there is no
// bun, and plain node where the provider is JavaScript.

import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const out = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr); // its logger writes there
console.log = console.info = console.debug = console.error;

const module = await import(pathToFileURL(resolve(process.argv[2])).href);
const isProvider = (one) => typeof one?.prototype?.ingest === "function";
const Provider = [module.default, ...Object.values(module)].find(isProvider);
if (!Provider) throw new Error(`${process.argv[2]} exports no class with ingest()`);
const provider = new Provider();
const apiKey = process.env.PROVIDER_API_KEY ?? "none";
await provider.initialize({ apiKey, baseUrl: process.env.PROVIDER_BASE_URL });

let containerTag;
let sessions = [];

// Each document is a session of its own, so that what comes back of it names it. Both of their
// interfaces read it: sessions with messages, and since then documents with a customId.
function session({ id, text, title, timestamp, speaker }) {
  const role = speaker === "assistant" ? "assistant" : "user";
  const said = title ? `${title} ${text}` : text;
  const date = timestamp && { date: timestamp, documentDate: timestamp, formattedDate: timestamp };
  const messages = [{ role, content: said, speaker, timestamp }];
  return { sessionId: id, customId: id, content: said, messages, metadata: { sessionId: id, ...date } };
}

function hit(one) {
  const text = one.text ?? one.memory ?? one.content ?? one.chunk ?? JSON.stringify(one);
  const named = one.sessionId ?? one.metadata?.sessionId;
  return { text, sources: named ? [named] : [], score: one.score };
}

async function reply(message) {
  if (message.type === "reset") {
    if (containerTag) await provider.clear(containerTag);
    containerTag = `harness-${message.client}-${message.haystack}`;
    sessions = [];
  } else if (message.type === "index") {
    sessions.push(...message.documents.map(session));
    if (message.last && sessions.length) {
      const ingested = await provider.ingest(sessions, { containerTag });
      await provider.awaitIndexing(ingested, containerTag);
    }
  } else if (message.type === "search") {
    const results = [];
    for (const { text } of message.queries) {
      const found = await provider.search(text, { containerTag, limit: message.k });
      results.push({ hits: (found.results ?? found).slice(0, message.k).map(hit) });
    }
    return { results };
  }
  return {};
}

for await (const line of createInterface({ input: process.stdin })) {
  const said = await reply(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  out(`${JSON.stringify(said)}\n`);
}
if (containerTag) await provider.clear(containerTag); // at the end of the run
