// Claims of authors about their systems, apart from what was measured, in the order as given.

import { count, NONE, plain } from "../shared/numbers.js";
import { el, find, replace } from "../shared/page.js";
import { table } from "../shared/tables.js";

const COLUMNS = [
  {
    head: "System",
    cell: ({ system, version }) => [system, version && el("span", { class: "small" }, version)],
  },
  {
    head: "Claim",
    kind: "words",
    cell: ({ measure, protocol }) => [measure, el("span", { class: "small" }, protocol)],
  },
  { head: "Value", number: true, cell: ({ value }) => plain(value) },
  { head: "n", number: true, cell: ({ n }) => count(n) },
  {
    head: "Comparable?",
    kind: "words wider",
    cell: ({ comparable, reason }) => [
      el("span", { class: "tag" }, comparable ? "comparable" : "not comparable"),
      el("span", { class: "small" }, reason),
    ],
  },
  {
    head: "Measured here",
    kind: "words",
    cell: ({ system, rescored, reproducible }) =>
      rescored
        ? [
            el("strong", {}, plain(rescored.value)),
            ` (${system}, ${rescored.metric}, n ${count(rescored.n)})`,
            el("code", { class: "small signature" }, rescored.signature),
          ]
        : [NONE, el("span", { class: "small" }, again(reproducible))],
  },
  {
    head: "Source",
    kind: "words",
    cell: ({ source, date }) => [
      // Untrusted text: only a web address becomes a link.
      /^https?:\/\//.test(source)
        ? el("a", { href: source, rel: "noopener noreferrer" }, source.replace(/^https?:\/\//, ""))
        : source,
      date && el("span", { class: "small" }, date),
    ],
  },
];

function again(reproducible) {
  if (typeof reproducible === "string") return reproducible;
  return reproducible
    ? "can be repeated from public files"
    : "cannot be repeated from public files";
}

/** Shows the claims next to a board, or nothing. */
export function claims(found) {
  find("claims").hidden = !found.length;
  replace(
    find("claims-table"),
    found.length > 0 &&
      table(COLUMNS, found, { class: "cards claims", label: "Claimed, not measured here" }),
  );
}
