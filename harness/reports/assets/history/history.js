// The page of a history; all numbers are in its data.

import { choices } from "../shared/address.js";
import { chart } from "../shared/charts.js";
import { count, many, moment } from "../shared/numbers.js";
import { el, find, load, replace, reveal, select } from "../shared/page.js";
import { BANDS, col, drawnOf, historyChart } from "./history_chart.js";
import {
  EVENTS,
  eventsOf,
  eventsTable,
  nightTable,
  numbersTable,
  stroke,
} from "./history_tables.js";

const data = await load();
const { nights, datasets } = data;
const PERIODS = [30, 90, 365];
const chosen = choices({
  dataset: datasets[0].name,
  metric: "",
  ability: "all",
  last: 0, // nights; 0 for all
  night: "", // when it ended; "" for the last
  system: [],
});

/** What is chosen, or what stands in for it. */
function view() {
  const dataset = datasets.find(({ name }) => name === chosen.dataset) ?? datasets[0];
  const known = (wanted, all) => (all.includes(wanted) ? wanted : (all[0] ?? ""));
  const lines = data.series.filter((one) => one.dataset === dataset.name);
  const named = nights.findIndex(({ at }) => moment(at, "second") === chosen.night);
  return {
    dataset,
    lines,
    metric: known(chosen.metric, dataset.metrics),
    slice: known(chosen.ability, dataset.slices) || "all",
    from: chosen.last ? Math.max(0, nights.length - chosen.last) : 0,
    night: named < 0 ? nights.length - 1 : named,
    chosen: new Set(
      lines.map(({ system }) => system).filter((name) => chosen.system.includes(name)),
    ),
  };
}

function head() {
  const [from, to] = [nights[0], nights.at(-1)].map(({ at }) => moment(at, "day"));
  find("eyebrow").textContent = `harness ${data.harness} · times in UTC`;
  const found = verdict();
  find("verdict").textContent = found.words;
  find("verdict").classList.toggle("word-fell", found.bad);
  find("lede").textContent =
    `${many(nights.length, "night")}, ${from === to ? from : `${from} to ${to}`}; ${many(datasets.length, "dataset")}, ${many(data.series.length, "system")} in all.`;
  find("footer").textContent =
    `Made from history.jsonl, which contains ids and numbers only.${data.torn ? " Its last line is incomplete and was ignored." : ""} The page loads nothing from a network.`;
}

/** The result of the last night in one sentence, and whether anything failed or fell. */
function verdict() {
  const place = nights.length - 1;
  const { at, runs, ok, failed, messages } = nights[place];
  const ran = failed
    ? `${count(failed)} of ${many(runs, "run")} failed`
    : `${count(ok)} of ${many(runs, "run")} finished`;
  const fell = data.series.some((one) => {
    const cells = Object.values(one.results.all ?? {});
    const now = one.night.indexOf(place);
    return (
      now >= 0 &&
      cells.some(
        (cell) =>
          col(cell.drop, now)?.startsWith("fail") ||
          data.verdicts[col(cell.verdict, now)] === "fell",
      )
    );
  });
  return {
    words: `Last night (${moment(at, "day")}): ${ran}${messages && `; ${messages}`}.`,
    bad: failed > 0 || fell,
  };
}

function controls() {
  const { dataset, metric, slice } = view();
  const one = (label, name, id, options, value, as = String) =>
    select(label, options, value, (next) => chosen.set({ [name]: as(next) }), { id });
  const names = datasets.map(({ name }) => name);
  const slices = dataset.slices.map((name) => [name, name === "all" ? "all queries" : name]);
  const periods = PERIODS.filter((n) => n < nights.length).map((n) => [n, `last ${n} nights`]);
  replace(
    find("choices"),
    names.length > 1 && one("Dataset", "dataset", "dataset", names, dataset.name),
    one("Metric", "metric", "metric", dataset.metrics, metric),
    one("Ability", "ability", "slice", slices, slice),
    periods.length > 0 &&
      one(
        "Period",
        "last",
        "period",
        [[0, "all nights"], ...periods.reverse()],
        chosen.last,
        Number,
      ),
  );
}

