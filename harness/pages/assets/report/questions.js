// The table of questions: search, filters, sorting, and the panel beside it.

const OUTCOMES = {
  any: ["every result", () => true],
  zero: ["nothing found (0)", (value) => value === 0],
  part: ["found in part", (value) => value !== null && value > 0 && value < 1],
  full: ["everything found (1)", (value) => value === 1],
  out: ["not scored", (value) => value === null],
  failed: ["failed", (value, failed) => failed],
};
const AGAINST = {
  any: ["any", () => true],
  won: ["B won", (d) => d > 0],
  lost: ["B lost", (d) => d < 0],
  tied: ["tied", (d) => d === 0],
};

class Questions {
  constructor(data) {
    this.data = data;
    this.state = {
      search: "",
      ability: "all",
      outcome: "any",
      against: "any",
      sort: "order",
      direction: 1,
    };
    const { columns, texts, documents } = data.queries;
    const text = (number) => (number >= 0 ? texts[number] : "");
    this.names = columns.id.map((id, at) => text(columns.text?.[at] ?? -1) || id);
    this.searched = columns.id.map((id, at) =>
      `${id} ${text(columns.text?.[at] ?? -1)} ${(columns.answers?.[at] ?? []).map(text).join(" ")} ${columns.category[at]} ${columns.haystack[at]} ${this.evidenceIds(at, documents)}`.toLowerCase(),
    );
    this.table = new VirtualTable(
      "Questions",
      (at) => this.cells(at),
      (at) => this.open(at),
    );
    document.querySelector(".master").classList.toggle("two", data.runs.length > 1);
    find("questions-table").replaceChildren(this.table.box);
    this.panel = find("question");
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    this.controls();
  }

  evidenceIds(at, documents) {
    const { start, document } = this.data.queries.evidence;
    return document
      .slice(start[at], start[at + 1])
      .map((one) => documents.id[one])
      .join(" ");
  }

  controls() {
    const { columns } = this.data.queries;
    const present = new Set(columns.ability);
    const abilities = ["lookup", "multi-hop", "temporal", "knowledge-update", "abstention"].filter(
      (name) => present.has(name),
    );
    const set = (name) => (value) => {
      this.state[name] = value;
      this.update();
    };
    const search = el("input", {
      type: "search",
      id: "search",
      autocomplete: "off",
      placeholder: this.data.share
        ? "id of a question, or of its evidence"
        : "words of a question, its answer, an id",
      on: { input: () => set("search")(search.value) },
    });
    find("questions-choices").replaceChildren(
      el("label", { class: "field search" }, "Search", search),
      select(
        "Ability",
        [["all", "every ability"], ...abilities.map((name) => [name, name])],
        "all",
        set("ability"),
        { id: "ability" },
      ),
      select(
        "Result",
        Object.entries(OUTCOMES).map(([name, [words]]) => [name, words]),
        "any",
        set("outcome"),
        { id: "outcome" },
      ),
      ...(this.data.runs.length > 1
        ? [
            select(
              "B against A",
              Object.entries(AGAINST).map(([name, [words]]) => [name, words]),
              "any",
              set("against"),
              { id: "against" },
            ),
          ]
        : []),
    );
  }

  /** Show what a protocol and a metric say. */
  view(view) {
    this.now = view;
    this.update();
    if (this.shown !== undefined) this.open(this.shown, false);
  }

  values(run) {
    return this.data.queries.blocks[this.now.block].values[run][this.now.metric];
  }

  difference() {
    return this.data.queries.blocks[this.now.block].difference?.[this.now.metric];
  }

