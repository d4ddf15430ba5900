// Runs that are chosen to be compared: two beside each other here, and the page that does more.

import { count, parameters } from "../shared/numbers.js";
import { downTo, el, fetches, find, live, replace } from "../shared/page.js";
import { chosen, data, part } from "./data.js";
import { pairPanel } from "./pair.js";

let comparisons = 0;

/** What can be done with those that are chosen, of the board that is shown. */
export function comparing(now) {
  const { board, protocol, metric } = now;
  comparisons += 1;
  const mine = comparisons;
  // A difference is what came later less what was there before.
  const picked = board.entries
    .filter(({ run }) => chosen.compare.includes(run))
    .sort((a, b) => a.provenance.finished.localeCompare(b.provenance.finished));
  const clear = () => chosen.set({ compare: [] });
  const show = (panel) =>
    replace(
      find("chosen"),
      picked.length > 0 &&
        el(
          "div",
          { class: "comparing" },
          panel,
          el(
            "div",
            { class: "picked" },
            el("strong", {}, `${count(picked.length)} chosen`),
            el("span", { class: "names" }, picked.map(named).join("; ")),
          ),
          what(picked, { protocol, metric }),
          el("button", { type: "button", id: "compare-none", on: { click: clear } }, "Choose none"),
        ),
    );
  if (picked.length !== 2) return show(null);
  const pairs = pairsOf(board.id, picked);
  if (!(pairs instanceof Promise)) return show(pairPanel(pairs, picked, now));
  show(el("p", { class: "note", "aria-busy": "true" }, "Comparing them…"));
  pairs
    .then((found) => pairPanel(found, picked, now))
    .catch(() => el("p", { class: "note" }, "The server does not answer: nothing was compared."))
    .then((panel) => mine === comparisons && show(panel));
}

/** The comparison of two runs: of all pairs in the page or beside it, or by its server; or null. */
function pairsOf(id, picked) {
  if (live)
    return part(`pairs-${id}/${picked.map(({ run }) => encodeURIComponent(run)).join("/")}`);
  if (fetches || find(`pairs-${id}`)) return part(`pairs-${id}`);
  return null;
}

function named({ label, distinct_params: params }) {
  const more = parameters(params);
  return more ? `${label} (${more})` : label;
}

function what(picked, seen) {
  if (picked.length < 2) return el("span", { class: "note" }, "choose another to compare it with");
  const runs = picked.map(({ run }) => run);
  if (live) {
    const href = `compare/${runs.map(encodeURIComponent).join("/")}/?${new URLSearchParams(seen)}`;
    return el("a", { class: "go", id: "compare-go", href: downTo(href) }, "Compare them");
  }
  return el(
    "span",
    { class: "typed" },
    runs.length === 2 ? "for more, type " : "to compare them, type ",
    el("code", {}, `harness compare ${runs.join(" ")}${data.options}`),
  );
}
