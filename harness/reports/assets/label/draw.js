// Draws the view from the server.

import { count, many } from "../shared/numbers.js";
import { el, find } from "../shared/page.js";
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
import { show, showSearch } from "./lists.js";

const target = () => (info.target === "answer" ? "Answer" : "Document");
const sameItem = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function draw(view) {
  const moved = !state.view || !sameItem(view.item, state.view.item);
  state.view = view;
  find("main").hidden = false;
  find("bar").max = Math.max(view.total, 1);
  find("bar").value = view.done;
  const left = view.total - view.done;
  find("count").textContent =
    `${count(view.done)} of ${count(view.total)} · ${count(left)} left${timeLeft(view, left)}`;
  for (const id of ["ask", "choices", "document", "bottom"]) find(id).hidden = !view.total;
  if (!left) finished(view);
  if (!view.total) return;
  history.replaceState(null, "", `#${new URLSearchParams(view.item)}`);
  const number = resolving
    ? `Conflict ${view.number} of ${view.total}`
    : `Query ${view.number} of ${view.queries}`;
  find("number").textContent = view.asked_at ? `${number} · asked ${view.asked_at}` : number;
  find("text").textContent = view.text;
  find("edits").hidden = !view.edits?.length;
  find("edits").replaceChildren(
    ...(view.edits ?? []).map(({ text, annotator, time }) =>
      el(
        "span",
        {},
        `Edited by ${annotator}, ${time.slice(0, 16).replace("T", " ")}; before: ${text}`,
      ),
    ),
  );
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

/** Pace and remaining time; empty before the first few judgements. */
function timeLeft(view, left) {
  if (!view.seconds || !left) return "";
  const minutes = Math.max(1, Math.round((view.seconds * left) / 60));
  const time = minutes < 120 ? many(minutes, "minute") : many(Math.round(minutes / 60), "hour");
  return ` · about ${time} at ${count(Number((3600 / view.seconds).toPrecision(2)))} an hour`;
}

function finished(view) {
  const words = view.total
    ? resolving
      ? "Every conflict is resolved."
      : "Everything is judged. You can still go back and change judgements."
    : "No conflicts left.";
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
        press(
          key,
          name === view.given_ability ? `${name} (given)` : name,
          () => giveAbility(name),
          {
            class: "choice",
            title: meaning,
            "aria-pressed": String(view.ability === name),
          },
        ),
      );
  if (can("unanswerable")) {
    parts.push(
      press("n", "Unanswerable", () => giveUnanswerable(true), {
        class: resolving ? "choice" : "choice apart",
        "aria-pressed": String(view.unanswerable === true),
      }),
    );
    if (resolving || !view.item.document || view.unanswerable === false)
      parts.push(
        press("y", "Answerable", () => giveUnanswerable(false), {
          class: "choice",
          "aria-pressed": String(view.unanswerable === false),
        }),
      );
  }
  if (can("rejected"))
    parts.push(
      press("r", "Reject", () => reject(true), {
        class: "choice",
        title: "not a usable question; excluded from the dataset",
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

export function textOf(document, words) {
  const about = [
    document.timestamp,
    document.speaker,
    document.session && `session ${document.session}`,
  ].filter(Boolean);
  return [
    document.title ? el("h2", {}, marked(document.title, words)) : "",
    about.length ? el("p", { class: "note" }, about.join(" · ")) : "",
    el("p", { class: "body" }, marked(document.text, words)),
  ].filter(Boolean);
}

/** Turns of the session around the document, one line each until opened; they are not judged. */
const contextTurns = (where, turns) =>
  turns.map((one) =>
    el(
      "details",
      { class: `context note ${where}` },
      el("summary", {}, one.speaker ? `${one.speaker}: ` : "", one.text),
    ),
  );

const COMMON = new Set(
  (
    "about after all also and any are been before but can could did does for from get got had has have her him his " +
    "how into its just let may more much not one only our out over said she should some than that the their them " +
    "then there these they this was were what when where which while who why will with would you your"
  ).split(" "),
);

/** A text with the words of the query, or others, marked, also with a short ending. */
export function marked(text, wanted = state.view.text) {
  const words = (wanted.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter(
    (word) => word.length > 2 && !COMMON.has(word),
  );
  if (!words.length) return [text];
  const forms = words.map((word) =>
    word.length > 4 ? `${word.replace(/(?:ing|ed|es|s)$/u, "")}\\p{L}{0,3}` : `${word}s?`,
  );
  const pattern = `(?<![\\p{L}\\p{N}])(${forms.join("|")})(?![\\p{L}\\p{N}])`;
  return text
    .split(new RegExp(pattern, "giu"))
    .map((part, at) => (at % 2 ? el("mark", {}, part) : part));
}

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
  else parts.push(el("p", {}, "No system returned a document for this query. Can it be answered?"));
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
    resolving || target() === "Answer" ? "" : press("w", "Edit query", openText),
    can("note") ? press("e", "Note", openNote) : "",
    resolving || target() === "Answer" ? "" : press("/", "Search", showSearch),
  );
}

export function showHelp() {
  const answerable = resolving
    ? ["n y", "the query cannot be answered, or can be answered"]
    : ["n", "the query cannot be answered from the documents; go to the next query"];
  const keys = info.grades.map((one) => one.grade).join(" ");
  const rows = [
    [keys, `grade this ${info.target} and go to the next`],
    ...info.abilities.map((one) => [one.key, `${one.name}: ${one.meaning}`]),
    ...(target() === "Answer" ? [] : [answerable]),
    ...(resolving ? [["r y", "reject or keep the query"]] : []),
    ["← →", "previous and next, without a judgement"],
    ["s", "skip to the next unjudged one"],
    ["u", "undo the newest judgement; repeatable"],
    ...(resolving || target() === "Answer"
      ? []
      : [
          ["r", "reject the query (not a usable question); go to the next query"],
          ["w", "edit the text of the query, until another annotator judges it"],
          ["/", "search all documents, also those outside the pool"],
        ]),
    ...(resolving ? [] : [["e", "write a note"]]),
    ["q", "list and filter the queries and notes"],
    ["g", "the project's guidelines"],
  ];
  const grades = info.grades.map((one) => [
    one.grade,
    [`${one.name}: ${one.meaning}`, one.effect].filter(Boolean).join("; "),
  ]);
  show(
    "Keys",
    keyTable(rows),
    el("h2", {}, "Grades"),
    keyTable(grades),
    el(
      "p",
      { class: "note" },
      (target() === "Answer"
        ? ""
        : `A grade of ${info.relevance_level} or more counts as evidence. `) +
        "Every judgement is saved before the next document appears; you can close the page at any " +
        "time.",
    ),
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
