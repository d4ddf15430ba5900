// Shows one item and sends every key press; advances when the server has saved it.

import { el, find, load, themeSwitch } from "../shared/page.js";
import { draw, showHelp } from "./draw.js";
import { showGuidelines, showQueries, showSearch } from "./lists.js";

export const info = await load();
const { session } = info;
export const resolving = session.mode === "adjudicate";
const storageKey = `label:${session.project}:${session.annotator}:${session.mode}`;
export const state = {
  view: null,
  busy: false,
  waiting: null,
  lost: false,
};

const grade = (value) => info.grades.find((one) => one.grade === value);
export const valueName = (value) =>
  typeof value === "number"
    ? `${value} ${grade(value).name}`
    : value === true
      ? "cannot be answered"
      : value === false
        ? "can be answered"
        : value;
export const can = (choice) => state.view.choices?.includes(choice);

// -- talking to the server ------------------------------------------------------------------------

/** The view of an item; null if the server does not answer. */
async function ask(item) {
  try {
    const answer = await fetch(`view?${new URLSearchParams(item ?? {})}`);
    if (answer.ok) return await answer.json();
    tell(await answer.text(), true);
  } catch {
    lost();
  }
  return null;
}

/** Sends an annotation until it is saved; the browser stores it meanwhile. */
async function send(body, words) {
  if (state.busy) return;
  state.busy = true;
  document.body.classList.add("busy");
  const whole = JSON.stringify({ text: state.view?.text, ...body, session });
  localStorage.setItem(storageKey, whole);
  let view = null;
  try {
    const answer = await fetch("judge", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: whole,
    });
    if (answer.ok) {
      view = await answer.json();
      localStorage.removeItem(storageKey);
    } else if (answer.status === 507) {
      retryLater(body, words, await answer.text());
    } else {
      localStorage.removeItem(storageKey);
      tell(await answer.text(), true);
    }
  } catch {
    retryLater(body, words);
  }
  state.busy = false;
  document.body.classList.remove("busy");
  if (!view) return;
  state.waiting = null;
  hideAlert();
  draw(view);
  find("saved").textContent = words ? `Saved: ${words}` : "";
}

function retryLater(body, words, why) {
  state.waiting = { body, words };
  lost(why);
}

const command =
  `harness label ${resolving ? "adjudicate" : "open"} ${info.folder} ` +
  `--annotator ${session.annotator} --port ${location.port}`;

function lost(why) {
  find("saved").textContent = "";
  if (!state.lost || why) {
    tell(
      why ?? "The server does not answer.",
      false,
      state.waiting
        ? `Your last judgement${state.waiting.words ? ` (${state.waiting.words})` : ""} is stored in ` +
            "this browser and is sent again every second. All earlier judgements are saved."
        : "All judgements are saved. The page continues when the server answers.",
      why ? "" : command,
    );
  }
  if (!state.lost) {
    state.lost = true;
    setTimeout(retry, 1000);
  }
}

async function retry() {
  state.lost = false;
  if (state.waiting) {
    await send(state.waiting.body, state.waiting.words);
    return;
  }
  const view = await ask(state.view?.item);
  if (view) {
    hideAlert();
    draw(view);
  }
}

function hideAlert() {
  find("alert").hidden = true;
}

export function tell(words, reload, more, command) {
  const box = find("alert");
  box.className = "";
  box.replaceChildren(
    el("p", {}, words.trim()),
    more ? el("p", {}, more) : "",
    command ? el("p", {}, "Start it with ", el("code", {}, command)) : "",
    reload
      ? el("button", { type: "button", on: { click: () => location.reload() } }, "Reload")
      : "",
  );
  box.hidden = false;
}

// -- what a key or a click does -------------------------------------------------------------------

function annotate(value, words, advance) {
  if (state.waiting || state.busy || !state.view.total) return;
  const { item } = state.view;
  const annotation = { query: item.query, ...value };
  if ("grade" in value || ("note" in value && item.document)) annotation.document = item.document;
  send({ item, annotation, advance }, words);
}

export function giveGrade(value) {
  if (can("grade")) annotate({ grade: value }, valueName(value), true);
}

export function giveAbility(name) {
  if (!can("ability")) return;
  const same = !resolving && state.view.ability === name;
  const words = same ? `no longer ${name}` : name;
  annotate({ ability: same ? null : name }, words, resolving);
}

/** n and y; the same key again removes an annotator's own mark. */
export function giveUnanswerable(value) {
  if (!can("unanswerable")) return;
  if (!value && !resolving && state.view.item.document && state.view.unanswerable === null) return;
  const same = !resolving && state.view.unanswerable === value;
  annotate({ unanswerable: same ? null : value }, same ? "mark removed" : valueName(value), !same);
}

