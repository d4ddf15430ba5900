// A table of which only the rows in sight are in the document, however many there are.

import { el } from "./page.js";
import { cells, heads } from "./tables.js";

const ROW = 44; // pixels; every row has this height
const SPARE = 8; // rows beyond what is seen, on each side

/**
 * `open(row)` is called for a click or Enter on a row, `moved(row)` after a key has moved to it.
 * The first cell of a row holds a button: Tab reaches one of them, and from there the arrow keys,
 * Page Up and Down, Home and End move along.
 */
export class LongTable {
  constructor(label, open, moved) {
    Object.assign(this, { open, moved, columns: [], rows: [], active: 0, chosen: null });
    this.head = el("thead");
    this.body = el("tbody");
    this.table = el("table", { "aria-label": label }, this.head, this.body);
    this.box = el("div", { class: "rows", tabindex: "-1" }, this.table);
    this.box.addEventListener("scroll", () => this.soon());
    this.box.addEventListener("keydown", (event) => {
      if (!this.head.contains(event.target)) this.key(event);
    });
    this.body.addEventListener("focusin", (event) => {
      this.active = Number(event.target.closest("tr").dataset.at);
    });
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-at]");
      if (!row) return;
      this.move(Number(row.dataset.at));
      this.open(this.rows[this.active]);
    });
    new ResizeObserver(() => this.soon()).observe(this.box);
  }

  /** Show rows, from the top; the head as in `tables.js`. */
  show(columns, rows, sort, resort) {
    const held = this.head.contains(document.activeElement) ? document.activeElement.id : "";
    Object.assign(this, { columns, rows, active: Math.max(0, rows.indexOf(this.chosen)) });
    this.head.replaceChildren(heads(columns, sort, resort));
    this.head.firstChild.setAttribute("aria-rowindex", 1);
    if (held) document.getElementById(held)?.focus({ preventScroll: true });
    this.box.classList.toggle("empty", !rows.length);
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.box.scrollTop = 0;
    this.draw(true);
  }

  /** Mark a row as the one that is open, null for none, and bring it into sight. */
  choose(row) {
    this.chosen = row;
    const at = this.rows.indexOf(row);
    if (at >= 0) this.bring(at);
    this.draw(true);
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw(fresh = false) {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - SPARE);
    const seen = Math.ceil(this.box.clientHeight / ROW);
    const last = Math.min(this.rows.length, first + seen + 2 * SPARE);
    if (!fresh && first === this.first && last === this.last) return;
    const held = this.body.contains(document.activeElement);
    const { active } = this;
    Object.assign(this, { first, last });
    const shown = this.rows.slice(first, last).map((row, place) => {
      const at = first + place;
      const about = {
        "data-at": at,
        "aria-rowindex": at + 2,
        "aria-current": row === this.chosen ? "true" : null,
      };
      return el("tr", about, cells(this.columns, row));
    });
    this.body.replaceChildren(this.space(first), ...shown, this.space(this.rows.length - last));
    for (const button of this.body.querySelectorAll("th button")) button.tabIndex = -1;
    // The active row may be out of sight; the first in sight then stands in for Tab.
    const reached = this.button(active) ?? this.body.querySelector("th button");
    if (reached) reached.tabIndex = 0;
    this.active = active;
    // Where the row that has the focus goes out of sight, the box keeps it for the arrow keys.
    if (held) (this.button(active) ?? this.box).focus({ preventScroll: true });
  }

  space(rows) {
    return el("tr", { class: "space", "aria-hidden": "true", style: `height: ${rows * ROW}px` });
  }

  button(at) {
    return this.body.querySelector(`tr[data-at="${at}"] th button`);
  }

  /** What a key does that was pressed in the table, or beside it on a row's behalf. */
  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: Number.NEGATIVE_INFINITY,
      End: Number.POSITIVE_INFINITY,
    };
    if (!this.rows.length || !(event.key in steps)) return;
    event.preventDefault();
    this.move(Math.max(0, Math.min(this.rows.length - 1, this.active + steps[event.key])));
    this.moved(this.rows[this.active]);
  }

  /** Bring a row into sight and give it the focus. */
  move(at) {
    this.bring(at);
    this.draw(true);
    this.button(at)?.focus({ preventScroll: true });
  }

  bring(at) {
    this.active = at;
    const top = at * ROW;
    const bottom = top + ROW + this.head.offsetHeight;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (bottom > this.box.scrollTop + this.box.clientHeight)
      this.box.scrollTop = bottom - this.box.clientHeight;
  }
}
