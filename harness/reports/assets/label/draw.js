// Draws the view that the server sends.

import { count } from "../shared/numbers.js";
import { el, facts, find } from "../shared/page.js";
import {
  can,
  giveAbility,
  giveGrade,
  giveUnanswerable,
  goTo,
  info,
  openNote,
  openText,
  press,
  reject,
  resolving,
  state,
  tell,
  undo,
  valueName,
} from "./label.js";

const target = () => (info.target === "answer" ? "Answer" : "Document");
const sameItem = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function draw(view) {
  const moved = !state.view || !sameItem(view.item, state.view.item);
  state.view = view;
  find("main").hidden = false;
  find("bar").max = Math.max(view.total, 1);
  find("bar").value = view.done;
  const left = view.total - view.done;
  find("count").textContent = `${count(view.done)} of ${count(view.total)} · ${count(left)} left`;
  for (const id of ["ask", "document", "bottom"]) find(id).hidden = !view.total;
  if (!left) finished(view);
  if (!view.total) return;
  history.replaceState(null, "", `#${new URLSearchParams(view.item)}`);
  const number = resolving
    ? `Conflict ${view.number} of ${view.total}`
    : `Query ${view.number} of ${view.queries}`;
  find("number").textContent = view.asked_at ? `${number} · asked ${view.asked_at}` : number;
  find("text").textContent = view.text;
  find("reference").hidden = !view.reference;
  find("reference").textContent = view.reference
    ? `${info.target === "answer" ? "Reference" : "Generated answer"}: ${view.reference}`
    : "";
  find("warning").hidden = !view.warning;
  find("warning").textContent = view.warning ?? "";
  drawChoices(view);
  drawVotes(view);
  drawDocument(view);
  drawGrades(view);
  drawMoves(view);
  if (moved) scrollTo(0, 0);
}

function finished(view) {
  const words = view.total
    ? resolving
      ? "Every conflict is resolved."
      : "Everything is judged. You can go back and change what you like."
    : "No conflict is left.";
  tell(words, false, "", "");
  find("alert").classList.add("good");
  const next = resolving ? info.next_command : `harness label status ${info.folder}`;
  const command = el("code", {}, next);
  find("alert").append(el("p", {}, "Next: ", command));
}

function drawChoices(view) {
  const parts = [];
  if (can("ability"))
    for (const { key, name, meaning } of info.abilities)
      parts.push(
        press(key, name, () => giveAbility(name), {
          class: "choice",
          title: meaning,
          "aria-pressed": String(view.ability === name),
        }),
      );
  if (view.given_ability) {
    const words = `ability given: ${view.given_ability}`;
    const other = view.ability && view.ability !== view.given_ability;
    parts.push(el("span", { class: "note" }, other ? `${words}, changed here` : words));
  }
  if (can("unanswerable")) {
    parts.push(
      press("n", "Cannot be answered", () => giveUnanswerable(true), {
        class: resolving ? "choice" : "choice apart",
        "aria-pressed": String(view.unanswerable === true),
      }),
    );
    if (resolving || !view.item.document || view.unanswerable === false)
      parts.push(
        press("y", "Can be answered", () => giveUnanswerable(false), {
          class: "choice",
          "aria-pressed": String(view.unanswerable === false),
        }),
      );
  }
  if (can("rejected"))
    parts.push(
      press("r", "Reject", () => reject(true), {
        class: "choice",
        title: "no usable question: left out of the dataset",
        "aria-pressed": String(view.rejected === true),
      }),
    );
  if (resolving && can("rejected"))
    parts.push(
      press("y", "Keep", () => reject(false), {
        class: "choice",
        "aria-pressed": String(view.rejected === false),
      }),
    );
  find("choices").replaceChildren(...parts);
}

const voteList = (votes) =>
  el(
    "ul",
    {},
    votes.map(({ annotator, value }) => el("li", {}, annotator, el("b", {}, valueName(value)))),
  );

function drawVotes(view) {
  find("votes").hidden = !resolving;
  if (!resolving) return;
  const kinds = {
    grade: "Which grade?",
    ability: "Which ability?",
    unanswerable: "Can it be answered?",
    rejected: "Is it a usable question?",
  };
  find("votes").replaceChildren(
    el("h2", {}, kinds[view.item.kind]),
    voteList(view.votes ?? []),
    ...(view.notes ?? []).map(({ annotator, note }) =>
      el("p", { class: "note" }, `${annotator} notes: ${note}`),
    ),
    ...(view.evidence ?? []).map((one) =>
      el(
        "div",
        { class: "one" },
        ...textOf(one.document),
        el(
          "p",
          { class: "note own-note" },
          one.votes.map(({ annotator, value }) => `${annotator}: ${valueName(value)}`).join(" · "),
        ),
      ),
    ),
  );
}

