// Two runs of a board compared query by query; all numbers are in the data.

import { count, pValue, signed, span } from "../shared/numbers.js";
import { el, svg } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { nameOf } from "./data.js";

/** Larger boards have the pairs of so many runs. */
const LARGE = 100;

/** The comparison of two runs by the shown metric, or by the first that was compared. */
export function pairPanel(pairs, picked, { metric, protocol, key }) {
  const missing = picked.find(({ run }) => !pairs?.runs.includes(run));
  if (missing) return el("p", { class: "note" }, `${nameOf(missing)} ${whyNot(missing, pairs)}.`);
  const at = picked.map(({ run }) => pairs.runs.indexOf(run));
  const [a, b] = [Math.min(...at), Math.max(...at)];
  const [older, newer] = [a, b].map((one) => picked[at.indexOf(one)]);
  const index = placeOf(a, b, pairs.runs.length);
  const shown = pairs.metrics.includes(metric) ? metric : pairs.metrics[0];
  const rows = pairs.slices
    .map((name) => ({ name, ...cellOf(pairs.results[name]?.[shown], index) }))
    .filter(({ difference }) => difference !== null && difference !== undefined);
  const other =
    shown !== metric || pairs.protocol !== key.protocol || pairs.level !== key.level
      ? ` Runs are compared by ${pairs.metrics.join(", ")} (${pairs.protocol}, ${pairs.level}), not by ${metric} (${protocol}).`
      : "";
  return el(
    "div",
    { class: "pair-panel", id: "pair" },
    el("h2", {}, `${shown}: ${nameOf(newer)} − ${nameOf(older)}`),
    el("p", { class: "verdict" }, verdict(rows[0], newer, older)),
    rows.length > 0 && table(columns(rows), rows, { class: "cards" }),
    el(
      "p",
      { class: "note" },
      `The later run minus the earlier one on the same queries, paired by ${pairs.cluster_by}, with the 95% interval. Interval and p are for this pair alone; "significant" holds for all pairs of the board at once, as the ranks do.${other}`,
    ),
  );
}

/** The index of two runs in lists of all pairs: 0 and 1, 0 and 2, ..., 1 and 2, ... */
const placeOf = (a, b, n) => a * n - (a * (a + 1)) / 2 + (b - a - 1);

const cellOf = (columns, at) =>
  Object.fromEntries(Object.entries(columns ?? {}).map(([name, values]) => [name, values[at]]));

function whyNot({ sees_gold_labels: saw }, pairs) {
  if (saw) return "saw the gold labels, so it is not compared";
  const n = pairs?.runs.length ?? 0;
  if (n >= LARGE) return `is not among the ${n} best runs, whose pairs this page has`;
  return "has no scores by query to compare";
}

/** The result over all queries, in a sentence. */
function verdict(all, newer, older) {
  if (!all) return "No query has a value in both runs.";
  if (all.ordered === null)
    return "Not tested: one of the two lacks queries that other runs were measured on.";
  if (!all.ordered) return "No significant difference overall.";
  const [better, worse] = all.difference > 0 ? [newer, older] : [older, newer];
  return `${nameOf(better)} is significantly better than ${nameOf(worse)} overall.`;
}

function columns(rows) {
  const end = Math.max(...rows.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]), 0.01);
  const number = (head, cell) => ({ head, number: true, cell });
  return [
    {
      head: "Queries",
      cell: ({ name, ordered }) => [
        name,
        ordered && el("span", { class: "small significant" }, "significant"),
        ordered === null && el("span", { class: "small" }, "not tested"),
      ],
    },
    number("Difference", (row) => [
      signed(row.difference),
      el("span", { class: "small" }, span(row.low, row.high, signed)),
    ]),
    {
      head: el("span", { class: "unseen" }, "Interval"),
      id: "interval",
      kind: "drawn",
      cell: (row) => difference(row, end),
    },
    number("p", ({ p }) => pValue(p)),
    number("wins / losses / ties", ({ wins, losses, ties }) =>
      [wins, losses, ties].map(count).join(" / "),
    ),
  ];
}

/** A difference with its interval on a scale around 0, which is dashed. */
function difference({ difference: value, low, high }, end) {
  const at = (one) => `${50 + (50 * one) / end}%`;
  const line = (about) => svg("line", { y1: 2, y2: 16, ...about });
  const drawing = svg("svg", { "aria-hidden": "true", height: 18 });
  const flat = { y1: 9, y2: 9 };
  drawing.append(
    line({ class: "track", x1: 0, x2: "100%", ...flat }),
    line({ class: "random", x1: "50%", x2: "50%" }),
    line({ class: "reach", x1: at(low), x2: at(high), "stroke-width": 8, ...flat }),
    line({ class: "mean", x1: at(value), x2: at(value), "stroke-width": 3 }),
  );
  return drawing;
}
