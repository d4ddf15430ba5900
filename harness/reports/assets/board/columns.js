// The columns of the table.

import { lowerIsBetter, meaning } from "../shared/glossary.js";
import {
  answeredOnly,
  count,
  dollars,
  duration,
  NONE,
  parameters,
  plain,
  short,
  span,
} from "../shared/numbers.js";
import { distinct, downTo, el, live } from "../shared/page.js";
import { chosen, nameOf } from "./data.js";
import { intervalDrawing, scaleEnd } from "./interval.js";
import { unfold } from "./rows.js";

/** Whether a query of any run failed or is unresolved. */
export const anyLost = (rows) =>
  rows.some(({ entry: { queries: q } }) => q.failed || q.unmeasurable);

/** Whether a run lacks queries of others, so that its mean is not ranked. */
export function ofFewer({ entry, now }, metric) {
  const cell = now[metric];
  return Boolean(cell?.interval && !cell.rank && !entry.sees_gold_labels);
}

export function columnsOf(now, rows) {
  const { metric, bounds } = now;
  const end = scaleEnd(rows, metric, now.columns === "abilities" ? now.abilities : []);
  const lower = lowerIsBetter(metric);
  return [
    { head: el("span", { class: "unseen" }, "Compare"), kind: "pick", id: "pick", cell: picking },
    {
      head: "Rank",
      kind: "rank",
      id: "rank",
      cell: (row) =>
        el(
          "td",
          { class: "rank", title: row.now[metric]?.rank_note },
          rankSaid(row.now[metric]?.rank, row.entry.sees_gold_labels || ofFewer(row, metric)),
        ),
      by: ({ now: cells }) => cells[metric]?.rank,
    },
    {
      head: "System",
      kind: "system",
      id: "system",
      cell: (row) => system(row, metric),
      by: ({ entry }) => entry.label,
    },
    {
      head: [
        metric,
        lower && el("span", { class: "small" }, "lower is better"),
        overHowMany(rows, ({ now: cells }) => cells[metric]?.n),
      ],
      title: meaning(metric),
      number: true,
      kind: "main",
      id: "metric",
      label: metric,
      cell: ({ now: cells }) => {
        const { value, interval } = cells[metric] ?? {};
        return [
          el("span", { class: "value" }, plain(value)),
          interval && el("span", { class: "small" }, span(interval.low, interval.high)),
        ];
      },
      by: ({ now: cells }) => {
        const value = cells[metric]?.value;
        return value == null ? null : lower ? -value : value; // best first
      },
    },
    {
      head: [
        "95% interval",
        el(
          "div",
          { class: "scale", "aria-hidden": "true" },
          [0, end / 2, end].map((tick) => el("span", {}, short(tick))),
        ),
      ],
      title: meaning("95% interval"),
      kind: "interval",
      id: "interval",
      cell: ({ now: cells }) => intervalDrawing(cells[metric] ?? {}, bounds[metric] ?? {}, end),
    },
    ...(now.columns === "abilities" ? ofAbilities(now, rows, end) : ofMetrics(now)),
    ...(anyLost(rows) ? [lostColumn] : []),
    timeColumn,
    ...(anyUsd(rows) ? [usdColumn] : []),
    tokensColumn,
  ];
}

/** One metric over each ability, with a small drawing in each cell, all on one scale. */
const ofAbilities = ({ abilities, metric, bySlice }, rows, end) =>
  abilities.map((name) => {
    const cellOf = ({ slices }) => slices[name]?.[metric];
    return {
      head: [name, overHowMany(rows, (row) => cellOf(row)?.n)],
      title: `${metric} over the queries of this ability`,
      id: name,
      number: true,
      kind: "part ability",
      cell(row) {
        const cell = cellOf(row) ?? {};
        const bound = bySlice[name]?.[metric] ?? {};
        return el(
          "td",
          { class: "number part ability", title: cellSaid(name, metric, cell, bound) },
          el("span", { class: "of" }, plain(cell.value)),
          intervalDrawing(cell, bound, end, 9),
        );
      },
      by: (row) => cellOf(row)?.value,
    };
  });

