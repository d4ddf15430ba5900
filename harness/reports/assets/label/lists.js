// Dialogs over the page: all queries with their notes, a search of all documents, the guidelines.

import { count } from "../shared/numbers.js";
import { el, fetched, find, select } from "../shared/page.js";
import { marked, textOf } from "./draw.js";
import { addCandidate, can, goTo, info, rejectQuery, state } from "./label.js";

/** Shows a dialog with a heading, and a button that closes it. */
export function show(title, ...parts) {
  const box = find("panel");
  const close = el("button", { type: "button", on: { click: () => box.close() } }, "Close");
  const head = el("div", { class: "head" }, el("h2", { id: "panel-title" }, title), close);
  box.replaceChildren(head, ...parts);
  if (!box.open) box.showModal();
  box.scrollTop = 0;
}

const leave = (act) => () => {
  find("panel").close();
  act();
};

// -- Queries and notes ----------------------------------------------------------------------------

const STATES = {
  all: ["All", () => true],
  open: ["Unfinished", (one) => one.done < one.total],
  done: ["Finished", (one) => one.done === one.total],
  notes: ["With notes", (one) => one.notes.length],
  unanswerable: ["Unanswerable", (one) => one.unanswerable],
  rejected: ["Rejected", (one) => one.rejected],
  edited: ["Edited", (one) => one.edited],
};
const wanted = { words: "", state: "all" };

export async function showQueries() {
  const queries = await fetched("queries");
  const list = el("ol", { id: "queries" });
  const shown = el("p", { class: "note number", role: "status" });
  const fill = () => {
    const words = wanted.words.toLowerCase().split(/\s+/u).filter(Boolean);
    const [, fits] = STATES[wanted.state];
    const found = queries.filter((one) => {
      const text = [one.text, ...one.notes.map(({ note }) => note)].join(" ").toLowerCase();
      return fits(one) && words.every((word) => text.includes(word));
    });
    shown.textContent = `${count(found.length)} of ${count(queries.length)} queries`;
    list.replaceChildren(...found.map(queryLine));
  };
  const search = searchField("Search queries and notes", wanted.words, (words) => {
    wanted.words = words;
    fill();
  });
  const states = Object.entries(STATES).map(([name, [label, fits]]) => [
    name,
    `${label} (${count(queries.filter(fits).length)})`,
  ]);
  const choice = select("Show", states, wanted.state, (name) => {
    wanted.state = name;
    fill();
  });
  fill();
  show("Queries", el("div", { class: "controls" }, search, choice), shown, list);
  const here = list.querySelector('[aria-current="true"]');
  here?.scrollIntoView({ block: "center" });
  search.querySelector("input").focus({ preventScroll: true });
}

function queryLine(one) {
  const tags = [
    one.done === one.total && "finished",
    one.unanswerable && "unanswerable",
    one.rejected && "rejected",
    one.edited && "edited",
  ].filter(Boolean);
  const reject = () => rejectQuery(one).then(showQueries);
  return el(
    "li",
    { "aria-current": one.item.query === state.view.item.query ? "true" : null },
    el(
      "div",
      { class: "line" },
      el(
        "button",
        { type: "button", class: "plain open", on: { click: leave(() => goTo(one.item)) } },
        one.text,
      ),
      can("rejected") && info.session.mode === "annotate"
        ? el(
            "button",
            { type: "button", class: "choice", on: { click: reject } },
            one.rejected ? "Keep" : "Reject",
          )
        : "",
    ),
    el(
      "p",
      { class: "note" },
      `${count(one.done)} of ${count(one.total)} judged `,
      tags.map((tag) => [el("span", { class: "tag" }, tag), " "]),
    ),
    one.notes.map(({ item, annotator, note }) =>
      el(
        "button",
        {
          type: "button",
          class: "plain note open",
          on: { click: leave(() => goTo(item ?? one.item)) },
        },
        `${annotator === info.session.annotator ? "Note" : `Note of ${annotator}`}: ${note}`,
      ),
    ),
  );
}

function searchField(label, value, change) {
  // Escape closes the dialog; browsers would empty the field first.
  const keydown = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    find("panel").close();
  };
  const on = { input: () => change(input.value), keydown };
  const input = el("input", { type: "search", value, on });
  return el("label", { class: "field grow" }, label, input);
}

// -- Documents outside the pool -------------------------------------------------------------------

const PAUSE = 200; // milliseconds without a key, after which a search begins

export function showSearch() {
  const { query } = state.view.item;
  const list = el("ol", { id: "found" });
  const shown = el("p", { class: "note", role: "status" });
  let timer = 0;
  const fill = async (words) => {
    const found = await fetched(`search?${new URLSearchParams({ query, words })}`);
    if (words !== field.querySelector("input").value) return;
    shown.textContent = found.length
      ? "Judge a document to add it to the pool of this query, for all annotators."
      : "No document has these words.";
    list.replaceChildren(...found.map((one) => foundLine(one, words)));
  };
  const field = searchField("Words of a document", state.view.text, (words) => {
    clearTimeout(timer);
    timer = setTimeout(fill, PAUSE, words);
  });
  show("Search all documents", el("p", {}, state.view.text), field, shown, list);
  const input = field.querySelector("input");
  input.focus();
  input.select();
  fill(input.value);
}

function foundLine({ item, document, pooled, grade }, words) {
  const act = pooled ? () => goTo(item) : () => addCandidate(item);
  const title = document.title ? `${document.title}: ` : "";
  return el(
    "li",
    {},
    el(
      "div",
      { class: "line" },
      el(
        "details",
        {},
        el("summary", {}, marked(title + document.text, words)),
        ...textOf(document, words),
      ),
      el(
        "button",
        { type: "button", class: "choice", on: { click: leave(act) } },
        pooled ? "Open" : "Judge",
      ),
    ),
    el(
      "p",
      { class: "note" },
      pooled ? (grade === null ? "in the pool, not judged" : `graded ${grade}`) : "not in the pool",
    ),
  );
}

// -- Guidelines -----------------------------------------------------------------------------------

export function showGuidelines() {
  const blocks = info.guidelines.split(/\n{2,}/u).filter(Boolean);
  show(
    "Guidelines",
    ...(blocks.length
      ? blocks.map((block) => {
          const [, heading] = block.match(/^#+ +(.*)/u) ?? [];
          const rest = heading ? block.slice(block.indexOf("\n") + 1 || block.length) : block;
          return [
            heading ? el("h3", {}, heading) : "",
            rest ? el("p", { class: "body" }, rest) : "",
          ];
        })
      : [
          el(
            "p",
            {},
            "Write the rules for annotators into ",
            el("code", {}, `${info.folder}/guidelines.md`),
            " and reload the page.",
          ),
        ]
    ).flat(),
  );
}
