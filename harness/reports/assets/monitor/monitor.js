// Draws the page, and polls its server.

import { count, many, moment } from "../shared/numbers.js";
import { el, find, follow, live, load, reveal } from "../shared/page.js";
import { overTime } from "./over_time.js";
import { abilities, drift, feedback, tests, tiles } from "./window.js";

const RECENT = 5; // past alerts that are shown at first

function render(data) {
  find("eyebrow").textContent = `Monitor · ${many(data.totals.requests, "request")} · times in UTC`;
  find("title").textContent = data.name;
  const window = data.window;
  find("lede").textContent = data.labels
    ? `Scored against ${count(data.labels)} labelled queries.`
    : "No labels: recall, precision and rank are unknown.";
  find("window-title").textContent = `Last ${many(window.n, "request")}`;
  if (window.start !== null)
    find("window-title").append(
      el("span", { class: "note" }, `${minute(window.start)} to ${minute(window.end)}`),
    );
  status(data);
  alerts(data);
  find("tiles").replaceChildren(...tiles(data));
  find("abilities-table").replaceChildren(abilities(data));
  overTime(data);
  find("drift-facts").replaceChildren(...drift(data));
  find("feedback-facts").replaceChildren(...feedback(data));
  find("tests-table").replaceChildren(tests(data));
  find("footer").replaceChildren(
    ...data.notes.map((note) => el("p", {}, note)),
    el(
      "p",
      {},
      "Query texts are neither stored nor shown. Prometheus reads these numbers at ",
      el("a", { href: "metrics" }, "/metrics"),
      ".",
    ),
  );
}

/** One line, announced by a screen reader only when it changes. */
function status(data) {
  const rules = data.alerts.map(({ rule }) => rule);
  const text = rules.length
    ? `${many(rules.length, "active alert")}: ${rules.join(" · ")}`
    : "No active alert";
  const box = find("status");
  if (box.textContent === text) return;
  box.className = rules.length ? "firing" : "calm";
  box.textContent = text;
}

const minute = (time) => moment(time * 1000);

const alertTime = ({ time, request_number: number }) =>
  time === null ? `request ${count(number)}` : minute(time);

const same = (a, b) => a.rule === b.rule && a.episode === b.episode && a.state === b.state;

function alerts(data) {
  const active = data.alerts.map((alert) =>
    el(
      "p",
      { class: "alert" },
      `${alert.message}. `,
      el("span", { class: "note" }, `Since ${alertTime(alert)}.`),
    ),
  );
  const past = data.history
    .filter((one) => !data.alerts.some((alert) => same(alert, one)))
    .map((alert) =>
      el("li", {}, el("span", { class: "note" }, alertTime(alert)), ` ${alert.message}`),
    );
  const recent = past.slice(0, RECENT);
  const older = past.slice(RECENT);
  const open = find("alert-list").querySelector("details")?.open;
  find("alert-list").replaceChildren(
    ...active,
    ...(active.length || past.length ? [] : [el("p", { class: "note" }, "None so far.")]),
    ...(past.length ? [el("h3", {}, "Past alerts"), el("ul", {}, recent)] : []),
    ...(older.length
      ? [
          el(
            "details",
            { class: "numbers", open },
            el("summary", {}, `${count(older.length)} older`),
            el("ul", {}, older),
          ),
        ]
      : []),
  );
}

const data = await load();
if (innerWidth > 640) for (const part of document.querySelectorAll(".part")) part.open = true;
reveal(() => render(data));
if (live)
  follow(render, () => {
    if (document.querySelector(".stale")) return;
    const words = "The server does not answer. The numbers may be out of date.";
    find("status").after(el("p", { class: "stale" }, words));
  });
