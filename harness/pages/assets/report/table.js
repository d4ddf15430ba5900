// A table of which only the rows in sight are in the document, however many there are.

const ROW = 44; // pixels; every row has this height
const SPARE = 8; // rows beyond what is seen, on each side

class VirtualTable {
  /**
   * `cells(index)` gives what stands in a row: its name, which becomes a button, and its cells.
   * `open(index)` is called for a click or Enter on it. Tab reaches one row, then the arrow keys,
   * Page Up and Down, Home and End the others.
   */
  constructor(label, cells, open) {
    this.cells = cells;
    this.open = open;
    this.rows = [];
    this.active = 0;
    this.chosen = -1;
    this.head = el("thead");
    this.body = el("tbody");
    this.table = el("table", { "aria-label": label }, this.head, this.body);
    this.box = el("div", { class: "rows", tabindex: "-1" }, this.table);
    this.box.addEventListener("scroll", () => this.soon());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("focusin", (event) => {
      this.active = Number(event.target.closest("tr").dataset.at);
    });
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-at]");
      if (row) this.choose(Number(row.dataset.at));
    });
    new ResizeObserver(() => this.soon()).observe(this.box);
  }

  /** Show these rows, from the top. */
  show(header, rows) {
    this.head.replaceChildren(el("tr", { "aria-rowindex": 1 }, header));
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.rows = rows;
    this.active = 0;
    this.box.scrollTop = 0;
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
    const last = Math.min(
      this.rows.length,
      first + Math.ceil(this.box.clientHeight / ROW) + 2 * SPARE,
    );
    if (!fresh && first === this.first && last === this.last) return;
    const held = this.body.contains(document.activeElement),
      { active } = this;
    Object.assign(this, { first, last });
    const shown = [];
    for (let at = first; at < last; at += 1) {
      const [name, ...cells] = this.cells(this.rows[at]);
      const chosen = this.rows[at] === this.chosen;
      const button = el(
        "button",
        { type: "button", class: "plain open", tabindex: at === this.active ? 0 : -1 },
        name,
      );
      shown.push(
        el(
          "tr",
          { "data-at": at, "aria-rowindex": at + 2, "aria-current": chosen ? "true" : null },
          el("th", { scope: "row" }, button),
          cells,
        ),
      );
    }
    // The active row may be out of sight; the first in sight then stands in for Tab.
    if (shown.length && (this.active < first || this.active >= last))
      shown[0].querySelector("button").tabIndex = 0;
    this.body.replaceChildren(this.space(first), ...shown, this.space(this.rows.length - last));
    this.active = active;
    // Where the row that has the focus goes out of sight, the box keeps it for the arrow keys.
    if (held) (this.button(active) ?? this.box).focus({ preventScroll: true });
  }

  space(rows) {
    const row = el("tr", { class: "space", "aria-hidden": "true" });
    row.style.height = `${rows * ROW}px`;
    return row;
  }

  button(at) {
    return this.body.querySelector(`tr[data-at="${at}"] button`);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (this.head.contains(event.target) || !this.rows.length || !(event.key in steps)) return;
    event.preventDefault();
    this.move(Math.max(0, Math.min(this.rows.length - 1, this.active + steps[event.key])));
  }

  /** Bring a row into sight and give it the focus. */
  move(at) {
    this.active = at;
    const head = this.head.offsetHeight,
      top = at * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW + head > this.box.scrollTop + this.box.clientHeight)
      this.box.scrollTop = top + ROW + head - this.box.clientHeight;
    this.draw(true);
    this.button(at)?.focus({ preventScroll: true });
  }

  choose(at) {
    this.active = at;
    this.chosen = this.rows[at];
    this.draw(true);
    this.open(this.chosen);
  }
}