/** The tooltip of a cell. */
function cellSaid(name, metric, { value, n, interval, rank }, { random_baseline: random }) {
  return [
    `${name}: ${metric} ${plain(value)}`,
    interval && `95% interval ${span(interval.low, interval.high)}`,
    n !== undefined && `n ${count(n)}`,
    random && `random ${span(random[0], random.at(-1))}`,
    rank && `rank ${[...new Set(rank)].join("–")}`,
  ]
    .filter(Boolean)
    .join("; ");
}

/** The other metrics over the chosen queries. */
const ofMetrics = ({ metric, shown }) =>
  shown
    .filter(({ name }) => name !== metric)
    .map(({ name, family }) => ({
      head: family,
      id: name,
      number: true,
      kind: "part other",
      cell: ({ now: cells }) => plain(cells[name]?.value),
      by: ({ now: cells }) => cells[name]?.value,
    }));

/** The number of queries of a column; a range where systems differ in it. */
function overHowMany(rows, of) {
  const known = rows.map(of).filter((n) => n !== undefined);
  if (!known.length) return null;
  const ends = distinct([Math.min(...known), Math.max(...known)]);
  return el("span", { class: "small" }, `n ${ends.map(count).join(" to ")}`);
}

const lostColumn = {
  head: ["Failed", el("span", { class: "small" }, "or unresolved")],
  title: meaning("lost"),
  id: "failed",
  label: "Failed",
  first: 1,
  number: true,
  kind: "part",
  cell: ({ entry, now: cells }) =>
    lost(entry.queries, Object.values(cells).find((one) => one?.answered_only)?.answered_only),
  by: ({ entry }) => entry.queries.failed,
};

const timeColumn = {
  head: ["Latency", el("span", { class: "small" }, "p50, p99")],
  title: "time per query on the machine of the run: the median, and the 99th percentile",
  id: "p50",
  label: "Latency",
  first: 1,
  number: true,
  kind: "part",
  cell({ entry }) {
    const { p50, p99 } = entry.cost.search_ms ?? {};
    return [duration(p50), p99 !== undefined && el("span", { class: "small" }, duration(p99))];
  },
  by: ({ entry }) => entry.cost.search_ms?.p50,
};

/** The cost of ingesting the dataset, and of a thousand queries. */
const usdOf = ({ entry: { cost } }) => [cost.ingestion?.usd, cost.searching?.usd_per_1000_queries];

/** Whether the cost of any run is known. */
export const anyUsd = (rows) =>
  rows.some((row) => usdOf(row).some((value) => value !== undefined && value !== null));

const usdColumn = {
  head: ["USD", el("span", { class: "small" }, "ingest, 1,000 q.")],
  title: "cost of ingesting the dataset in US dollars, and of a thousand queries",
  id: "usd",
  label: "USD: ingest, 1,000 queries",
  first: 1,
  number: true,
  kind: "part",
  cell(row) {
    const [once, questions] = usdOf(row);
    return [dollars(once), el("span", { class: "small" }, dollars(questions))];
  },
  by: (row) => usdOf(row)[0],
};

export const tokensOf = ({ entry }) => entry.tokens?.per_query_top_10?.mean;

const tokensColumn = {
  head: ["Tokens", el("span", { class: "small" }, "top 10")],
  title: "tokens of the first ten documents, mean per query",
  id: "tokens",
  label: "Tokens",
  first: 1,
  number: true,
  kind: "part",
  cell(row) {
    const mean = tokensOf(row);
    return count(mean && Math.round(mean));
  },
  by: tokensOf,
};

/** Choose a run for the comparison, or remove it. */
export function pick(run) {
  const others = chosen.compare.filter((one) => one !== run);
  chosen.set({ compare: others.length < chosen.compare.length ? others : [...others, run] });
}

/** A box that chooses a run for the comparison. */
function picking({ entry }) {
  const change = () => pick(entry.run);
  const box = el("input", {
    type: "checkbox",
    id: `compare-${entry.run}`,
    "aria-label": `Compare ${entry.label}`,
    checked: chosen.compare.includes(entry.run),
    on: { change },
  });
  return el("td", { class: "pick" }, el("label", {}, box));
}