/** The buttons of the systems, which are also the legend. */
function systems() {
  const { lines, chosen: pressed } = view();
  const button = ({ system }, place) => {
    const click = () => {
      const others = [...pressed].filter((name) => name !== system);
      chosen.set({ system: pressed.has(system) ? others : [...others, system] });
    };
    const about = { id: `system-${place}`, "aria-pressed": String(pressed.has(system)) };
    return el("button", { type: "button", ...about, on: { click } }, stroke(place), system);
  };
  replace(find("systems"), lines.map(button));
}

function drawing() {
  const now = view();
  const { lines, slice, metric } = now;
  chart(
    find("lines-figure"),
    `${metric} of ${many(lines.length, "system")} on ${now.dataset.name} over time; the numbers are in the tables below`,
    (width) => historyChart(width, lines, { ...now, nights }),
  );
  const banded = drawnOf(lines, slice, metric, now.chosen) <= BANDS;
  const has = (what) => lines.some((one) => one.night.some((_, at) => what(one, at)));
  const drop = ({ results }, at) =>
    Object.values(results).some((metrics) =>
      Object.values(metrics).some((cells) => col(cells.drop, at)),
    );
  const settings = (one, at) => (col(one.changed, at) ?? []).map(({ setting }) => setting);
  find("marks").textContent = [
    banded ? "Bands and bars: 95% intervals." : "Choose up to three systems to see 95% intervals.",
    has((one, at) => col(one.error, at)) && "×: failed.",
    has((one, at) => col(one.breaks, at)) && "≠: not comparable with earlier nights.",
    has(drop) && "▼: dropped by more than max_drop; hollow: inconclusive.",
    has((one, at) => settings(one, at).some((name) => name !== "git commit")) &&
      "Diamond: new settings or version.",
    has((one, at) => settings(one, at).includes("git commit")) && "Tick on the axis: new commit.",
    nights.length > 1 && "Vertical line: the night in the table below.",
  ]
    .filter(Boolean)
    .join(" ");
  const about = [...new Set(lines.map((one) => one.about).filter(Boolean))];
  find("about").textContent = about.length ? `${about.join(". ")}.` : "";
  numbers();
}

/** Made when it is opened, because it may have thousands of cells. */
function numbers() {
  const { lines, slice, metric, from } = view();
  replace(
    find("numbers-table"),
    find("numbers").open && numbersTable(data, lines, slice, metric, from),
  );
}

function night() {
  const { night: place, slice, metric } = view();
  const found = nights[place];
  const when = moment(found.at);
  const last = place === nights.length - 1;
  slider.value = place;
  slider.setAttribute("aria-valuetext", when);
  find("night-title").textContent = last ? "The last night" : `The night of ${when}`;
  const short = found.ok + found.failed < found.runs ? ` of ${count(found.runs)} planned` : "";
  find("night-said").textContent =
    `${when}: ${count(found.ok)} ok, ${count(found.failed)} failed${short}${found.messages && `; ${found.messages}`}.`;
  find("night-table").replaceChildren(nightTable(data, place, slice, metric));
}

/** Made once, so that it keeps the focus while it is moved. */
const slider = el("input", {
  type: "range",
  id: "night-slider",
  min: 0,
  max: nights.length - 1,
  on: {
    input: () => {
      const at = Number(slider.value);
      chosen.move({ night: at === nights.length - 1 ? "" : moment(nights[at].at, "second") });
    },
  },
});

function events() {
  const { dataset, lines, slice, metric } = view();
  const found = eventsOf(data, lines, slice, metric);
  const left = found.length - EVENTS;
  find("events-how").textContent = found.length
    ? `On ${dataset.name}: failures, drops by more than max_drop, results that are not comparable, new settings, and significant changes of ${metric}.${left > 0 ? ` The newest ${EVENTS} of ${count(found.length)}.` : ""}`
    : `None on ${dataset.name}: no failure, no new settings, no significant change.`;
  replace(find("events-table"), found.length > 0 && eventsTable(found, lines));
}

function draw(names) {
  drawing();
  night();
  if (names?.size === 1 && names.has("night")) return;
  controls();
  systems();
  events();
}

head();
if (nights.length > 1)
  find("night-choice").append(el("label", { class: "field night" }, "Night", slider));
find("numbers").addEventListener("toggle", numbers);
chosen.watch(draw);
reveal(draw);