function textOf(document) {
  return [
    document.title ? el("h2", {}, document.title) : "",
    facts([
      ["time", document.timestamp],
      ["speaker", document.speaker],
      ["session", document.session],
    ]),
    el("p", { class: "body" }, document.text),
  ].filter((part) => part && (part.className !== "facts" || part.childNodes.length));
}

/** Neighbours in the session, greyed and a line each until they are opened; not to be judged. */
const contextTurns = (where, turns) =>
  turns.map((one) =>
    el(
      "details",
      { class: `context note ${where}` },
      el("summary", {}, [one.timestamp, one.speaker].filter(Boolean).join(" · "), " ", one.text),
    ),
  );

function drawDocument(view) {
  const box = find("document");
  box.hidden = resolving && !view.document;
  const parts = [];
  if (view.candidates && view.document) {
    const position = view.position ?? 0;
    const dots = view.candidates.map(({ item, grade }, at) => {
      const open = grade === null;
      return press("", open ? "·" : grade, () => goTo(item), {
        class: open ? "" : "done",
        "aria-current": at === position ? "true" : null,
        "aria-label": `${target()} ${at + 1}: ${open ? "not judged" : `grade ${grade}`}`,
      });
    });
    const words = el(
      "span",
      { class: "note" },
      `${target()} ${position + 1} of ${view.candidates.length}`,
    );
    parts.push(el("div", { id: "candidates" }, words, dots));
  }
  if (view.document)
    parts.push(
      ...contextTurns("before", view.context.before),
      ...textOf(view.document),
      ...contextTurns("after", view.context.after),
    );
  else parts.push(el("p", {}, "No system found a document for this query. Can it be answered?"));
  if (view.note) parts.push(el("p", { class: "note own-note" }, `Note: ${view.note}`));
  box.replaceChildren(...parts);
}

function drawGrades(view) {
  const buttons = info.grades.map((one) => {
    const name = el("span", { class: "name" }, one.name);
    const button = press(String(one.grade), name, () => giveGrade(one.grade), {
      "aria-pressed": String(view.grade === one.grade),
    });
    button.append(
      el("span", { class: "meaning" }, one.meaning),
      el("span", { class: "effect" }, one.effect),
    );
    return button;
  });
  find("grades").replaceChildren(...(can("grade") ? buttons : []));
}

function drawMoves(view) {
  find("moves").replaceChildren(
    press("←", "Back", () => goTo(view.previous)),
    press("→", "Next", () => goTo(view.next)),
    press("s", "Skip", () => goTo(view.next_open)),
    press("u", "Undo", undo, { disabled: !view.can_undo }),
    view.can_reword ? press("w", "Reword", openText) : "",
    can("note") ? press("e", "Note", openNote) : "",
    press("?", "Keys", () => find("help").showModal()),
  );
}

export function drawHelp() {
  const answerable = resolving
    ? ["n y", "the query cannot, or can, be answered"]
    : ["n", "the query cannot be answered from the documents; the next query follows"];
  const keys = info.grades.map((one) => one.grade).join(" ");
  const rows = [
    [keys, `the grade of this ${info.target}; the next one follows`],
    ...info.abilities.map((one) => [one.key, `${one.name}: ${one.meaning}`]),
    ...(target() === "Answer" ? [] : [answerable]),
    ...(resolving ? [["r y", "the query is rejected, or kept"]] : []),
    ["← → Backspace", "back and on, without a judgement"],
    ["s", "skip: the next one that is left; it comes again at the end"],
    ["u", "undo the newest judgement; again for the one before"],
    ...(resolving || target() === "Answer"
      ? []
      : [
          ["r", "reject: no usable question, left out of the dataset; the next query follows"],
          ["w", "reword a generated query that nobody has judged yet"],
        ]),
    ...(resolving ? [] : [["e", "a note"]]),
  ];
  const grades = info.grades.map((one) => [
    one.grade,
    [`${one.name}: ${one.meaning}`, one.effect].filter(Boolean).join("; "),
  ]);
  find("help").replaceChildren(
    el("h2", { id: "help-title" }, "Keys"),
    keyTable(rows),
    el("h2", {}, "Grades"),
    keyTable(grades),
    el(
      "p",
      { class: "note" },
      (target() === "Answer"
        ? ""
        : `A grade of ${info.relevance_level} or more counts as evidence. `) +
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
