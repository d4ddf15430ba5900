// What stands beside the lines, as tables: the chosen night, all nights, and what happened.

const heading = (name, attributes = {}) => el("th", { scope: "col", ...attributes }, name);
/** A number, and its interval below it. */
const withInterval = (value, low, high, show) =>
  numeral(show(value), low === null ? "" : el("div", { class: "note" }, span(low, high, show)));
const numeral = (...words) => el("td", { class: "number" }, ...words);

/** A short stroke in the colour and dashes of a system. */
function stroke(place) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const set = (node, values) =>
    Object.entries(values).forEach(([name, value]) => value && node.setAttribute(name, value));
  set(svg, { width: "22", height: "10", "aria-hidden": "true" });
  set(line, { x1: "1", x2: "21", y1: "5", y2: "5", "stroke-width": "3" });
  set(line, { "stroke-dasharray": dashOf(place) });
  line.style.stroke = colourOf(place);
  svg.append(line);
  return svg;
}

/** Settings that changed, in words. */
const changedSaid = (changed) =>
  (changed ?? []).map(({ what, before, now }) => `${what} ${before} → ${now}`).join("; ");

/** One row of the chosen night; `at` is the place in the line, -1 where it was not run. */
function nightRow(one, at, slice, metric, words) {
  const name = el("th", { scope: "row" }, one.system);
  if (at < 0) return el("tr", {}, name, el("td", { colspan: 7 }, "not run"));
  const error = col(one.error, at);
  if (error)
    return el(
      "tr",
      {},
      name,
      el("td", { class: "word-failed" }, "failed"),
      el("td", { colspan: 6 }, error),
    );
  const failed = col(one.failed, at);
  const cells = one.cells[slice]?.[metric];
  const get = (key) => (cells ? col(cells[key], at) : null);
  const said = get("said"),
    p = get("p");
  const word = said === null ? "" : words[said];
  const breaks = col(one.breaks, at);
  return el(
    "tr",
    {},
    name,
    el("td", {}, failed ? `${count(failed)} of ${count(col(one.asked, at))} failed` : "ok"),
    withInterval(get("value"), get("low"), get("high"), plain),
    numeral(count(get("n"))),
    withInterval(get("difference"), get("from"), get("to"), signed),
    el(
      "td",
      { class: `words${["rose", "fell"].includes(word) ? ` word-${word}` : ""}` },
      breaks
        ? `not comparable: ${breaks.join("; ")}`
        : word || (col(one.since, at) ? NONE : "first time"),
      p === null
        ? ""
        : el("div", { class: "note" }, `p ${p < 0.0001 ? "<0.0001" : p.toFixed(4)}`),
    ),
    numeral(
      `${duration(col(one.index, at))} / ${duration(col(one.search, at))}`,
    ),
    el("td", { class: "words" }, changedSaid(col(one.changed, at))),
  );
}

/** Every system of every dataset in one night. */
function nightTable(data, night, slice, metric) {
  const names = ["System", "State", metric, "n", "Change", "What is shown"];
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      [...names, "Index / search", "New settings"].map((name, at) =>
        heading(name, { class: [2, 3, 4, 6].includes(at) ? "number" : null }),
      ),
    ),
  );
  const bodies = data.datasets.map(({ name }) => {
    const lines = data.series.filter((one) => one.dataset === name);
    return el(
      "tbody",
      {},
      el("tr", { class: "group" }, el("th", { scope: "rowgroup", colspan: 8 }, name)),
      lines.map((one) => nightRow(one, one.night.indexOf(night), slice, metric, data.said)),
    );
  });
  return el("table", {}, head, bodies);
}

/** The numbers of the lines: a row a night, newest first, a column a system. */
function numbersTable(data, lines, slice, metric, from) {
  const places = lines.map((one) => new Map(one.night.map((night, at) => [night, at])));
  const rows = data.nights
    .map((night, place) => ({ night, place }))
    .filter(({ place }) => place >= from)
    .reverse();
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heading("Night (UTC)"),
        lines.map((one) => heading(one.system, { class: "number" })),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map(({ night, place }) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, dateText(night.at)),
          lines.map((one, at) => {
            const found = places[at].get(place);
            if (found === undefined) return numeral(NONE);
            if (col(one.error, found)) return numeral("failed");
            const cells = one.cells[slice]?.[metric];
            return numeral(plain(cells ? col(cells.value, found) : null));
          }),
        ),
      ),
    ),
  );
}

/** Everything but unchanged numbers, newest first; what befell several systems at once is one. */
function eventsOf(data, lines, slice, metric) {
  const found = new Map();
  for (const one of lines)
    one.night.forEach((night, at) => {
      const add = (what, kind = "") => {
        const event = found.get(`${night} ${what}`) ?? { at: one.at[at], systems: [], what, kind };
        event.systems.push(one.system);
        found.set(`${night} ${what}`, event);
      };
      const error = col(one.error, at);
      if (error) add(`failed: ${error}`, "word-failed");
      const breaks = col(one.breaks, at);
      if (breaks) add(`not comparable with what was before: ${breaks.join("; ")}`);
      const changed = changedSaid(col(one.changed, at));
      if (changed) add(`new settings: ${changed}`);
      const cells = one.cells[slice]?.[metric];
      const word = cells ? data.said[col(cells.said, at) ?? -1] : undefined;
      if (word === "rose" || word === "fell")
        add(
          `${metric} ${word} to ${plain(col(cells.value, at))} (${signed(col(cells.difference, at))})`,
          `word-${word}`,
        );
    });
  return [...found.values()].sort((a, b) => b.at - a.at);
}

const EVENTS = 200; // rows from which on the oldest are left out, and said so

function eventsTable(events, lines) {
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ["When (UTC)", "System", "What"].map((name) => heading(name)))),
    el(
      "tbody",
      {},
      events
        .slice(0, EVENTS)
        .map(({ at, systems, what, kind }) =>
          el(
            "tr",
            {},
            el("td", { class: "number" }, dateText(at)),
            el(
              "td",
              { class: "systems-named" },
              systems.length === lines.length && systems.length > 1 ? "all" : systems.join(", "),
            ),
            el("td", { class: `words ${kind}` }, what),
          ),
        ),
    ),
  );
}
