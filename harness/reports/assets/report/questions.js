// The table of questions with search, filters, sorting, and a detail panel.

import { LongTable } from "../shared/long_table.js";
import { count, duration, NONE, plain, signed } from "../shared/numbers.js";
import { el, find, replace, select } from "../shared/page.js";
import { ordered } from "../shared/tables.js";
import { chosen, data, of, several, view } from "./data.js";
import { questionPanel } from "./question.js";

const { columns, texts, documents, evidence, runs, protocols } = data.queries;
const ABILITIES = ["lookup", "multi-hop", "temporal", "knowledge-update", "abstention"];
const RESULTS = {
  any: ["all results", () => true],
  zero: ["0", (value) => value === 0],
  part: ["between 0 and 1", (value) => value !== null && value > 0 && value < 1],
  full: ["1", (value) => value === 1],
  out: ["not scored", (value) => value === null],
  failed: ["failed", (_, failed) => failed],
};
const OF_RECALL = { zero: "none found", part: "some found", full: "all found" };
const AGAINST = {
  any: ["any", () => true],
  won: ["B wins", (d) => d > 0],
  lost: ["B loses", (d) => d < 0],
  tied: ["ties", (d) => d === 0],
};
const CLEAR = { search: "", ability: "all", result: "any", against: "any", cause: "any" };
const CAUSES = data.causes?.names ?? [];

const text = (number) => (number >= 0 ? texts[number] : "");
const asked = (at) => text(columns.text?.[at] ?? -1);
const names = columns.id.map((id, at) => asked(at) || id);
const searched = columns.id.map((id, at) =>
  [
    id,
    asked(at),
    ...(columns.answers?.[at] ?? []).map(text),
    columns.category[at],
    columns.haystack[at],
    ...evidence.document
      .slice(evidence.start[at], evidence.start[at + 1])
      .map((d) => documents.id[d]),
  ]
    .join(" ")
    .toLowerCase(),
);

const open = (at) => chosen.set({ open: columns.id[at] });
const list = new LongTable("Questions", open, (at) => {
  if (chosen.open) chosen.move({ open: columns.id[at] });
});
const master = document.querySelector(".master");
const panel = find("question");
const search = el("input", {
  type: "search",
  id: "search",
  autocomplete: "off",
  placeholder: data.share ? "id of a question or of its evidence" : "question, answer or id",
  on: { input: () => chosen.move({ search: search.value }) },
});

/** Inserts the table, once. */
export function prepare() {
  master.classList.toggle("two", several);
  find("questions-table").replaceChildren(list.box);
  const filters = el("div", { class: "controls" });
  find("questions-choices").replaceChildren(
    el("label", { class: "field search" }, "Search", search),
    filters,
  );
  // In the panel, arrow keys move in the list; other keys scroll the panel.
  panel.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") list.key(event);
  });
  master.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen.open) close();
  });
  find("questions-how").textContent =
    `Select a question to see its evidence and its top ${data.shown} documents. Arrow keys: next and previous. Escape: close.`;
}

/** Shows the values of each question in the chosen metric, filtered. */
export function questions() {
  const now = view();
  const values = protocols[now.at].values.map((ofRun) => ofRun[now.metric]);
  const difference = protocols[now.at].difference?.[now.metric];
  const { ability, result, against, cause, sort } = filters(now.metric);
  const words = chosen.search.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = (at) =>
    (ability === "all" || columns.ability[at] === ability) &&
    RESULTS[result][1](values[0]?.[at] ?? null, runs[0].failed[at]) &&
    (against === "any" || (difference[at] !== null && AGAINST[against][1](difference[at]))) &&
    (cause === "any" || missedBy(at, CAUSES.indexOf(cause))) &&
    words.every((word) => searched[at].includes(word));
  const shape = columnsOf(now.metric, values, difference);
  const rows = ordered([...columns.id.keys()].filter(wanted), shape, sort);
  if (search.value !== chosen.search) search.value = chosen.search;
  list.show(shape, rows, sort, (next) => chosen.set({ sort: next }));
  const shown = result !== "any" && `result “${resultSaid(result, now.metric)}”`;
  said(rows.length, ability, shown, against, cause);
}

/** The label of a result, with the metric and, for recall, its meaning. */
function resultSaid(name, metric) {
  const [words] = RESULTS[name];
  if (!(name in OF_RECALL)) return words;
  const means = metric.startsWith("recall@") ? `: ${OF_RECALL[name]}` : "";
  return `${of(0, metric)} ${words}${means}`;
}

/** Whether a run missed evidence of a question for this cause. */
const missedBy = (at, cause) =>
  evidence.cause.some((ofRun) =>
    ofRun.slice(evidence.start[at], evidence.start[at + 1]).includes(cause),
  );

