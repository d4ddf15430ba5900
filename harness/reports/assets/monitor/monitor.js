// Draws the page, and asks its server for news.

import { count, many } from "../shared/numbers.js";
import { el, find, follow, live, load, reveal } from "../shared/page.js";
import { overTime } from "./over_time.js";
import { abilities, drift, feedback, tests, tiles, when } from "./window.js";

function render(data) {
  find("eyebrow").textContent = `${many(data.totals.requests, "request")} so far · times in UTC`;
  find("title").textContent = data.name;
  const window = data.window;
  find("lede").textContent =
    `The last ${count(window.n)} requests` +
    (window.start === null ? "" : `, ${when(window.start)} to ${when(window.end)}`) +
    (data.labels
      ? `; ${count(data.labels)} labelled queries.`
      : "; no labels: recall, precision and rank are unknown.");
  activeAlerts(data);
  find("tiles").replaceChildren(...tiles(data));
  find("abilities-table").replaceChildren(abilities(data));
  overTime(data);
  find("drift-facts").replaceChildren(...drift(data));
  find("feedback-facts").replaceChildren(...feedback(data));
  find("tests-table").replaceChildren(tests(data));
  find("history-list").replaceChildren(pastAlerts(data));
  find("footer").replaceChildren(
    ...data.notes.map((note) => el("p", {}, note)),
    el(
      "p",
      {},
      "No text of a query is kept or shown. ",
      el("a", { href: "metrics" }, "/metrics"),
      " has these numbers for Prometheus.",
    ),
  );
}

const alertTime = ({ time, request_number: number }) =>
  time === null ? `request ${count(number)}` : when(time);

function activeAlerts(data) {
  const made = data.alerts.map((alert) =>
    el(
      "p",
      { class: "alert" },
      el("strong", {}, "Alert: "),
      `${alert.message}. Since ${alertTime(alert)}.`,
    ),
  );
  const text = made.map((one) => one.textContent).join();
  const box = find("alerts");
  if (box.dataset.text === text && box.childElementCount) return; // announced once by a screen reader
  box.dataset.text = text;
  box.replaceChildren(...(made.length ? made : [el("p", { class: "calm" }, "No active alert.")]));
}

function pastAlerts(data) {
  if (!data.history.length) return el("p", { class: "note" }, "None so far.");
  return el(
    "ul",
    {},
    data.history.map((alert) => el("li", {}, `${alertTime(alert)}: ${alert.message}`)),
  );
}

const data = await load();
reveal(() => render(data));
if (live)
  follow(render, () => {
    if (document.querySelector(".stale")) return;
    const words = "The server does not answer. What is shown may be old.";
    find("footer").prepend(el("p", { class: "stale" }, words));
  });
