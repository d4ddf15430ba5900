// The board: switches, a table that sorts, intervals, and details on click.

import {
  count,
  duration,
  intervalSaid,
  NONE,
  parameters,
  plain,
  short,
  span,
} from "../shared/numbers.js";
import { distinct, el, find, follow, live, replace, reveal, select } from "../shared/page.js";
import { ordered, table } from "../shared/tables.js";
import { chosen, data, renew, view } from "./data.js";
import { entryDetails } from "./details.js";
import { intervalDrawing, scaleEnd } from "./interval.js";
import { linkHistory, running } from "./live.js";

function controls(now) {
  const anew = { variant: "", protocol: "", metric: "", sort: "-metric", open: [] };
  const one = (label, id, options, value, change) =>
    select(label, options, value, (next) => chosen.set(change(next)), { id });
  const { dataset } = now;
  replace(
    find("choices"),
    one("Dataset", "dataset", now.datasets, dataset, (name) => ({
      ...anew,
      dataset: name,
      granularity: "",
    })),
    one("Granularity", "granularity", now.granularities, now.granularity, (granularity) => ({
      ...anew,
      dataset,
      granularity,
    })),
    now.variants.length > 1 &&
      one("Runs that compare", "variant", now.variants, now.variant, (variant) => ({
        ...anew,
        variant,
      })),
    one("Protocol", "protocol", now.protocols, now.protocol, (protocol) => ({ protocol })),
    one("Questions", "slice", now.slices, now.slice, (questions) => ({ questions })),
    one(
      "k",
      "k",
      now.ks.map((k) => [k, k === "all" ? "whole ranking" : k]),
      now.k,
      (k) => ({ k }),
    ),
    one("Ranked by", "metric", now.names, now.metric, (metric) => ({ metric, sort: "-metric" })),
  );
}

function rowsOf({ board, key, slice }) {
  return board.entries.map((entry) => {
    const block = entry.protocols.find((one) =>
      [one.protocol, one.unit, one.ties, String(one.missing)].every((part, at) => part === key[at]),
    );
    return { entry, slices: block?.slices ?? {}, now: block?.slices[slice] ?? {} };
  });
}

/** It lacks queries that others were measured on, so that its mean does not rank. */
function ofFewer({ entry, now }, metric) {
  const cell = now[metric];
  return Boolean(cell?.interval && !cell.rank && !entry.sees_answer_key);
}

function columnsOf(now, end) {
  const { metric, levels, shown } = now;
  // Beyond three, the others are for wide screens.
  const others = shown
    .filter(({ name }) => name !== metric)
    .map(({ name, family }, at) => ({
      head: family,
      id: name,
      number: true,
      kind: `extra${at > 2 ? " spare" : ""}`,
      cell: ({ now: cells }) => plain(cells[name]?.value),
      by: ({ now: cells }) => cells[name]?.value,
    }));
  const extra = (head, id, first, by, said) => ({
    head,
    id,
    first,
    number: true,
    kind: "extra",
    by,
    cell: (row) => said(by(row), row),
  });
  const tokens = ({ entry }) => entry.tokens?.retrieved_a_query_top_10?.mean;
  return [
    {
      head: "Rank",
      kind: "rank",
      id: "rank",
      cell: (row) =>
        el(
          "td",
          { class: "rank", title: row.now[metric]?.rank_note },
          rankSaid(row.now[metric]?.rank, row.entry.sees_answer_key || ofFewer(row, metric)),
        ),
      by: ({ now: cells }) => cells[metric]?.rank?.[0],
    },
    {
      head: "System",
      kind: "system",
      id: "system",
      cell: (row) => system(row, metric),
      by: ({ entry }) => entry.system,
    },
    {
      head: metric,
      number: true,
      id: "metric",
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
      cell: ({ now: cells }) => intervalDrawing(cells[metric] ?? {}, levels[metric] ?? {}, end),
    },
    ...others,
    extra("n", "n", -1, ({ now: cells }) => cells[metric]?.n, count),
    extra(
      "Lost",
      "failed",
      1,
      ({ entry }) => entry.queries.failed,
      (_, row) => lost(row.entry.queries),
    ),
    extra("p50", "p50", 1, ({ entry }) => entry.cost.search_ms?.p50, duration),
    extra("Tokens", "tokens", 1, tokens, (value) => count(value && Math.round(value))),
  ];
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
  return el(
    "th",
    { scope: "row", class: "system" },
    el("button", { type: "button", class: "plain", ...about, on: { click } }, entry.system),
    el("span", { class: "params" }, parameters(entry.params)),
    entry.sees_answer_key && el("span", { class: "tag" }, "saw the answer key"),
    ofFewer({ entry, now }, metric) && el("span", { class: "tag bad" }, now[metric].rank_note),
  );
}

