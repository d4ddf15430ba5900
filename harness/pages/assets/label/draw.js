// Draws a view of the server's: nothing is computed here but words.

import { count } from "../shared/numbers.js";
import { el, facts, find } from "../shared/page.js";
import {
  about,
  can,
  giveAbility,
  giveGrade,
  giveUnanswerable,
  goTo,
  ids,
  openNote,
  press,
  resolving,
  said,
  state,
  tell,
  undo,
} from "./label.js";

const thing = () => (about.thing === "answer" ? "Answer" : "Document");

export function draw(view) {
  const moved = !state.view || JSON.stringify(ids(view)) !== JSON.stringify(ids(state.view));
  state.view = view;
  find("main").hidden = false;
  find("bar").max = Math.max(view.total, 1);
  find("bar").value = view.done;
  const left = view.total - view.done;
  find("count").textContent = `${count(view.done)} of ${count(view.total)} · ${count(left)} left`;
  for (const id of ["ask", "document", "bottom"]) find(id).hidden = !view.total;
  if (!left) finished(view);
  if (!view.total) return;
  const place = Object.entries(ids(view)).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(place)}`);
  const number = resolving
    ? `Conflict ${view.number} of ${view.total}`
    : `Query ${view.number} of ${view.queries}`;
  find("number").textContent = view.asked ? `${number} · asked ${view.asked}` : number;
  find("text").textContent = view.text;
  find("reference").hidden = !view.reference;
  find("reference").textContent = view.reference ? `Reference: ${view.reference}` : "";
  find("warning").hidden = !view.warning;
  find("warning").textContent = view.warning ?? "";
  drawAbout(view);
  drawSaid(view);
  drawDocument(view);
  drawGrades(view);
  drawMoves(view);
  if (moved) scrollTo(0, 0);
}

function finished(view) {
  const words = view.total
    ? resolving
      ? "Every conflict is settled."
      : "Everything is judged. You can go back and change what you like."
    : "No conflict is left.";
  tell(words, false, "", "");
  find("alert").classList.add("good");
  const next = resolving ? about.then : `harness label status ${about.folder}`;
  const command = el("code", {}, next);
  find("alert").append(el("p", {}, "Next: ", command));
}

function drawAbout(view) {
  const parts = [];
  if (can("ability"))
    for (const { key, name, meaning } of about.abilities)
      parts.push(
        press(key, name, () => giveAbility(name), {
          class: "choice",
          title: meaning,
          "aria-pressed": String(view.ability === name),
        }),
      );
  if (view.own_ability) {
    const words = `ability given: ${view.own_ability}`;
    const other = view.ability && view.ability !== view.own_ability;
    parts.push(el("span", { class: "note" }, other ? `${words}, changed here` : words));
  }
  if (can("unanswerable")) {
    parts.push(
      press("n", "Cannot be answered", () => giveUnanswerable(true), {
        class: resolving ? "choice" : "choice apart",
        "aria-pressed": String(view.unanswerable === true),
      }),
    );
    if (resolving || !view.document || view.unanswerable === false)
      parts.push(
        press("y", "Can be answered", () => giveUnanswerable(false), {
          class: "choice",
          "aria-pressed": String(view.unanswerable === false),
        }),
      );
  }
  find("about").replaceChildren(...parts);
}

const whoSaid = (list) =>
  el(
    "ul",
    {},
    list.map(({ who, value }) => el("li", {}, who, el("b", {}, said(value)))),
  );

function drawSaid(view) {
  find("said").hidden = !resolving;
  if (!resolving) return;
  const kinds = {
    grade: "Which grade?",
    ability: "Which ability?",
    unanswerable: "Can it be answered?",
  };
  find("said").replaceChildren(
    el("h2", {}, kinds[view.kind]),
    whoSaid(view.said),
    ...view.notes.map(({ who, note }) => el("p", { class: "note" }, `${who} notes: ${note}`)),
    ...view.evidence.map((one) =>
      el(
        "div",
        { class: "one" },
        ...textOf(one.shown),
        el(
          "p",
          { class: "note own-note" },
          one.said.map(({ who, value }) => `${who}: ${said(value)}`).join(" · "),
        ),
      ),
    ),
  );
}

function textOf(shown) {
  return [
    shown.title ? el("h2", {}, shown.title) : "",
    facts([
      ["time", shown.timestamp],
      ["speaker", shown.speaker],
      ["session", shown.session],
    ]),
    el("p", { class: "body" }, shown.text),
  ].filter((part) => part && (part.className !== "facts" || part.childNodes.length));
}

/** Neighbours in the session, greyed and a line each until they are opened; not to be judged. */
const turnsAround = (where, turns) =>
  turns.map((one) =>
    el(
      "details",
      { class: `around note ${where}` },
      el("summary", {}, [one.timestamp, one.speaker].filter(Boolean).join(" · "), " ", one.text),
    ),
  );

function drawDocument(view) {
  const box = find("document");
  box.hidden = resolving && !view.shown;
  const parts = [];
  if (view.mates && view.document) {
    const dots = view.mates.map((mate, at) => {
      const open = mate.grade === null;
      return press("", open ? "·" : mate.grade, () => goTo(mate), {
        class: open ? "" : "done",
        "aria-current": at === view.at ? "true" : null,
        "aria-label": `${thing()} ${at + 1}: ${open ? "not judged" : `grade ${mate.grade}`}`,
      });
    });
    const words = el(
      "span",
      { class: "note" },
      `${thing()} ${view.at + 1} of ${view.mates.length}`,
    );
    parts.push(el("div", { id: "mates" }, words, dots));
  }
  if (view.shown)
    parts.push(
      ...turnsAround("before", view.around.before),
      ...textOf(view.shown),
      ...turnsAround("after", view.around.after),
    );
  else parts.push(el("p", {}, "No system found a document for this query. Can it be answered?"));
  if (view.note) parts.push(el("p", { class: "note own-note" }, `Note: ${view.note}`));
  box.replaceChildren(...parts);
}

function drawGrades(view) {
  const buttons = about.grades.map((one) => {
    const name = el("span", { class: "name" }, one.name);
    const button = press(String(one.grade), name, () => giveGrade(one.grade), {
      "aria-pressed": String(view.grade === one.grade),
    });
    button.append(
      el("span", { class: "meaning" }, one.meaning),
      el("span", { class: "counts" }, one.counts),
    );
    return button;
  });
  find("grades").replaceChildren(...(can("grade") ? buttons : []));
}

function drawMoves(view) {
  find("moves").replaceChildren(
    press("←", "Back", () => goTo(view.previous)),
    press("→", "On", () => goTo(view.next)),
    press("s", "Skip", () => goTo(view.then)),
    press("u", "Undo", undo, { disabled: !view.undoable }),
    can("note") ? press("e", "Note", openNote) : "",
    press("?", "Keys", () => find("help").showModal()),
  );
}

export function drawHelp() {
  const answerable = resolving
    ? ["n y", "the query cannot, or can, be answered"]
    : ["n", "the query cannot be answered from the documents; the next query follows"];
  const keys = about.grades.map((one) => one.grade).join(" ");
  const rows = [
    [keys, `the grade of this ${about.thing}; the next one follows`],
    ...about.abilities.map((one) => [one.key, `${one.name}: ${one.meaning}`]),
    ...(thing() === "Answer" ? [] : [answerable]),
    ["← → Backspace", "back and on, without a judgement"],
    ["s", "skip: the next one that is left; it comes again at the end"],
    ["u", "undo the newest judgement; again for the one before"],
    ...(resolving ? [] : [["e", "a note"]]),
  ];
  const grades = about.grades.map((one) => [
    one.grade,
    [`${one.name}: ${one.meaning}`, one.counts].filter(Boolean).join("; "),
  ]);
  find("help").replaceChildren(
    el("h2", { id: "help-title" }, "Keys"),
    keyTable(rows),
    el("h2", {}, "Grades"),
    keyTable(grades),
    el(
      "p",
      { class: "note" },
      (thing() === "Answer"
        ? ""
        : `A grade of ${about.relevant_from} or more counts as evidence. `) +
        "Every judgement is on the disk before the next one is shown: the page can be closed at " +
        "any time.",
    ),
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
}

const keyTable = (rows) =>
  el(
    "table",
    {},
    el(
      "tbody",
      {},
      rows.map(([key, words]) =>
        el("tr", {}, el("td", {}, el("kbd", {}, String(key))), el("td", {}, words)),
      ),
    ),
  );
