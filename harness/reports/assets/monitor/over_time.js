// One number by hour or day.

import { choices } from "../shared/address.js";
import { COLOURS, calendar, chart, floor, plot, roundTimes, upright } from "../shared/charts.js";
import { count, plain } from "../shared/numbers.js";
import { find, replace, select } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { milliseconds, when } from "./window.js";

const chosen = choices({ show: "" });

function offered(data) {
  return [
    ...(data.labels ? data.metrics.map((m) => [m, m]) : []),
    ["no_result", "no result"],
    ["abstained", "abstained"],
    ["failed", "failed"],
    ["p95", "p95 of time"],
    ["p50", "p50 of time"],
    ["click_rate", "requests with a click"],
    ["rating", "mean rating"],
    ["n", "requests"],
  ];
}

const OVER = { no_result: "known", click_rate: "watched", rating: "rated" };
const TIMES = ["p50", "p95"];

function series(data, name) {
  const metric = data.metrics.includes(name);
  return data.over_time.rows.map((row) => ({
    at: new Date(row.start * 1000),
    value: metric ? row.metrics[name] : name === "n" ? row.counts.n : row[name],
    n: metric ? row.counts.scored : row.counts[OVER[name] ?? "n"],
  }));
}

const said = (name, value) =>
  name === "n" ? count(value) : TIMES.includes(name) ? milliseconds(value) : plain(value);

export function overTime(data) {
  const own = offered(data);
  const [name, label] = own.find(([value]) => value === chosen.show) ?? own[0];
  const rows = series(data, name);
  const { bucket, ...later } = data.over_time;
  const left = [
    later.dropped && `${count(later.dropped)} older ones were dropped`,
    later.late && `${count(later.late)} requests came too late for theirs`,
    later.without_time && `${count(later.without_time)} requests have no time`,
    later.in_the_future && `${count(later.in_the_future)} requests are dated more than a day ahead`,
  ].filter(Boolean);
  find("time-how").textContent =
    `By ${bucket} of the requests' own time. Small points are over few requests.${left.length ? ` Excluded: ${left.join("; ")}.` : ""}`;
  replace(
    find("time-choices"),
    select("Show", own, name, (show) => chosen.set({ show }), { id: "time-select" }),
  );
  chart(find("time-figure"), `${label} over time`, (width) => lineChart(width, rows, name, label));
  replace(
    find("time-table"),
    table(
      [
        { head: "from", cell: ({ at }) => when(at / 1000) },
        { head: label, number: true, cell: ({ value }) => said(name, value) },
        { head: "n", number: true, cell: ({ n }) => count(n) },
      ],
      rows.toReversed(),
    ),
  );
  chosen.watch(() => overTime(data));
}

function lineChart(width, all, name, label) {
  const rows = all.filter((row) => row.value !== null && row.n > 0);
  if (!rows.length) return null;
  const time = TIMES.includes(name);
  const free = time || name === "rating" || name === "n";
  const hour = 36e5;
  const [first, last] = d3.extent(rows, ({ at }) => +at);
  const spare = first === last ? hour : 0;
  const domain = [new Date(first - spare), new Date(last + spare)];
  const y = { x: "at", y: ({ value }) => (time ? value * 1000 : value) };
  return plot(width, {
    height: Math.max(220, Math.min(340, width * 0.4)),
    marginLeft: 56,
    marginTop: 32,
    marginRight: 24,
    marginBottom: 40,
    x: { type: "utc", domain, axis: null },
    y: upright({
      label: time ? `${label}, ms` : label,
      labelArrow: "none",
      ...(free ? { zero: true } : { domain: [0, 1] }),
    }),
    r: { range: [2, 6] },
    marks: [
      floor(),
      calendar(roundTimes(domain, width < 560 ? 4 : 8)),
      Plot.lineY(rows, { ...y, stroke: COLOURS[0], strokeWidth: 2 }),
      Plot.dot(rows, {
        ...y,
        r: "n",
        fill: COLOURS[0],
        title: ({ at, value, n }) => `${when(at / 1000)}: ${said(name, value)} (n ${count(n)})`,
      }),
    ],
  });
}
