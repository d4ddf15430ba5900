// The details of one run of the table.

import {
  count,
  dollars,
  duration,
  moment,
  NONE,
  parameters,
  plain,
  span,
  withRandom,
} from "../shared/numbers.js";
import { el, facts } from "../shared/page.js";
import { table } from "../shared/tables.js";

/** All details of an entry, in parts; `cells` are its results by slice. */
export function entryDetails(entry, cells, metric) {
  const { provenance } = entry;
  const part = (name, content, whole = false) =>
    content?.hasChildNodes()
      ? el("div", { class: whole ? "whole" : null }, el("h3", {}, name), content)
      : null;
  const git = provenance.git;
  return el(
    "div",
    { class: "detail-grid" },
    [
      part(
        "System",
        facts([
          ["Retriever", entry.system],
          ["Version", entry.version],
          ["Parameters", parameters(entry.params)],
          ["Revision", entry.revision],
          ["Run by", entry.submitted_by],
          ["Imported", provenance.submitted ? "yes, and scored here from its rankings" : null],
          ["Folder", entry.run],
        ]),
      ),
      part("Documents returned", facts(returned(entry))),
      part(
        "Failures",
        facts([
          ["Queries that failed", count(entry.queries.failed)],
          ["Without a ranking", count(entry.queries.without_ranking)],
          ["Not measurable", entry.queries.unmeasurable ? count(entry.queries.unmeasurable) : null],
        ]),
      ),
      part(`By ability: ${metric}`, abilityTable(cells, metric)),
      part("Cost and time", facts(costs(entry))),
      part("Unanswerable queries and updated facts", facts(sections(entry))),
      part(
        "Provenance",
        facts([
          ["Finished", `${moment(provenance.finished)} UTC`],
          [
            "Code",
            git?.commit
              ? `${String(git.commit).slice(0, 12)}${git.changed ? ", with changes" : ""}`
              : null,
          ],
          ["Machine", provenance.machine ? flat(provenance.machine) : null],
          ["Versions", provenance.versions ? flat(provenance.versions) : null],
          ["Files", provenance.files ? flat(provenance.files) : null],
          ["Rankings from", provenance.imported_from ? flat(provenance.imported_from) : null],
        ]),
        true,
      ),
      entry.command
        ? part("Repeat this run", el("code", { class: "command" }, entry.command), true)
        : null,
    ].filter(Boolean),
  );
}

/** Statistics of the returned documents; nothing for imported runs without them. */
function returned({ returned: found }) {
  if (!found) return [["Per query", "not known"]];
  return [
    ["Mean per query", found.mean.toFixed(1)],
    ["Minimum", count(found.min)],
    [
      "Rankings shorter than requested, though the haystack has more",
      `${count(found.shorter)} of ${count(found.rankings)}`,
    ],
    ["k that exceeds more than 10% of rankings", found.unreached_cutoffs.join(", ")],
  ];
}

const flat = (values) =>
  Object.entries(values)
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");

function abilityTable(cells, metric) {
  const rows = Object.entries(cells)
    .filter(([, metrics]) => metrics[metric])
    .map(([name, metrics]) => ({ name, ...metrics[metric] }));
  if (!rows.length) return null;
  const number = (head, cell) => ({ head, number: true, cell });
  return table(
    [
      { head: "Slice", cell: ({ name }) => name },
      number("n", ({ n }) => count(n)),
      number("Value", ({ value }) => plain(value)),
      number("95% interval", ({ interval }) =>
        interval ? span(interval.low, interval.high) : NONE,
      ),
    ],
    rows,
  );
}

/** Usage and cost, a row each, without the objects of single models. */
const used = (of, counts) =>
  Object.entries(counts ?? {})
    .filter(([, value]) => typeof value === "number")
    .map(([name, value]) => [
      `${of}: ${name.replace("usd", "USD").replaceAll("_", " ")}`,
      name.startsWith("usd") ? dollars(value) : count(value),
    ]);

function costs({ cost, tokens }) {
  const search = cost.search_ms,
    memory = cost.peak_memory_bytes;
  return [
    ["Query latency, p50", search ? duration(search.p50) : null],
    ["p95", search ? duration(search.p95) : null],
    ["p99", search ? duration(search.p99) : null],
    [
      "Indexing",
      cost.index
        ? `${duration(1000 * cost.index.seconds)} for ${count(cost.index.documents)} documents`
        : null,
    ],
    ...used("Ingestion", cost.ingestion),
    ...used("Search", cost.searching),
    [
      "Texts embedded",
      cost.embeddings
        ? `${count(cost.embeddings.texts_embedded)} of ${count(cost.embeddings.texts_asked)}; the others were cached`
        : null,
    ],
    [
      "Peak memory",
      memory
        ? Object.entries(memory)
            .map(([name, bytes]) => `${name} ${count(Math.round(bytes / 1e6))} MB`)
            .join(", ")
        : null,
    ],
    [
      "Tokens in the top 10, mean",
      tokens?.per_query_top_10?.mean != null
        ? count(Math.round(tokens.per_query_top_10.mean))
        : null,
    ],
    ...Object.entries(tokens?.recall_within_budget ?? {}).map(([budget, found]) => [
      `Recall in ${count(Number(budget))} tokens`,
      withRandom(found.recall, found.random_baseline),
    ]),
  ];
}

function sections({ abstention, knowledge_update: updates, changes }) {
  const pairs = [];
  if (abstention) {
    pairs.push(["False positive rate", plain(abstention.false_positive_rate)]);
    if (abstention.confidence)
      pairs.push(
        ["AUROC", plain(abstention.confidence.auroc)],
        ["F1 of abstention", plain(abstention.confidence.at_threshold.f1)],
        ["AURC", plain(abstention.confidence.aurc)],
      );
  }
  const byK = ([a], [b]) => a.localeCompare(b, "en", { numeric: true }); // @5 before @10
  for (const section of [updates, changes])
    for (const [name, value] of Object.entries(section?.values ?? {}).sort(byK))
      pairs.push([name.replaceAll("_", " "), withRandom(value, section.random_baseline[name])]);
  return pairs;
}
