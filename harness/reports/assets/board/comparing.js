// The runs that are chosen for the comparison: a panel next to the table, and a link to more.

import { count, many } from "../shared/numbers.js";
import { downTo, el, fetches, find, live, replace } from "../shared/page.js";
import { chosen, data, nameOf, part } from "./data.js";
import { pairPanel } from "./pair.js";

let comparisons = 0;

/** Shows the chosen runs of the board. */
export function comparing(now) {
  const { board, protocol, metric } = now;
  comparisons += 1;
  const mine = comparisons;
  // A difference is the later run minus the earlier one.
  const picked = board.entries
    .filter(({ run }) => chosen.compare.includes(run))
    .sort((a, b) => a.provenance.finished.localeCompare(b.provenance.finished));
  const several = picked.length > 1;
  find("board").classList.toggle("comparing", several);
  replace(find("picked"), picked.length > 0 && bar(picked));
  const show = (panel) =>
    replace(find("chosen"), several && [panel, more(picked, { protocol, metric })]);
  if (picked.length !== 2) return show(several && listOf(picked));
  const pairs = pairsOf(board.id, picked);
  if (!(pairs instanceof Promise)) return show(pairPanel(pairs, picked, now));
  show(el("p", { class: "note", "aria-busy": "true" }, "Loading the comparison…"));
  pairs
    .then((found) => pairPanel(found, picked, now))
    .catch(() => el("p", { class: "note" }, "The server does not answer."))
    .then((panel) => mine === comparisons && show(panel));
}

const clearButton = (id) =>
  el("button", { type: "button", id, on: { click: () => chosen.set({ compare: [] }) } }, "Clear");

/** The bar below the table: what is chosen, and where the comparison is. */
function bar(picked) {
  const several = picked.length > 1;
  return el(
    "div",
    { class: several ? "bar several" : "bar" },
    el(
      "span",
      {},
      several
        ? `${count(picked.length)} runs chosen`
        : `${nameOf(picked[0])} is chosen: choose another run to compare`,
    ),
    several && el("a", { href: "#chosen" }, "Show comparison"),
    clearButton("compare-clear"),
  );
}

const listOf = (picked) => [
  el("h2", {}, `${many(picked.length, "run")} chosen`),
  el(
    "ul",
    {},
    picked.map((entry) => el("li", {}, nameOf(entry))),
  ),
];

/** The comparison of two runs: in the page, in a file, or computed by the server; null without. */
function pairsOf(id, picked) {
  if (live)
    return part(`pairs-${id}/${picked.map(({ run }) => encodeURIComponent(run)).join("/")}`);
  if (fetches || find(`pairs-${id}`)) return part(`pairs-${id}`);
  return null;
}

/** Where the whole comparison of the chosen runs is. */
function more(picked, seen) {
  const runs = picked.map(({ run }) => run);
  const href = `compare/${runs.map(encodeURIComponent).join("/")}/?${new URLSearchParams(seen)}`;
  return el(
    "div",
    { class: "further" },
    live
      ? el("a", { class: "go", id: "compare-go", href: downTo(href) }, "Full comparison")
      : el(
          "p",
          { class: "note" },
          "Full comparison: ",
          el("code", {}, `harness compare ${runs.join(" ")}${data.options}`),
        ),
    clearButton("compare-none"),
  );
}
