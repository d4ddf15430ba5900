// Puts the history together from the data; every number on it stands there.

import { choices } from "../shared/address.js";
import { chart } from "../shared/charts.js";
import { count, many, moment } from "../shared/numbers.js";
import { el, find, load, replace, reveal, select } from "../shared/page.js";
import { BANDS, drawnOf, historyChart } from "./history_chart.js";
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

/** What is chosen, as far as there is such a thing. */
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
  find("eyebrow").textContent = `Retrieval over time · harness ${data.harness} · times in UTC`;
  find("lede").textContent =
    `${many(nights.length, "night")}, ${from === to ? from : `${from} to ${to}`}; ${many(datasets.length, "dataset")}, ${many(data.series.length, "line")}.`;
  find("footer").textContent =
    `Made by harness ${data.harness} from history.jsonl, which holds ids and numbers alone.${data.torn ? " Its last line was cut off and is left out." : ""} Numbers are computed there; this page draws them and loads nothing from a network.`;
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

/** The buttons of the systems, which are the legend too. */
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
    `${metric} of ${many(lines.length, "system")} on ${now.dataset.name} over time; the tables below hold the numbers`,
    (width) => historyChart(width, lines, { ...now, nights }),
  );
  const banded = drawnOf(lines, slice, metric, now.chosen) <= BANDS;
  find("marks").textContent =
    `${banded ? "Bands and bars: 95% intervals." : "Choose up to three systems for their 95% intervals."} A gap with ×: failed. ≠: numbers do not compare with those before. ▼: dropped by more than max_drop; hollow: inconclusive. Diamond: other settings or version. Tick at the foot: another commit. Upright line: the night below.`;
  const about = [...new Set(lines.map((one) => one.about).filter(Boolean))];
  find("about").textContent = about.length ? `${about.join(". ")}.` : "";
  numbers();
}

/** The table behind the drawing is made when it is opened: it may have thousands of cells. */
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
  const short = found.ok + found.failed < found.runs ? `; ${count(found.runs)} were to be run` : "";
  find("night-said").textContent =
    `${when}: ${count(found.ok)} ok, ${count(found.failed)} failed${short}. Tested: ${count(found.tested)} over all queries${found.messages && `; ${found.messages}`}.`;
  find("night-table").replaceChildren(nightTable(data, place, slice, metric));
}

/** The slider stays where it is while it is moved, so it is made once. */
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
    ? `On ${dataset.name}: failures, drops by more than max_drop, breaks, new settings, and changes of ${metric} that are shown.${left > 0 ? ` The newest ${EVENTS} of ${count(found.length)}.` : ""}`
    : `Nothing on ${dataset.name}: no failure, no break, no new settings, no change shown.`;
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