/** Draws the filters, and returns their values; unknown values count as the default. */
function filters(metric) {
  const present = ABILITIES.filter((name) => columns.ability.includes(name));
  const ability = present.includes(chosen.ability) ? chosen.ability : "all";
  const result = chosen.result in RESULTS ? chosen.result : "any";
  const against = several && chosen.against in AGAINST ? chosen.against : "any";
  const cause = CAUSES.includes(chosen.cause) ? chosen.cause : "any";
  const one = (label, name, options, value) =>
    select(label, options, value, (next) => chosen.set({ [name]: next }), { id: name });
  const worded = (table) => Object.entries(table).map(([name, [words]]) => [name, words]);
  replace(
    find("questions-choices").lastChild,
    one("Ability", "ability", [["all", "all abilities"], ...present], ability),
    one(
      "Result",
      "result",
      Object.keys(RESULTS).map((name) => [name, resultSaid(name, metric)]),
      result,
    ),
    several && one("B compared with A", "against", worded(AGAINST), against),
    CAUSES.length > 0 &&
      one("Cause of a miss", "cause", [["any", "all questions"], ...CAUSES], cause),
  );
  return { ability, result, against, cause, sort: chosen.sort };
}

function said(n, ability, result, against, cause) {
  const place = find("questions-count");
  place.textContent = `${count(n)} of ${count(columns.id.length)} questions`;
  if (n) return;
  const asFiltered = [
    ability !== "all" && `ability ${ability}`,
    result,
    against !== "any" && AGAINST[against][0],
    cause !== "any" && `cause “${cause}”`,
  ].filter(Boolean);
  const contains = chosen.search.trim() ? ` contains “${chosen.search.trim()}”` : " matches";
  const among = asFiltered.length ? ` with ${asFiltered.join(" and ")}` : "";
  const clear = () => {
    chosen.set(CLEAR);
    search.focus();
  };
  place.replaceChildren(
    `No question${among}${contains}. `,
    el("button", { type: "button", id: "clear", on: { click: clear } }, "Show all questions"),
  );
}

function columnsOf(metric, values, difference) {
  const found = (at) => {
    const pieces = evidence.start[at + 1] - evidence.start[at];
    if (!pieces) return "no evidence";
    if (several) return runs.map((run) => run.first[at] || NONE).join(" | ");
    return runs[0].first[at] ? `rank ${runs[0].first[at]}` : `0 of ${pieces} found`;
  };
  const value = (run) => (at) => {
    if (runs[run].failed[at]) return el("span", { class: "tag bad" }, "failed");
    const got = values[run]?.[at] ?? null;
    return got === null ? el("span", { class: "tag" }, "not scored") : plain(got);
  };
  return [
    {
      head: "Question",
      cell: (at) => el("button", { type: "button", class: "plain open" }, names[at]),
      by: (at) => names[at],
    },
    {
      head: "Ability",
      kind: "c-ability",
      cell: (at) => columns.ability[at],
      by: (at) => columns.ability[at],
    },
    {
      head: several ? "First evidence A | B" : "First evidence",
      title: "rank of the first evidence item",
      id: "found",
      kind: "c-evidence",
      cell: found,
      by: (at) => runs[0].first[at] || null,
    },
    ...runs.map((_, run) => ({
      head: of(run, metric),
      id: of(run, "value"),
      kind: "c-value",
      number: true,
      first: 1,
      cell: value(run),
      by: (at) => values[run]?.[at],
    })),
    several
      ? {
          head: "B − A",
          id: "difference",
          kind: "c-value c-difference",
          number: true,
          first: 1,
          cell: (at) => signed(difference?.[at]),
          by: (at) => difference?.[at],
        }
      : {
          head: "Time",
          id: "time",
          kind: "c-time",
          number: true,
          cell: (at) => duration(runs[0].ms[at]),
          by: (at) => runs[0].ms[at],
        },
  ];
}

/** Shows the selected question in the panel. */
export function opened() {
  const at = columns.id.indexOf(chosen.open);
  master.classList.toggle("open", at >= 0);
  const held = panel.contains(document.activeElement) ? document.activeElement.id : "";
  panel.replaceChildren(...(at < 0 ? [] : questionPanel(at, view(), walk(at))).filter(Boolean));
  panel.scrollTop = 0;
  list.choose(at < 0 ? null : at);
  if (held) find(held)?.focus({ preventScroll: true });
  // On narrow screens the panel covers the list and takes the focus.
  if (at >= 0 && getComputedStyle(panel).position === "fixed") panel.focus({ preventScroll: true });
}

/** The position of a question in the filtered list, and steps to its neighbours. */
function walk(at) {
  const { rows } = list;
  const place = rows.indexOf(at);
  return {
    said: place < 0 ? "not in the filtered list" : `${count(place + 1)} of ${count(rows.length)}`,
    before: place > 0,
    after: place + 1 < rows.length,
    step: (by) => open(rows[place + by]),
    close,
  };
}

function close() {
  chosen.set({ open: "" });
  list.move(list.active);
}
