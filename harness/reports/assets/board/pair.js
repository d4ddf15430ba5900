// Two systems of a board beside each other, question by question; every number stands in the data.

import { count, pValue, signed, span } from "../shared/numbers.js";
import { el, svg } from "../shared/page.js";
import { table } from "../shared/tables.js";

/** The comparison of two runs of a board, by the metric that is shown, where there is one. */
export function pairPanel(pairs, picked, { metric, protocol, key }) {
  const missing = picked.find(({ run }) => !pairs?.runs.includes(run));
  if (missing) return el("p", { class: "note" }, `${missing.label} ${whyNot(missing)}.`);
  const at = picked.map(({ run }) => pairs.runs.indexOf(run));
  const [a, b] = [Math.min(...at), Math.max(...at)];
  const [older, newer] = [a, b].map((one) => picked[at.indexOf(one)]);
  const index = placeOf(a, b, pairs.runs.length);
  const shown = pairs.metrics.includes(metric) ? metric : pairs.metrics[0];
  const rows = pairs.slices
    .map((name) => ({ name, ...cellOf(pairs.results[name]?.[shown], index) }))
    .filter(({ difference }) => difference !== null && difference !== undefined);
  const kept =
    shown !== metric || pairs.protocol !== key.protocol || pairs.level !== key.level
      ? ` Pairs are kept for ${pairs.protocol}, ${pairs.level}: ${pairs.metrics.join(", ")}; not for ${metric} under ${protocol}.`
      : "";
  return el(
    "div",
    { class: "pair-panel", id: "pair" },
    el("h2", {}, `${shown}: ${newer.label} − ${older.label}`),
    el("p", { class: "verdict" }, verdict(rows[0], newer, older)),
    rows.length > 0 && el("div", { class: "wide" }, table(columns(rows), rows, { class: "cards" })),
    el(
      "p",
      { class: "note" },
      `The later run less the earlier one, over the same questions, by ${pairs.cluster_by}. Interval and p are of this pair by itself; whether an order is shown is said for all pairs of the board at once, as in the ranks.${kept}`,
    ),
  );
}

/** Where two runs stand in lists of all pairs: 0 and 1, 0 and 2, ..., 1 and 2, ... */
const placeOf = (a, b, n) => a * n - (a * (a + 1)) / 2 + (b - a - 1);

const cellOf = (columns, at) =>
  Object.fromEntries(Object.entries(columns ?? {}).map(([name, values]) => [name, values[at]]));

const whyNot = ({ sees_gold_labels: saw }) =>
  saw
    ? "was shown the answer key, and is compared with none"
    : "is not compared here: it has no scores by question that the board is shown by, or old ones";

/** What the pair shows over all questions, in a sentence. */
function verdict(all, newer, older) {
  if (!all) return "There is no question that both have a value for.";
  if (all.ordered === null)
    return "No order is tested: one of the two lacks questions that others were measured on.";
  if (!all.ordered) return "No order is shown over all questions, which is not the same as none.";
  const [better, worse] = all.difference > 0 ? [newer, older] : [older, newer];
  return `${better.label} is shown to be better than ${worse.label} over all questions.`;
}

function columns(rows) {
  const end = Math.max(...rows.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]), 0.01);
  const number = (head, cell, more = {}) => ({ head, number: true, cell, ...more });
  return [
    { head: "Questions", cell: ({ name }) => name },
    number("Difference", ({ difference }) => signed(difference)),
    {
      head: "95% interval",
      kind: "drawn",
      cell: (row) => [
        el("span", { class: "small" }, span(row.low, row.high, signed)),
        difference(row, end),
      ],
    },
    number("p", ({ p }) => pValue(p)),
    number("wins / losses / ties", ({ wins, losses, ties }) =>
      [wins, losses, ties].map(count).join(" / "),
    ),
    {
      head: "Order",
      cell: ({ ordered }) =>
        el(
          "span",
          { class: `tag${ordered ? " good" : ""}` },
          ordered === null ? "not tested" : ordered ? "shown" : "not shown",
        ),
    },
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
