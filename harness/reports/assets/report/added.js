// Sections that entry points add to a report: paragraphs and a table.

import { el, find } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { data } from "./data.js";

export function addedSections() {
  const drawn = data.sections.filter((section) => section.data === null);
  find("questions").before(...drawn.map(addedSection));
}

function addedSection({ name, title, text, columns, rows }) {
  const column = (head, at) => ({
    head,
    number: rows.every((row) => typeof row[at] !== "string"),
    cell: (row) => (row[at] === null ? "–" : String(row[at])),
  });
  return el(
    "section",
    { id: `added-${name}`, "data-short": title },
    el("h2", {}, title),
    ...text.map((words) => el("p", {}, words)),
    columns.length ? el("div", { class: "wide" }, table(columns.map(column), rows)) : null,
  );
}