/** Queries that are in no mean. */
function lost({ failed, not_measurable: unresolved }) {
  const said = [
    failed ? `${count(failed)} failed` : null,
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

/** Chance, or the ceiling, under each metric. */
function levelRow(name, levels, columns) {
  const words = (metric) => {
    const level = levels[metric]?.[name];
    const bound = levels[metric]?.[`${name}_is`] ? "≤ " : "";
    return level
      ? distinct(level)
          .map((one) => bound + plain(one))
          .join(" to ")
      : NONE;
  };
  return el(
    "tr",
    {},
    columns.map(({ id, kind, number }, at) => {
      if (at === 1) return el("th", { scope: "row" }, name);
      const metric = id === "metric" ? chosenMetric(columns) : id;
      const classes = [number && "number", kind !== "rank" && kind].filter(Boolean).join(" ");
      return el("td", { class: classes }, levels[metric] ? words(metric) : "");
    }),
  );
}

const chosenMetric = (columns) => columns.find(({ id }) => id === "metric").head;

function draw() {
  find("eyebrow").textContent =
    `harness ${data.harness}${live ? " · follows the folder of runs" : ""}`;
  if (!data.boards.length) {
    find("lede").textContent = "No scored run is here yet.";
    return;
  }
  const now = view();
  const { board, protocol, slice, metric, levels } = now;
  controls(now);
  find("lede").textContent = `${board.title}.`;
  const rows = rowsOf(now);
  const columns = columnsOf(now, scaleEnd(rows, metric));
  let shown = ordered(
    rows.sort((a, b) => a.entry.run.localeCompare(b.entry.run)),
    columns,
    chosen.sort,
  );
  // Who fails on the hard ones must not rise by it.
  if (/^-?metric$/.test(chosen.sort))
    shown = shown.sort((a, b) => ofFewer(a, metric) - ofFewer(b, metric));
  const outside = (row) => row.entry.sees_answer_key || ofFewer(row, metric);
  replace(
    find("table"),
    table(columns, shown, {
      class: "board",
      label: `${board.title}, ${protocol}, ${slice}, ranked by ${metric}`,
      sorted: chosen.sort,
      resort: (sort) => chosen.set({ sort }),
      about: (row) => ({ class: `entry${outside(row) ? " outside" : ""}` }),
      below: ({ entry, slices }) =>
        chosen.open.includes(entry.run) && {
          about: { class: "details", id: `details-${entry.run}` },
          content: entryDetails(entry, slices, metric),
        },
      foot: ["chance", "ceiling"].map((name) => levelRow(name, levels, columns)),
    }),
  );
  said(rows, metric, board);
}

function said(rows, metric, { dataset, scoring }) {
  const cells = (some) => some.map(({ now }) => now[metric]);
  const ranked = rows.filter(({ entry }) => !entry.sees_answer_key);
  const cell = cells(ranked.length ? ranked : rows).find((one) => one?.interval);
  const few = cells(ranked).find((one) => one?.rank)?.rank_note;
  find("said").textContent = cell
    ? `${intervalSaid(cell.interval)}. A rank is a range: those of this table hold the true rank of every system at once in 95% of cases, by paired differences${few ? `; ${few}` : ""}. For several metrics or kinds of questions together nothing is promised.`
    : "";
  find("legend").textContent =
    "Thick line: mean. Bar: 95% interval. Dashed: what a random order would score. p50: median time of a query, where it ran. Tokens: mean of the top 10. Lost: queries that are in no mean.";
  const altered = dataset.published_files === false ? " These are not the published files." : "";
  find("footer").textContent =
    `Data ${dataset.fingerprint}.${altered} Scores version ${scoring.score_version}. Made from leaderboard.json; the page draws what stands there and loads nothing from ${live ? "elsewhere" : "a network"}.`;
}

find("choices").addEventListener("submit", (event) => event.preventDefault());
chosen.watch(draw);
reveal(draw);

let version = null;
if (live)
  follow(
    async (state) => {
      running(state.running);
      linkHistory(state.history);
      // The first time too: a run may have come since the page was made.
      if (state.version === version) return;
      version = state.version;
      await renew();
      draw();
    },
    () =>
      replace(
        find("running"),
        el("p", { class: "progress" }, "The server does not answer. What is shown may be old."),
      ),
  );
