// Other news from the server: unfinished runs, unreadable ones, a history.

import { count, many, moment } from "../shared/numbers.js";
import { el, fetches, find, posted, replace } from "../shared/page.js";
import { chosen } from "./data.js";

/** Links to the history, if the folder has one. */
export function linkHistory(there) {
  replace(
    find("links"),
    there && el("a", { id: "history-link", href: "history/" }, "Nightly history"),
  );
}

/** Hides a run: its folder stays as it is, and the address keeps the choice. */
const hideButton = (run) =>
  el(
    "button",
    {
      type: "button",
      id: `away-${run}`,
      "aria-label": `Hide ${run}`,
      on: { click: () => chosen.set({ away: [...chosen.away, run] }) },
    },
    "Hide",
  );

/** How many of these are hidden, and a button that shows them. */
const hiddenRuns = (runs, id) =>
  runs.length > 0 &&
  el(
    "p",
    { class: "note" },
    `${many(runs.length, "run")} hidden, not removed. `,
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

/** Shows runs that cannot be read, and why. */
export function broken(runs) {
  const names = Object.keys(runs);
  const away = names.filter((name) => chosen.away.includes(name));
  const left = names.filter((name) => !away.includes(name));
  const item = (name) =>
    el("li", { class: "broken" }, el("span", { class: "name" }, runs[name]), hideButton(name));
  replace(
    find("broken"),
    left.length > 0 &&
      el(
        "div",
        { class: "progress" },
        el("h2", {}, `${many(left.length, "run")} cannot be read`),
        el("ul", {}, left.map(item)),
      ),
    hiddenRuns(away, "broken-again"),
  );
}

/** Says that the data cannot be loaded, and what to do. */
export function silent() {
  replace(find("running"), el("p", { class: "progress" }, silence()));
  const drawn = find("table").hasChildNodes();
  for (const id of ["board", "footer"]) find(id).hidden = !drawn;
}

function silence() {
  if (!fetches) return "The server does not answer. The numbers may be out of date.";
  if (location.protocol !== "file:") return "The leaderboard cannot be loaded. Reload the page.";
  return [
    "Browsers do not let a page on disk load its data. Run ",
    el("code", {}, "python -m http.server"),
    " in this folder and open http://localhost:8000.",
  ];
}

let shown = [];
let asked = null; // the run whose removal is to be confirmed
let refused = ""; // the server's answer to a removal

/** Shows unfinished runs with their progress, and buttons to hide or remove those that stopped. */
export function unfinished(runs = shown) {
  shown = runs;
  // A hidden run that continues is shown again.
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
    hiddenRuns(
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

/** The buttons of a run that stopped. */
const dead = (run) => el("span", { class: "dead" }, hideButton(run.run), remove(run));

function far({ state, reason, done, queries, failed, idle_seconds: idle }) {
  if (state === "broken") return `broken: ${reason}`;
  const at = `${count(done)} of ${count(queries)}`;
  if (state === "failed") return `failed: ${count(failed)} of ${count(queries)} queries`;
  return [
    `${state} at ${at}`,
    failed && `${count(failed)} failed`,
    state === "running" && idle > 60 && `last result ${count(Math.round(idle / 60))} min ago`,
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

/** The button, and after it the question: nothing is removed without confirmation. */
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
    { class: "asked", role: "group", "aria-label": `Remove the unfinished run ${name}?` },
    el(
      "span",
      {},
      `Remove this unfinished run${done ? ` and the results of ${count(done)} queries` : ""}? To continue it instead, repeat its command with --resume.`,
    ),
    button("keep", "Keep it", ask(null)),
    button("gone", "Remove it", go),
  );
}
