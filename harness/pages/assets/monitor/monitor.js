// Draws the page, and asks its server for news.

const EVERY = 2000; // milliseconds

function render(data) {
  find("eyebrow").textContent = `${count(data.totals.recalls)} recalls so far`;
  find("title").textContent = data.name;
  const window = data.window;
  find("lede").textContent =
    `The last ${count(window.n)} recalls` +
    (window.from === null ? "" : `, ${moment(window.from)} to ${moment(window.to)}`) +
    (data.labels
      ? `; ${count(data.labels)} labelled queries.`
      : "; no labels, so nothing is known of recall, precision and rank.");
  alarms(data);
  find("tiles").replaceChildren(...tiles(data));
  find("abilities-table").replaceChildren(abilities(data));
  const focused = document.activeElement?.id === "time-select";
  overTime(data);
  if (focused) find("time-select").focus();
  find("drift-facts").replaceChildren(...drift(data));
  find("feedback-facts").replaceChildren(...feedback(data));
  find("tests-table").replaceChildren(tests(data));
  find("history-list").replaceChildren(history(data));
  find("footer").replaceChildren(
    ...data.notes.map((note) => el("p", {}, note)),
    el("p", {}, "No text of a query is kept or shown. /metrics has these numbers for Prometheus."),
  );
}

function alarms(data) {
  const made = data.alerts.map((alert) =>
    el(
      "p",
      { class: "alarm" },
      el("strong", {}, "Alarm: "),
      `${alert.said}. Since ${alert.time === null ? `recall ${count(alert.recall)}` : moment(alert.time)}.`,
    ),
  );
  const text = made.map((one) => one.textContent).join();
  const box = find("alarms");
  if (box.dataset.text === text && box.childElementCount) return; // said once to a screen reader
  box.dataset.text = text;
  box.replaceChildren(...(made.length ? made : [el("p", { class: "calm" }, "No alarm stands.")]));
}

function history(data) {
  if (!data.history.length) return el("p", { class: "note" }, "Nothing so far.");
  return el(
    "ul",
    {},
    data.history.map((alert) =>
      el(
        "li",
        {},
        `${alert.time === null ? `recall ${count(alert.recall)}` : moment(alert.time)}: ${alert.said}`,
      ),
    ),
  );
}

let data = await load();
let answered = true;
find("theme-place").append(themeSwitch(() => draw(data)));
render(data);
find("main").hidden = false;

async function follow() {
  try {
    data = await (await fetch("state.json", { cache: "no-store" })).json();
    render(data);
    answered = true;
  } catch {
    if (answered)
      find("footer").prepend(
        el("p", { class: "stale" }, "The server does not answer. What is shown may be old."),
      );
    answered = false;
  }
  setTimeout(follow, EVERY);
}

if (document.body.dataset.live === "yes") setTimeout(follow, EVERY);
