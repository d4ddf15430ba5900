// The tables: the chosen night, all nights, and events.

import { count, duration, moment, NONE, plain, pValue, signed, span } from "../shared/numbers.js";
import { el, svg } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { col, colourOf, dashOf } from "./history_chart.js";

/** A short stroke in the colour and dashes of a system. */
export function stroke(place) {
  const drawing = svg("svg", { width: 22, height: 10, "aria-hidden": "true" });
  const line = {
    x1: 1,
    x2: 21,
    y1: 5,
    y2: 5,
    "stroke-width": 3,
    "stroke-dasharray": dashOf(place),
  };
  drawing.append(svg("line", { ...line, style: `stroke: ${colourOf(place)}` }));
  return drawing;
}

/** Settings that changed, in words. */
const changedSaid = (changed) =>
  (changed ?? []).map(({ setting, before, now }) => `${setting} ${before} → ${now}`).join("; ");

/** All systems on all datasets in one night. */
export function nightTable({ series, verdicts }, night, slice, metric) {
  const rows = series.map((one) => {
    const at = one.night.indexOf(night);
    return { one, at, error: at < 0 ? null : col(one.error, at) };
  });
  /** The cell of a row that ran, else none: its first cells span the others. */
  const ran = (cell) => (row) => (row.at < 0 || row.error ? false : cell(row));
  const get = ({ one, at }, key) => {
    const cells = one.results[slice]?.[metric];
    return cells ? col(cells[key], at) : null;
  };
  const withInterval = (value, low, high, show) => [
    show(value),
    low === null ? "" : el("div", { class: "note" }, span(low, high, show)),
  ];
  const state = ({ one, at, error }) => {
    if (at < 0) return el("td", { colspan: 7 }, "not run");
    if (error) return el("td", { class: "word-failed" }, "failed");
    const failed = col(one.failed, at);
    return failed ? `${count(failed)} of ${count(col(one.asked, at))} failed` : "ok";
  };
  const shown = (row) => {
    const { one, at } = row;
    const breaks = col(one.breaks, at);
    const place = get(row, "verdict");
    const word = place === null ? "" : verdicts[place];
    const p = get(row, "p");
    const drop = get(row, "drop");
    return el(
      "td",
      { class: `words${["rose", "fell"].includes(word) ? ` word-${word}` : ""}` },
      drop && el("div", { class: "word-fell" }, `▼ ${drop}`),
      breaks
        ? `not comparable: ${breaks.join("; ")}`
        : word || (col(one.since, at) ? NONE : "first time"),
      p !== null && el("div", { class: "note" }, `p ${pValue(p)}`),
    );
  };
  const columns = [
    { head: "System", cell: ({ one }) => one.system },
    { head: "State", cell: state },
    {
      head: metric,
      number: true,
      cell: (row) =>
        row.error
          ? el("td", { colspan: 6 }, row.error)
          : ran(() => withInterval(get(row, "value"), get(row, "low"), get(row, "high"), plain))(
              row,
            ),
    },
    { head: "n", number: true, cell: ran((row) => count(get(row, "n"))) },
    {
      head: "Change",
      title: "difference to the last complete run on the same queries, with its 95% interval",
      number: true,
      cell: ran((row) =>
        withInterval(
          get(row, "difference"),
          get(row, "difference_low"),
          get(row, "difference_high"),
          signed,
        ),
      ),
    },
    { head: "Result", cell: ran(shown) },
    {
      head: "Index / search",
      title: "time to index the documents, and per query",
      number: true,
      cell: ran(
        ({ one, at }) => `${duration(col(one.index_ms, at))} / ${duration(col(one.search_ms, at))}`,
      ),
    },
    {
      head: "New settings",
      kind: "words",
      cell: ran(({ one, at }) => changedSaid(col(one.changed, at))),
    },
  ];
  return table(columns, rows, { class: "cards", group: ({ one }) => one.dataset });
}

/** The values of the chart: a row per night, newest first, and a column per system. */
export function numbersTable({ nights }, lines, slice, metric, from) {
  const ofLine = (one) => {
    const places = new Map(one.night.map((night, at) => [night, at]));
    const value = (place) => {
      const at = places.get(place);
      if (at === undefined) return NONE;
      const cells = one.results[slice]?.[metric];
      return col(one.error, at) ? "failed" : plain(cells ? col(cells.value, at) : null);
    };
    return { head: one.system, number: true, cell: value };
  };
  return table(
    [{ head: "Night", cell: (place) => moment(nights[place].at) }, ...lines.map(ofLine)],
    [...nights.keys()].slice(from).reverse(),
  );
}

/** All events, newest first; the same event of several systems at once is one. */
export function eventsOf(data, lines, slice, metric) {
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
      if (breaks) add(`not comparable with earlier nights: ${breaks.join("; ")}`);
      const changed = changedSaid(col(one.changed, at));
      if (changed) add(`new settings: ${changed}`);
      // A list can fail by any of its main metrics, not only by the shown one.
      for (const [name, held] of Object.entries(one.results.all ?? {})) {
        const drop = col(held.drop, at);
        if (drop) {
          const change = `${plain(col(held.value, at))} (${signed(col(held.difference, at))})`;
          add(`▼ ${name}, to ${change}: ${drop}`, "word-fell");
        }
      }
      const cells = one.results[slice]?.[metric];
      const word = cells ? data.verdicts[col(cells.verdict, at) ?? -1] : undefined;
      const told = slice === "all" && col(cells?.drop, at); // above
      if (!told && (word === "rose" || word === "fell"))
        add(
          `${metric} ${word} to ${plain(col(cells.value, at))} (${signed(col(cells.difference, at))})`,
          `word-${word}`,
        );
    });
  return [...found.values()].sort((a, b) => b.at - a.at);
}

export const EVENTS = 200; // rows; older events are not shown, and the page says so

export function eventsTable(events, lines) {
  const all = ({ systems }) => systems.length === lines.length && systems.length > 1;
  return table(
    [
      { head: "When", cell: ({ at }) => el("td", { class: "number" }, moment(at)) },
      {
        head: "System",
        kind: "systems-named",
        cell: (event) => (all(event) ? "all" : event.systems.join(", ")),
      },
      {
        head: "What",
        cell: ({ what, kind }) => el("td", { class: `words ${kind}` }, what),
      },
    ],
    events.slice(0, EVENTS),
    { class: "cards" },
  );
}
