// Tables. A column is an object:
//
//     head     what stands at its head
//     cell     of a row: text, elements, or a whole <td>; false leaves the cell out
//     number   whether it holds numbers, which line up at the right
//     title    what its head means, where it is not a term of the glossary
//     kind     further classes of its cells
//     by       what it is sorted by: a function of a row to a number, a text, a list of numbers (the
//              later ones break ties) or null
//     first    1 where its first sort puts the least first, -1 for the greatest (if not said, as
//              numbers have it: -1, and texts: 1)
//     id       its name in the address, where that is not its head
//     label    what its cells are labelled with where the head is out of sight, if not its head or id

import { meaning } from "./glossary.js";
import { el } from "./page.js";

const idOf = (column) => column.id ?? column.head;
const labelOf = ({ label, head, id }) => label ?? (typeof head === "string" ? head : id);
const kindOf = (column) =>
  [column.number && "number", column.kind].filter(Boolean).join(" ") || null;

/** "recall@10" for ascending, "-recall@10" for descending, as the address has it. */
const parse = (sort) => (sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1]);

/** Rows in the order of `sort`; what has no value comes last in both directions. */
export function ordered(rows, columns, sort) {
  const [id, direction] = parse(sort);
  const by = columns.find((column) => column.by && idOf(column) === id)?.by;
  if (!by) return rows;
  const keyed = rows.map((row) => [by(row) ?? null, row]);
  const less = (a, b) => {
    if (Array.isArray(a)) return a.map((one, at) => one - b[at]).find(Boolean) ?? 0;
    return typeof a === "string" ? a.localeCompare(b) : a - b;
  };
  return keyed
    .sort(([a], [b]) =>
      a === null || b === null ? (a === null) - (b === null) : direction * less(a, b),
    )
    .map(([, row]) => row);
}

/** The head; a click on a column that sorts calls `resort` with the new order. */
export function heads(columns, sort = "", resort = null) {
  const [id, direction] = parse(sort);
  const head = (column) => {
    const { head: text, by, number, first = number ? -1 : 1 } = column;
    const title = column.title ?? meaning(idOf(column)) ?? meaning(text);
    const about = { scope: "col", class: kindOf(column), title };
    if (!by || !resort) return el("th", about, text);
    const mine = idOf(column) === id;
    const next = mine ? -direction : first;
    const click = () => resort(next < 0 ? `-${idOf(column)}` : idOf(column));
    const sorted = mine ? (direction > 0 ? "ascending" : "descending") : "none";
    return el(
      "th",
      { ...about, "aria-sort": sorted },
      el(
        "button",
        { type: "button", class: "sort", id: `sort-${idOf(column)}`, on: { click } },
        text,
      ),
    );
  };
  return el("tr", {}, columns.map(head));
}

/** The cells of a row; the first one names it. Each says what it is of: a card has no heads. */
export function cells(columns, row) {
  return columns.map((column, at) => {
    const content = column.cell(row);
    if (content === false) return content;
    const whole =
      content instanceof HTMLTableCellElement
        ? content
        : el(at ? "td" : "th", { scope: at ? null : "row", class: kindOf(column) }, content);
    if (whole.tagName === "TD") whole.dataset.head = labelOf(column);
    return whole;
  });
}

/**
 * A table of rows in their order; `sorted` says which that is, and a click on a head that sorts
 * calls `resort` with another. `about(row)` gives attributes of a row, `below(row)` a row of its own
 * beneath it, over all columns; `group(row)` names the part that it belongs to, and `foot` are
 * further rows. Of the class `cards` it is a card a row where there is no room for columns.
 */
export function table(columns, rows, options = {}) {
  const { label, sorted = "", resort, about, below, group, foot, ...more } = options;
  const over = (name, ...content) => el(name, { colspan: columns.length }, ...content);
  let part = null;
  const whole = (row) => {
    const opens = group && group(row) !== part;
    part = group?.(row);
    const more = below?.(row);
    return [
      opens && el("tr", { class: "group" }, over("th", part)),
      el("tr", about?.(row) ?? {}, cells(columns, row)),
      more && el("tr", more.about, over("td", more.content)),
    ];
  };
  return el(
    "table",
    more,
    label && el("caption", { class: "unseen" }, label),
    el("thead", {}, heads(columns, sorted, resort)),
    el("tbody", {}, rows.map(whole)),
    foot && el("tfoot", {}, foot),
  );
}
