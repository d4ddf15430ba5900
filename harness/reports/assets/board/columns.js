// The columns of the board, and what stands in a cell of each.

import { meaning } from "../shared/glossary.js";
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
import { chosen } from "./data.js";
import { intervalDrawing, scaleEnd } from "./interval.js";

/** Whether any query of a run failed or cannot be measured. */
export const anyLost = (rows) =>
  rows.some(({ entry: { queries: q } }) => q.failed || q.unmeasurable);

/** It lacks queries that others were measured on, so that its mean does not rank. */
export function ofFewer({ entry, now }, metric) {
  const cell = now[metric];
  return Boolean(cell?.interval && !cell.rank && !entry.sees_gold_labels);
}

export function columnsOf(now, rows) {
  const { metric, bounds } = now;
  const end = scaleEnd(rows, metric, now.columns === "abilities" ? now.abilities : []);
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
      head: [metric, overHowMany(rows, ({ now: cells }) => cells[metric]?.n)],
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
      by: ({ now: cells }) => cells[metric]?.value,
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
      title: "where the true mean lies for 95% of all samples of questions like this one",
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
      title: `${metric} over the questions of this ability`,
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

/** All that is known of a cell, for who points at it. */
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

/** The other metrics over the chosen questions. */
const ofMetrics = ({ metric, shown }) =>
  shown
    .filter(({ name }) => name !== metric)
    .map(({ name, family }) => ({
      head: family,
      id: name,
      number: true,
      kind: "part",
      cell: ({ now: cells }) => plain(cells[name]?.value),
      by: ({ now: cells }) => cells[name]?.value,
    }));

/** Over how many questions a column is; the range where systems differ in it. */
function overHowMany(rows, of) {
  const known = rows.map(of).filter((n) => n !== undefined);
  if (!known.length) return null;
  const ends = distinct([Math.min(...known), Math.max(...known)]);
  return el("span", { class: "small" }, `n ${ends.map(count).join(" to ")}`);
}

const lostColumn = {
  head: "Lost",
  id: "failed",
  first: 1,
  number: true,
  kind: "part",
  cell: ({ entry, now: cells }) =>
    lost(entry.queries, Object.values(cells).find((one) => one?.answered_only)?.answered_only),
  by: ({ entry }) => entry.queries.failed,
};

const timeColumn = {
  head: ["Time", el("span", { class: "small" }, "p50, p99")],
  title: "how long a query took where it ran: the median, and what 99 of 100 were within",
  id: "p50",
  label: "p50, p99",
  first: 1,
  number: true,
  kind: "part",
  cell({ entry }) {
    const { p50, p99 } = entry.cost.search_ms ?? {};
    return [duration(p50), p99 !== undefined && el("span", { class: "small" }, duration(p99))];
  },
  by: ({ entry }) => entry.cost.search_ms?.p50,
};

/** What taking the haystacks in cost, and what a thousand questions cost. */
const usdOf = ({ entry: { cost } }) => [cost.ingestion?.usd, cost.searching?.usd_per_1000_queries];

/** Whether it is known of any run what it cost. */
export const anyUsd = (rows) =>
  rows.some((row) => usdOf(row).some((value) => value !== undefined && value !== null));

const usdColumn = {
  head: ["USD", el("span", { class: "small" }, "once, 1,000 q.")],
  title: "what taking the haystacks in cost in US dollars, and, below it, a thousand questions",
  id: "usd",
  label: "USD: taking in, 1,000 questions",
  first: 1,
  number: true,
  kind: "part",
  cell(row) {
    const [once, questions] = usdOf(row);
    return [dollars(once), el("span", { class: "small" }, dollars(questions))];
  },
  by: (row) => usdOf(row)[0],
};

const tokensOf = ({ entry }) => entry.tokens?.per_query_top_10?.mean;

const tokensColumn = {
  head: "Tokens",
  id: "tokens",
  first: 1,
  number: true,
  kind: "part",
  cell(row) {
    const mean = tokensOf(row);
    return count(mean && Math.round(mean));
  },
  by: tokensOf,
};

/** Choose a run to be compared, or no longer. */
export function pick(run) {
  const others = chosen.compare.filter((one) => one !== run);
  chosen.set({ compare: others.length < chosen.compare.length ? others : [...others, run] });
}

/** Whether a run is chosen to be compared. */
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

function system({ entry, now }, metric) {
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
    entry.sees_gold_labels && el("span", { class: "tag" }, "saw the answer key"),
    fromElsewhere(entry) && el("span", { class: "tag" }, "rankings from elsewhere, scored here"),
    ofFewer({ entry, now }, metric) && el("span", { class: "tag bad" }, now[metric].rank_note),
    beyond(entry, metric) && el("span", { class: "tag bad" }, beyond(entry, metric)),
  );
}

/** Somebody else ran it: its rankings were taken in. */
const fromElsewhere = ({ provenance }) => provenance.submitted || provenance.imported_from;

/** Documents returned, where the metric's k exceeds them; null where it does not. */
function beyond({ returned }, metric) {
  const k = Number(metric.split("@")[1]);
  if (!returned?.unreached_cutoffs.includes(k)) return null;
  return `${returned.mean.toFixed(1)} documents returned, ${count(returned.min)} at least`;
}

/** Where the report of a run is, if there is one. */
const reportOf = ({ run, report }) => (live ? `runs/${encodeURIComponent(run)}/` : report);

/** Queries that failed, which count 0, and those that are in no mean. */
function lost({ failed, unmeasurable: unresolved }, answered) {
  const said = [
    failed ? `${count(failed)} failed` : null,
    answeredOnly(answered),
    unresolved ? `${count(unresolved)} unresolved` : null,
  ].filter(Boolean);
  return said.length ? said.map((words) => el("span", { class: "lost" }, words)) : NONE;
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
