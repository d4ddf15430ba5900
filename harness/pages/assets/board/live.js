// What the server tells of beside the boards: unfinished runs, a history.

import { count } from "../shared/numbers.js";
import { el, find, replace } from "../shared/page.js";

/** A link to the lines over time, once there is a history in the folder. */
export function linkHistory(there) {
  if (!there || find("history-link")) return;
  const link = el("a", { id: "history-link", href: "history/" }, "Nightly history");
  find("lede").after(el("p", {}, link));
}

/** Runs that are not at their end, and how far they are. */
export function running(runs) {
  const said = ({ done, queries, failed, idle_seconds: idle }) =>
    [
      `${count(done)} of ${count(queries)}`,
      failed && `${count(failed)} failed`,
      idle > 60 && `last answer ${Math.round(idle / 60)} min ago`,
    ]
      .filter(Boolean)
      .join(", ");
  const item = (run) =>
    el(
      "li",
      {},
      el("span", { class: "name" }, run.name),
      el("progress", {
        max: run.queries,
        value: run.done,
        "aria-label": `queries of ${run.name}`,
      }),
      el("span", { class: "number" }, said(run)),
    );
  replace(
    find("running"),
    runs.length > 0 &&
      el(
        "div",
        { class: "progress" },
        el("h2", {}, "Unfinished runs"),
        el("ul", {}, runs.map(item)),
      ),
  );
}