function system(row, metric) {
  const { entry, now } = row;
  const open = chosen.open.includes(entry.run);
  const click = () => {
    const others = chosen.open.filter((run) => run !== entry.run);
    chosen.set({ open: open ? others : [...others, entry.run] });
  };
  const about = {
    id: `open-${entry.run}`,
    "aria-expanded": String(open),
    "aria-controls": open ? `details-${entry.run}` : null,
  };
  const report = reportOf(entry);
  return el(
    "th",
    { scope: "row", class: "system" },
    el(
      "div",
      { class: "named" },
      el("button", { type: "button", class: "plain", ...about, on: { click } }, entry.label),
      report &&
        el("a", { href: downTo(report), "aria-label": `Report of ${entry.label}` }, "report"),
    ),
    el("span", { class: `params${entry.sole ? " sole" : ""}` }, parameters(entry.distinct_params)),
    row.same?.length > 0 && sameResults(row),
    entry.sees_gold_labels && el("span", { class: "tag" }, "saw the gold labels"),
    fromElsewhere(entry) && el("span", { class: "tag" }, "imported rankings, scored here"),
    ofFewer({ entry, now }, metric) && el("span", { class: "tag bad" }, now[metric].rank_note),
    beyond(entry, metric) && el("span", { class: "tag bad" }, beyond(entry, metric)),
  );
}

/** The button that shows or folds the runs with the same results as this one. */
function sameResults(row) {
  const { entry, same, unfolded } = row;
  const names = same.map((other) => nameOf(other.entry)).join(", ");
  return el(
    "button",
    {
      type: "button",
      class: "link same",
      id: `same-${entry.run}`,
      "aria-expanded": String(unfolded),
      on: { click: () => unfold(row) },
    },
    unfolded
      ? "fold runs with the same results"
      : `+ ${same.length} with the same results: ${names}`,
  );
}

/** Whether its rankings were imported. */
const fromElsewhere = ({ provenance }) => provenance.submitted || provenance.imported_from;

/** The number of documents returned, where it is below the metric's k; else null. */
function beyond({ returned, sees_gold_labels: saw }, metric) {
  const k = Number(metric.split("@")[1]);
  if (saw || !returned?.unreached_cutoffs.includes(k)) return null;
  return `returned ${returned.mean.toFixed(1)} documents per query (min ${count(returned.min)})`;
}

/** The address of the report of a run, if there is one. */
const reportOf = ({ run, report }) => (live ? `runs/${encodeURIComponent(run)}/` : report);

/** Failed queries, which count 0, and unresolved ones, which are in no mean. */
function lost({ failed, unmeasurable: unresolved }, answered) {
  const parts = [
    failed ? `${count(failed)} failed` : null,
    answeredOnly(answered),
    unresolved ? `${count(unresolved)} unresolved` : null,
  ].filter(Boolean);
  return parts.length ? parts.map((words) => el("span", { class: "lost" }, words)) : NONE;
}

function rankSaid(rank, outside) {
  if (outside)
    return [
      el("span", { "aria-hidden": "true" }, NONE),
      el("span", { class: "unseen" }, "not ranked"),
    ];
  return rank ? [...new Set(rank)].join("–") : NONE;
}

/** The random baseline, or the upper bound, under each metric. */
export function boundRow(name, key, { metric, bounds, bySlice }, columns) {
  const words = (ends, least) => (ends ? (least ? "≤ " : "") + span(ends[0], ends.at(-1)) : NONE);
  const of = ({ id, kind }) => {
    if (id === "metric" || !kind?.startsWith("part"))
      return id === "metric" ? bounds[metric] : undefined;
    return bounds[id] ?? bySlice[id]?.[metric];
  };
  return el(
    "tr",
    {},
    columns.map((column) => {
      if (column.id === "system") return el("th", { scope: "row", class: "system" }, name);
      const found = of(column);
      const classes = [column.number && "number", column.kind].filter(Boolean).join(" ");
      if (!found) return el("td", { class: classes });
      const head = column.id === "metric" ? metric : column.id;
      return el(
        "td",
        { class: classes, "data-head": head },
        words(found[key], found[`${key}_method`]),
      );
    }),
  );
}
