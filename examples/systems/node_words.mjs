// Counts shared words, in Node alone: a service on the port that it is given, else a command.

import { createServer } from "node:http";
import { createInterface } from "node:readline";

const haystacks = new Map();

function reply({ type, client, haystack, documents, queries, k }) {
  const asked = `${client} ${haystack}`; // of a service several may ask at once
  if (type === "reset") haystacks.set(asked, new Map());
  if (type === "reset") return { concurrent_haystacks: true };
  if (type === "close") haystacks.delete(asked);
  const kept = haystacks.get(asked);
  for (const { id, title, text } of documents ?? []) kept.set(id, words(`${title ?? ""} ${text}`));
  return type === "search" ? { results: queries.map(({ text }) => best(kept, text, k)) } : {};
}

function best(kept, text, k) {
  const asked = [...words(text)];
  const score = (found) => asked.filter((word) => found.has(word)).length;
  const hits = [...kept].map(([id, found]) => ({ id, score: score(found) }));
  return { hits: hits.sort((a, b) => b.score - a.score).slice(0, k) };
}

const words = (text) => new Set(text.toLowerCase().match(/[a-z0-9]+/g));

const port = process.argv[2];
if (port) {
  createServer(async (request, response) => {
    let body = "";
    for await (const part of request.setEncoding("utf8")) body += part;
    response.end(JSON.stringify(reply(JSON.parse(body))));
  }).listen(Number(port), "127.0.0.1");
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(reply(JSON.parse(line))));
  }
}
