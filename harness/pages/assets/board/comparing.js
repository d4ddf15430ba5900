// Runs that are chosen to be compared: the page that does it, or the command.

import { count, parameters } from "../shared/numbers.js";
import { el, find, live, replace } from "../shared/page.js";
import { chosen, data } from "./data.js";

/** What can be done with those that are chosen, of the board that is shown. */
export function comparing({ board: { entries }, protocol, metric }) {
  // A difference is what came later less what was there before.
  const picked = entries
    .filter(({ run }) => chosen.compare.includes(run))
    .sort((a, b) => a.provenance.finished.localeCompare(b.provenance.finished));
  const clear = () => chosen.set({ compare: [] });
  replace(
    find("chosen"),
    picked.length > 0 &&
      el(
        "div",
        { class: "comparing" },
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
}

function named({ label, told }) {
  const more = parameters(told);
  return more ? `${label} (${more})` : label;
}

function what(picked, seen) {
  if (picked.length < 2) return el("span", { class: "note" }, "choose another to compare it with");
  const runs = picked.map(({ run }) => run);
  if (live) {
    const href = `compare/${runs.map(encodeURIComponent).join("/")}/?${new URLSearchParams(seen)}`;
    return el("a", { class: "go", id: "compare-go", href }, "Compare them");
  }
  return el(
    "span",
    { class: "typed" },
    "to compare them, type ",
    el("code", {}, `harness compare ${runs.join(" ")}${data.options}`),
  );
}
