// Puts the history together from the data; every number on it stands there.

const data = await load();
const view = {
  dataset: data.datasets[0].name,
  slice: "all",
  metric: "",
  from: 0,
  night: data.nights.length - 1,
  chosen: new Set(),
};
const PERIODS = [30, 90, 365];
const linesNow = () => data.series.filter((one) => one.dataset === view.dataset);

/** Keep what was chosen where the dataset has it, else take the first. */
function settle() {
  const dataset = data.datasets.find(({ name }) => name === view.dataset);
  if (!dataset.slices.includes(view.slice)) view.slice = dataset.slices[0] ?? "all";
  if (!dataset.metrics.includes(view.metric)) view.metric = dataset.metrics[0] ?? "";
  const systems = new Set(linesNow().map((one) => one.system));
  for (const name of view.chosen) if (!systems.has(name)) view.chosen.delete(name);
  return dataset;
}

function head() {
  const first = data.nights[0],
    last = data.nights.at(-1);
  find("eyebrow").textContent = `Retrieval over time · harness ${data.harness}`;
  find("theme-place").append(themeSwitch());
  const many = data.nights.length > 1;
  const days = `${dateText(first.at).slice(0, 10)}${last.at - first.at >= 86400_000 ? ` to ${dateText(last.at).slice(0, 10)}` : ""}`;
  find("lede").textContent =
    `${count(data.nights.length)} night${many ? "s" : ""}, ${days}; ${count(data.datasets.length)} dataset${data.datasets.length > 1 ? "s" : ""}, ${count(data.series.length)} line${data.series.length > 1 ? "s" : ""}.`;
  find("footer").textContent =
    `Made by harness ${data.harness} from history.jsonl, which holds ids and numbers alone.${data.torn ? " Its last line was cut off and is left out." : ""} Numbers are computed there; this page draws them and loads nothing from a network.`;
}

function choices() {
  const dataset = settle();
  const change = (key, id, made = (value) => value) => (value) => {
    view[key] = made(value);
    update(id);
  };
  const periods = PERIODS.filter((nights) => nights < data.nights.length).map((nights) => [
    data.nights.length - nights,
    `last ${nights} nights`,
  ]);
  find("choices").replaceChildren(
    ...[
      data.datasets.length > 1 &&
        select(
          "Dataset",
          data.datasets.map(({ name }) => [name, name]),
          view.dataset,
          change("dataset", "dataset"),
          { id: "dataset" },
        ),
      select(
        "Metric",
        dataset.metrics.map((name) => [name, name]),
        view.metric,
        change("metric", "metric"),
        { id: "metric" },
      ),
      select(
        "Ability",
        dataset.slices.map((name) => [name, name === "all" ? "all questions" : name]),
        view.slice,
        change("slice", "slice"),
        { id: "slice" },
      ),
      periods.length > 0 &&
        select(
          "Period",
          [[0, "all nights"], ...periods.reverse()],
          view.from,
          change("from", "period", Number),
          { id: "period" },
        ),
    ].filter(Boolean),
  );
}

/** The buttons of the systems, which are the legend too. */
function systems() {
  const lines = linesNow();
  find("systems").replaceChildren(
    ...lines.map((one, place) =>
      el(
        "button",
        {
          type: "button",
          id: `system-${place}`,
          "aria-pressed": String(view.chosen.has(one.system)),
          on: {
            click: () => {
              if (!view.chosen.delete(one.system)) view.chosen.add(one.system);
              update(`system-${place}`);
            },
          },
        },
        stroke(place),
        one.system,
      ),
    ),
  );
}

function drawing() {
  const lines = linesNow();
  chart(
    find("lines-figure"),
    `${view.metric} of ${lines.length} systems on ${view.dataset} over time; the tables below hold the numbers`,
    (width) => historyChart(width, lines, { ...view, nights: data.nights }),
  );
  const banded = drawnOf(lines, view.slice, view.metric, view.chosen) <= BANDS;
  find("marks").textContent =
    `${banded ? "Bands and bars: 95% intervals." : "Choose up to three systems for their 95% intervals."} A gap with ×: failed. ≠: numbers do not compare with those before. Diamond: other settings or version. Tick at the foot: another commit. Upright line: the night below.`;
  const about = [...new Set(lines.map((one) => one.about).filter(Boolean))];
  find("about").textContent = about.length ? `${about.join(". ")}.` : "";
  numbers();
}

/** The table behind the drawing is made when it is opened: it may have thousands of cells. */
function numbers() {
  find("numbers-table").replaceChildren(
    ...(find("numbers").open
      ? [numbersTable(data, linesNow(), view.slice, view.metric, view.from)]
      : []),
  );
}

function night() {
  const found = data.nights[view.night];
  const last = view.night === data.nights.length - 1;
  find("night-title").textContent = last
    ? "The last night"
    : `The night of ${dateText(found.at)} UTC`;
  const short = found.ok + found.failed < found.of ? `; ${count(found.of)} were to be run` : "";
  find("night-said").textContent =
    `${dateText(found.at)} UTC: ${count(found.ok)} ok, ${count(found.failed)} failed${short}. Tested: ${count(found.tested.all)} over all questions, ${count(found.tested["by ability"])} by ability${found.told && `; ${found.told}`}.`;
  find("night-table").replaceChildren(nightTable(data, view.night, view.slice, view.metric));
}

/** The slider stays where it is while it is moved, so it is made once. */
function nightChoice() {
  if (data.nights.length < 2) return;
  const slider = el("input", {
    type: "range",
    id: "night-slider",
    min: 0,
    max: data.nights.length - 1,
    value: view.night,
    on: {
      input: () => {
        view.night = Number(slider.value);
        say();
        drawing();
        night();
      },
    },
  });
  const say = () =>
    slider.setAttribute("aria-valuetext", `${dateText(data.nights[view.night].at)} UTC`);
  say();
  find("night-choice").append(el("label", { class: "field night" }, "Night", slider));
}

function events() {
  const found = eventsOf(data, linesNow(), view.slice, view.metric);
  const left = found.length - EVENTS;
  find("events-how").textContent = found.length
    ? `On ${view.dataset}: failures, breaks, new settings, and changes of ${view.metric} that are shown.${left > 0 ? ` The newest ${EVENTS} of ${count(found.length)}.` : ""}`
    : `Nothing on ${view.dataset}: no failure, no break, no new settings, no change shown.`;
  find("events-table").replaceChildren(...(found.length ? [eventsTable(found, linesNow())] : []));
}

function update(focus) {
  choices();
  systems();
  drawing();
  night();
  events();
  if (focus) find(focus)?.focus();
}

head();
find("main").hidden = false;
nightChoice();
find("numbers").addEventListener("toggle", numbers);
update();
