// What the server tells of beside the boards: unfinished runs, broken ones, a history.

import { count, many, moment } from "../shared/numbers.js";
import { el, fetches, find, posted, replace } from "../shared/page.js";
import { chosen } from "./data.js";

/** A link to the lines over time, once there is a history in the folder. */
export function linkHistory(there) {
  replace(
    find("links"),
    there && el("a", { id: "history-link", href: "history/" }, "Nightly history"),
  );
}

/** Put a run out of sight: its folder stays as it is, and the address keeps the choice. */
const putAway = (run) =>
  el(
    "button",
    {
      type: "button",
      id: `away-${run}`,
      "aria-label": `Put ${run} away`,
      on: { click: () => chosen.set({ away: [...chosen.away, run] }) },
    },
    "Put away",
  );

/** How many of these are put away, and the way to see them again. */
const awaySaid = (runs, id) =>
  runs.length > 0 &&
  el(
    "p",
    { class: "note" },
    `${many(runs.length, "run")} put away, not removed. `,
    el(
      "button",
      {
        type: "button",
        class: "link",
        id,
        on: { click: () => chosen.set({ away: chosen.away.filter((one) => !runs.includes(one)) }) },
      },
      "Show again",
    ),
  );

/** Runs that cannot be read, and why. */
export function broken(runs) {
  const names = Object.keys(runs);
  const away = names.filter((name) => chosen.away.includes(name));
  const left = names.filter((name) => !away.includes(name));
  const one = left.length === 1;
  const item = (name) =>
    el("li", { class: "broken" }, el("span", { class: "name" }, runs[name]), putAway(name));
  replace(
    find("broken"),
    left.length > 0 &&
      el(
        "div",
        { class: "progress" },
        el(
          "h2",
          {},
          `${many(left.length, "run")} cannot be read, and ${one ? "is" : "are"} on no board`,
        ),
        el("ul", {}, left.map(item)),
      ),
    awaySaid(away, "broken-again"),
  );
}

/** Say that what the page asked for cannot be had, and what to do about it. */
export function silent() {
  replace(find("running"), el("p", { class: "progress" }, silence()));
  const drawn = find("table").hasChildNodes();
  for (const id of ["board", "footer"]) find(id).hidden = !drawn;
}

function silence() {
  if (!fetches) return "The server does not answer. What is shown may be old.";
  if (location.protocol !== "file:")
    return "The board cannot be fetched from where this page came from; load the page again.";
  return [
    "No browser lets a page from the disk fetch its boards. ",
    el("code", {}, "python -m http.server"),
    " in this folder shows them at http://localhost:8000.",
  ];
}

let shown = [];
let asked = null; // the run of which it is asked whether to remove it
let refused = ""; // what the server said to that

/** Runs that are not at their end, how far they are, and a way to be rid of those that stopped. */
export function unfinished(runs = shown) {
  shown = runs;
  // What goes on again is in sight again.
  const away = runs.filter(({ run, state }) => state !== "running" && chosen.away.includes(run));
  const left = runs.filter((one) => !away.includes(one));
  replace(
    find("running"),
    left.length > 0 &&
      el(
        "div",
        { class: "progress" },
        el("h2", {}, "Unfinished runs"),
        el("ul", {}, left.map(item)),
      ),
    awaySaid(
      away.map(({ run }) => run),
      "unfinished-again",
    ),
    refused && el("p", { class: "progress refused", role: "alert" }, refused),
  );
}

const item = (run) =>
  el(
    "li",
    {},
    el(
      "span",
      { class: "name" },
      el("strong", {}, run.name),
      run.about && ` on ${run.about}`,
      el("span", { class: "small" }, `${run.run}, started ${moment(run.started)} UTC`),
    ),
    el("progress", {
      max: run.queries || 1,
      value: run.done,
      "aria-label": `queries of ${run.name}`,
    }),
    el("span", { class: "state" }, far(run)),
    run.state !== "running" && (asked === run.run ? remove(run) : dead(run)),
  );

/** What can be done with a run that does not go on. */
const dead = (run) => el("span", { class: "dead" }, putAway(run.run), remove(run));

function far({ state, reason, done, queries, failed, idle_seconds: idle }) {
  if (state === "broken") return `broken: ${reason}`;
  const at = `${count(done)} of ${count(queries)}`;
  if (state === "failed") return `failed: ${count(failed)} of ${count(queries)} queries`;
  return [
    `${state} at ${at}`,
    failed && `${count(failed)} failed`,
    state === "running" && idle > 60 && `last answer ${count(Math.round(idle / 60))} min ago`,
  ]
    .filter(Boolean)
    .join(", ");
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || asked === null) return;
  const button = `remove-${asked}`;
  asked = null;
  unfinished(shown);
  find(button)?.focus();
});

/** The button, and after it the question; nothing is removed unasked. */
function remove({ run, name, done }) {
  const button = (id, words, click) =>
    el("button", { type: "button", id: `${id}-${run}`, on: { click } }, words);
  const ask = (of) => () => {
    asked = of;
    refused = "";
    unfinished(shown);
    find(of ? `keep-${run}` : `remove-${run}`)?.focus();
  };
  if (asked !== run) return button("remove", "Remove…", ask(run));
  const go = async () => {
    asked = null;
    const answer = await posted("clear", { run });
    refused = answer.refused ?? "";
    unfinished(answer.unfinished ?? shown);
  };
  return el(
    "div",
    { class: "asked", role: "group", "aria-label": `Remove what ${name} left?` },
    el(
      "span",
      {},
      `Remove for good what it left${done ? `, ${many(done, "answer")} among it` : ""}? The command that began it goes on with --resume instead.`,
    ),
    button("keep", "Keep it", ask(null)),
    button("gone", "Remove it", go),
  );
}