/** r; again removes an annotator's own. An adjudicator keeps the query with y. */
export function reject(value) {
  if (!can("rejected")) return;
  const same = !resolving && state.view.rejected === true;
  const words = same ? "no longer rejected" : value ? "rejected" : "kept";
  annotate({ rejected: same ? null : value }, words, !same);
}

/** Rejects a query of the list, or takes that back; the page stays at its item. */
export async function rejectQuery({ item, rejected }) {
  const annotation = { query: item.query, rejected: rejected ? null : true };
  const words = rejected ? "no longer rejected" : "rejected";
  if (!state.waiting) await send({ item: state.view.item, annotation, advance: false }, words);
}

/** Adds a document that a search found to the pool of its query, and shows it. */
export function addCandidate(item) {
  if (!state.waiting && !state.busy) send({ item, add: true }, "added to the pool");
}

export async function goTo(item) {
  if (state.busy || state.waiting) return;
  closeNote();
  const view = await ask(item);
  if (view) {
    hideAlert();
    draw(view);
    find("saved").textContent = "";
  }
}

export function undo() {
  if (!state.busy && !state.waiting && state.view.can_undo)
    send({ item: state.view.item, undo: true }, "undone");
}

export function openNote() {
  if (can("note"))
    openField("note", "Note for yourself and the adjudicator", state.view.note ?? "");
}

export function openText() {
  if (!resolving && state.view.why_fixed)
    tell(`The text of this query cannot be changed: ${state.view.why_fixed}.`, false);
  else if (!resolving) openField("text", "Text of the query, for all annotators", state.view.text);
}

function openField(field, label, value) {
  state.field = field;
  find("note-place").hidden = false;
  find("note-label").textContent = `${label} (Enter: save, Escape: cancel)`;
  find("note").value = value;
  find("note").focus();
}

function saveField(value) {
  if (state.waiting || state.busy) return;
  if (state.field === "note" && value !== (state.view.note ?? ""))
    annotate({ note: value }, "the note", false);
  if (state.field === "text" && value && value !== state.view.text)
    send({ item: state.view.item, reworded: value }, "the query. Check your judgements of it");
}

function closeNote() {
  find("note-place").hidden = true;
  find("note").blur();
}

const KEYS = new Map([
  ["ArrowRight", () => goTo(state.view.next)],
  ["ArrowLeft", () => goTo(state.view.previous)],
  ["Backspace", () => goTo(state.view.previous)],
  ["s", () => goTo(state.view.next_open)],
  ["u", undo],
  ["n", () => giveUnanswerable(true)],
  ["y", () => (resolving && can("rejected") ? reject(false) : giveUnanswerable(false))],
  ["r", () => reject(true)],
  ["w", openText],
  ["e", openNote],
  ["q", showQueries],
  ["/", () => resolving || info.target === "answer" || showSearch()],
  ["g", showGuidelines],
  ["?", showHelp],
]);
for (const { grade: value } of info.grades) KEYS.set(String(value), () => giveGrade(value));
for (const { key, name } of info.abilities) KEYS.set(key, () => giveAbility(name));

document.addEventListener("keydown", (event) => {
  if (event.target === find("note")) {
    if (event.key === "Escape") closeNote();
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      const value = find("note").value.trim();
      closeNote();
      saveField(value);
    }
    return;
  }
  // A key that is held down is one judgement.
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (document.querySelector("dialog[open]")) return;
  const act = KEYS.get(event.key) ?? KEYS.get(event.key.toLowerCase());
  if (act && state.view?.total) {
    event.preventDefault();
    act();
  }
});

/** A button for a key; a click leaves no focus behind, so that the space bar scrolls. */
export function press(key, words, act, attributes = {}) {
  const click = (event) => {
    if (event.detail) event.currentTarget.blur();
    act();
  };
  return el(
    "button",
    { type: "button", ...attributes, on: { click } },
    key ? el("kbd", {}, key) : "",
    key ? " " : "",
    words,
  );
}

// -- the page opens ------------------------------------------------------------------------------

find("tools").append(
  press("q", "Queries", showQueries),
  press("g", "Guidelines", showGuidelines),
  press("?", "Keys", showHelp),
  themeSwitch(),
);
find("eyebrow").textContent =
  `${resolving ? "Conflicts" : "Labelling"} · project ${info.name} · annotator ${session.annotator}`;
addEventListener("visibilitychange", () => {
  if (!document.hidden && state.view && !state.busy && !state.waiting && find("note-place").hidden)
    retry();
});

const unsent = localStorage.getItem(storageKey);
const first = await ask(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
if (first) draw(first);
else find("main").hidden = false;
if (unsent) {
  await send(JSON.parse(unsent), "the judgement stored in this browser");
}
