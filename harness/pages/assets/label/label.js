// Shows one place and sends every key press; moves on when the server says that it is on the disk.

import { el, find, load, themeSwitch } from "../shared/page.js";
import { draw, drawHelp } from "./draw.js";

export const about = await load();
export const resolving = about.mode === "resolve";
const kept = `label:${about.whose.project}:${about.whose.annotator}:${about.mode}`;
export const state = { view: null, busy: false, waiting: null, lost: false };

const grade = (value) => about.grades.find((one) => one.grade === value);
export const said = (value) =>
  typeof value === "number"
    ? `${value} ${grade(value).name}`
    : value === true
      ? "cannot be answered"
      : value === false
        ? "can be answered"
        : value;
export const can = (choice) => state.view.choices?.includes(choice);
export const ids = ({ kind, query, document }) =>
  kind ? { kind, query, document } : { query, document };

// -- talking to the server ------------------------------------------------------------------------

/** The view of a place; null where the server does not answer. */
async function ask(place) {
  const named = Object.entries(place ?? {}).filter(([, value]) => value);
  try {
    const answer = await fetch(`view?${new URLSearchParams(named)}`);
    if (answer.ok) return await answer.json();
    tell(await answer.text(), true);
  } catch {
    lost();
  }
  return null;
}

/** Send a judgement until it is on the disk; kept in the browser meanwhile, over a closed tab too. */
async function send(body, words) {
  if (state.busy) return;
  state.busy = true;
  document.body.classList.add("busy");
  const whole = JSON.stringify({ ...body, whose: about.whose });
  localStorage.setItem(kept, whole);
  let view = null;
  try {
    const answer = await fetch("judge", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: whole,
    });
    if (answer.ok) {
      view = await answer.json();
      localStorage.removeItem(kept);
    } else if (answer.status === 507) {
      again(body, words, await answer.text());
    } else {
      localStorage.removeItem(kept);
      tell(await answer.text(), true);
    }
  } catch {
    again(body, words);
  }
  state.busy = false;
  document.body.classList.remove("busy");
  if (!view) return;
  state.waiting = null;
  found();
  draw(view);
  find("saved").textContent = words ? `Saved: ${words}` : "";
}

function again(body, words, why) {
  state.waiting = { body, words };
  lost(why);
}

const command =
  `harness label ${resolving ? "resolve" : "open"} ${about.folder} ` +
  `--annotator ${about.annotator} --port ${location.port}`;

function lost(why) {
  find("saved").textContent = "";
  if (!state.lost || why) {
    tell(
      why ?? "The server does not answer.",
      false,
      state.waiting
        ? `Your last judgement${state.waiting.words ? ` (${state.waiting.words})` : ""} is kept in ` +
            "this browser and is sent again every second. Everything before it is on the disk."
        : "Every judgement so far is on the disk. The page goes on as soon as it answers.",
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
  const view = await ask(state.view && ids(state.view));
  if (view) {
    found();
    draw(view);
  }
}

function found() {
  find("alert").hidden = true;
}

export function tell(words, reload, more, command) {
  const box = find("alert");
  box.className = "";
  box.replaceChildren(
    el("p", {}, words.trim()),
    more ? el("p", {}, more) : "",
    command ? el("p", {}, "Start it again with ", el("code", {}, command)) : "",
    reload
      ? el("button", { type: "button", on: { click: () => location.reload() } }, "Reload")
      : "",
  );
  box.hidden = false;
}

// -- what a key or a click does -------------------------------------------------------------------

function judge(value, words, go) {
  if (state.waiting || state.busy || !state.view.total) return;
  const place = ids(state.view);
  const line = { query: place.query, ...value };
  if ("grade" in value || ("note" in value && place.document)) line.document = place.document;
  send({ place, line, go }, words);
}

export function giveGrade(value) {
  if (can("grade")) judge({ grade: value }, said(value), "on");
}

export function giveAbility(name) {
  if (!can("ability")) return;
  const same = !resolving && state.view.ability === name;
  const words = same ? `no longer ${name}` : name;
  judge({ ability: same ? null : name }, words, resolving ? "on" : "stay");
}

/** n and y; the same key takes an annotator's own mark back. */
export function giveUnanswerable(value) {
  if (!can("unanswerable")) return;
  if (!value && !resolving && state.view.document && state.view.unanswerable === null) return;
  const same = !resolving && state.view.unanswerable === value;
  judge(
    { unanswerable: same ? null : value },
    same ? "mark taken back" : said(value),
    same ? "stay" : "on",
  );
}

export async function goTo(place) {
  if (state.busy || state.waiting) return;
  closeNote();
  const view = await ask(place);
  if (view) {
    found();
    draw(view);
    find("saved").textContent = "";
  }
}

export function undo() {
  if (!state.busy && !state.waiting && state.view.undoable)
    send({ place: ids(state.view), undo: true }, "taken back");
}

export function openNote() {
  if (!can("note")) return;
  find("note-place").hidden = false;
  find("note").value = state.view.note;
  find("note").focus();
}

function closeNote() {
  find("note-place").hidden = true;
  find("note").blur();
}

const KEYS = new Map([
  ["ArrowRight", () => goTo(state.view.next)],
  ["ArrowLeft", () => goTo(state.view.previous)],
  ["Backspace", () => goTo(state.view.previous)],
  ["s", () => goTo(state.view.then)],
  ["u", undo],
  ["n", () => giveUnanswerable(true)],
  ["y", () => giveUnanswerable(false)],
  ["e", openNote],
  ["?", () => find("help").showModal()],
]);
for (const { grade: value } of about.grades) KEYS.set(String(value), () => giveGrade(value));
for (const { key, name } of about.abilities) KEYS.set(key, () => giveAbility(name));

document.addEventListener("keydown", (event) => {
  if (event.target === find("note")) {
    if (event.key === "Escape") closeNote();
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      const note = find("note").value.trim();
      closeNote();
      if (note !== state.view.note) judge({ note }, "the note", "stay");
    }
    return;
  }
  // A key held down is one judgement, not a row of them.
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || find("help").open) return;
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

find("theme-place").append(themeSwitch());
find("eyebrow").textContent =
  `${resolving ? "Resolving conflicts in" : "Labelling"} ${about.name} as ${about.annotator}`;
drawHelp();
addEventListener("visibilitychange", () => {
  if (!document.hidden && state.view && !state.busy && !state.waiting && find("note-place").hidden)
    retry();
});

const unsent = localStorage.getItem(kept);
const first = await ask(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
if (first) draw(first);
else find("main").hidden = false;
if (unsent) {
  const { whose, ...body } = JSON.parse(unsent);
  await send(body, "what was waiting in this browser");
}