  update() {
    const { columns, runs } = this.data.queries,
      { search, ability, outcome, against } = this.state;
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const first = this.values(0),
      difference = this.difference();
    const rows = [];
    for (let at = 0; at < columns.id.length; at += 1) {
      if (ability !== "all" && columns.ability[at] !== ability) continue;
      if (!OUTCOMES[outcome][1](first[at], runs[0].failed[at])) continue;
      if (against !== "any" && (difference[at] === null || !AGAINST[against][1](difference[at])))
        continue;
      if (words.every((word) => this.searched[at].includes(word))) rows.push(at);
    }
    this.sort(rows);
    find("questions-count").textContent =
      `${count(rows.length)} of ${count(columns.id.length)} questions`;
    this.table.show(this.header(), rows);
  }

  /** Sorts in place; what has no value comes last, whatever the direction. */
  sort(rows) {
    const { sort, direction } = this.state,
      { columns, runs } = this.data.queries;
    const keys = {
      order: null,
      name: this.names,
      ability: columns.ability,
      evidence: runs[0].first.map((rank) => rank || null),
      value0: this.values(0),
      value1: runs.length > 1 ? this.values(1) : null,
      difference: this.difference(),
      time: runs[0].ms,
    }[sort];
    if (!keys) return;
    const order = typeof keys[0] === "string" ? (a, b) => a.localeCompare(b) : (a, b) => a - b;
    rows.sort((a, b) => {
      const one = keys[a],
        other = keys[b];
      if (one === null || other === null) return (one === null) - (other === null) || a - b;
      return direction * order(one, other) || a - b;
    });
  }

  header() {
    const { sort, direction } = this.state,
      several = this.data.runs.length > 1,
      metric = this.now.metric;
    const cell = (name, text, kind) =>
      sortHeader(
        text,
        sort === name ? (direction > 0 ? "ascending" : "descending") : "none",
        () => this.sortBy(name),
        { class: kind },
      );
    return [
      cell("name", "Question", "w-name"),
      cell("ability", "Ability", "w-ability"),
      cell("evidence", several ? "First found A | B" : "First found", "w-evidence"),
      cell("value0", several ? `A ${metric}` : metric, "w-value number"),
      ...(several
        ? [
            cell("value1", `B ${metric}`, "w-value number"),
            cell("difference", "B − A", "w-value w-difference number"),
          ]
        : [cell("time", "Time", "w-time number")]),
    ];
  }

  sortBy(name) {
    const { state } = this;
    state.direction = state.sort === name ? -state.direction : 1;
    state.sort = name;
    this.update();
    this.table.head.querySelector('th:not([aria-sort="none"]) button')?.focus();
  }

  cells(at) {
    const { columns, runs, evidence } = this.data.queries,
      several = runs.length > 1;
    const first = runs[0].first[at],
      pieces = evidence.start[at + 1] - evidence.start[at];
    const place = (run) => runs[run].first[at] || NONE;
    const alone = first ? `rank ${first}` : `none of ${pieces}`;
    const found = !pieces ? "no evidence" : several ? `${place(0)} | ${place(1)}` : alone;
    const value = (run) => {
      if (runs[run].failed[at]) return el("span", { class: "tag bad" }, "failed");
      const got = this.values(run)[at];
      return got === null ? el("span", { class: "tag" }, "not scored") : plain(got);
    };
    return [
      this.names[at],
      el("td", { class: "c-ability" }, columns.ability[at]),
      el("td", { class: "c-evidence" }, found),
      el("td", { class: "number" }, value(0)),
      ...(several
        ? [
            el("td", { class: "number" }, value(1)),
            el("td", { class: "number c-difference" }, signed(this.difference()[at])),
          ]
        : [el("td", { class: "number c-time" }, duration(runs[0].ms[at]))]),
    ];
  }

  open(at, focus = true) {
    this.shown = at;
    document.querySelector(".master").classList.add("open");
    this.panel.replaceChildren(
      ...questionPanel(this.data, at, this.now, () => this.close()).filter(Boolean),
    );
    if (focus) {
      this.panel.scrollTop = 0;
      this.panel.focus({ preventScroll: true });
    }
  }

  close() {
    this.shown = undefined;
    document.querySelector(".master").classList.remove("open");
    this.panel.replaceChildren();
    this.table.move(this.table.active);
  }
}
