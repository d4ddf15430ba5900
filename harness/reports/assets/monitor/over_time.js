// One number by minute, hour or day: its rolling mean, alerts and changes of the system.

import { choices } from "../shared/address.js";
import {
  COLOURS,
  calendar,
  chart,
  floor,
  plot,
  QUIET,
  roundTimes,
  upright,
} from "../shared/charts.js";
import { count, many, plain } from "../shared/numbers.js";
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
    ["p95", "p95 latency"],
    ["p50", "p50 latency"],
    ["click_rate", "click rate"],
    ["rating", "mean rating"],
    ["n", "requests"],
  ];
}

const COUNTED = { no_result: "known", click_rate: "watched", rating: "rated" };
const TIMES = ["p50", "p95"];
const BAD = "var(--bad)";

function series(data, name) {
  const metric = data.metrics.includes(name);
  const scale = TIMES.includes(name) ? 1000 : 1;
  const scaled = (value) => (value === null || value === undefined ? Number.NaN : value * scale);
  return data.over_time.rows.map((row) => ({
    at: new Date(row.start * 1000),
    value: metric ? row.metrics[name] : name === "n" ? row.counts.n : row[name],
    point: scaled(metric ? row.metrics[name] : name === "n" ? row.counts.n : row[name]),
    mean: scaled(row.rolling[name]?.value),
    low: scaled(row.rolling[name]?.low),
    high: scaled(row.rolling[name]?.high),
    n: metric ? row.counts.scored : row.counts[COUNTED[name] ?? "n"],
  }));
}

const format = (name, value) =>
  name === "n" ? count(value) : TIMES.includes(name) ? milliseconds(value) : plain(value);

export function overTime(data) {
  const all = offered(data);
  const [name, label] = all.find(([value]) => value === chosen.show) ?? all[0];
  const rows = series(data, name);
  replace(
    find("time-choices"),
    select("Show", all, name, (show) => chosen.set({ show }), { id: "time-select" }),
  );
  chart(find("time-figure"), `${label} over time`, (width) =>
    drawn(width, data, rows, name, label),
  );
  find("time-how").textContent = chartLegend(data, name);
  replace(
    find("time-table"),
    table(
      [
        { head: "from", cell: ({ at }) => when(at / 1000) },
        { head: label, number: true, cell: ({ value }) => format(name, value) },
        { head: "n", number: true, cell: ({ n }) => count(n) },
      ],
      rows.toReversed(),
    ),
  );
  chosen.watch(() => overTime(data));
}

function chartLegend(data, name) {
  const { bucket, rolling_buckets: span, ...rest } = data.over_time;
  const interval = TIMES.includes(name) ? "" : "; band: its 95% interval";
  const value = TIMES.includes(name) ? name : "mean";
  const excluded = [
    rest.dropped && `${many(rest.dropped, `older ${bucket}`)}`,
    rest.late && `${many(rest.late, "request")} of these`,
    rest.without_time && `${many(rest.without_time, "request")} without a time`,
    rest.in_the_future && `${many(rest.in_the_future, "request")} more than a day in the future`,
  ].filter(Boolean);
  return [
    name === "n"
      ? `Bars: requests per ${bucket}.`
      : `Line: ${value} of the last ${span} ${bucket}s${interval}. Pale points: single ${bucket}s.`,
    data.history.length && "Red at the bottom: an alert is active.",
    data.system_changes.length > 1 && "Dashed: change of the system or its version.",
    excluded.length && `Excluded: ${excluded.join(", ")}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** The alerts of a number, each with its start and end; `end` is that of the chart while active. */
function alertsOf(data, name, end) {
  const oldest = data.history.toReversed().filter(({ time }) => time !== null);
  return oldest
    .filter(({ rule, state }) => state === "firing" && rule.split(" ")[0] === name)
    .map(({ rule, episode, time, message }) => {
      const resolved = oldest.find(
        (one) => one.state === "resolved" && one.rule === rule && one.episode === episode,
      );
      return {
        at: new Date(time * 1000),
        to: resolved ? new Date(resolved.time * 1000) : end,
        message,
      };
    });
}

/** A missing mean where the rows have a gap longer than the rolling mean, so that no line joins it. */
function withGaps(rows, width) {
  return rows.flatMap((row, i) =>
    i && row.at - rows[i - 1].at > width
      ? [{ at: row.at, mean: Number.NaN, low: Number.NaN, high: Number.NaN }, row]
      : [row],
  );
}

/** Marks far enough from the one before for a label. */
function spaced(marks, room) {
  let last = Number.NEGATIVE_INFINITY;
  return marks.filter(({ at }) => {
    const fits = at - last >= room;
    if (fits) last = +at;
    return fits;
  });
}

function drawn(width, data, all, name, label) {
  const rows = all.filter((row) => !Number.isNaN(row.point) && row.n > 0);
  if (!rows.length) return null;
  const step = data.over_time.width * 1000;
  const domain = [rows[0].at, new Date(+rows.at(-1).at + step)];
  const free = TIMES.includes(name) || name === "rating" || name === "n";
  const top = d3.max(rows, ({ point, high }) => Math.max(point, high || 0)) || 1;
  const inside = ({ at }) => at >= domain[0] && at <= domain[1];
  const changes = data.system_changes
    .filter(({ time }) => time !== null)
    .map(({ system, time }) => ({ at: new Date(time * 1000), system }))
    .filter(inside);
  const marked = data.system_changes.length > 1 ? changes : [];
  const alerts = alertsOf(data, name, domain[1]);
  const fired = alerts.filter(inside);
  const room = (56 / width) * (domain[1] - domain[0]);
  const gaps = withGaps(rows, step * data.over_time.rolling_buckets);
  const title = ({ at, value, n }) => `${when(at / 1000)}: ${format(name, value)} (n ${count(n)})`;
  const phone = width < 560;
  return plot(width, {
    height: Math.max(240, Math.min(360, width * 0.4)),
    marginLeft: 56,
    marginTop: 44,
    marginRight: 16,
    marginBottom: 40,
    x: { type: "utc", domain, axis: null },
    y: upright({
      label: TIMES.includes(name) ? `${label}, ms` : label,
      labelArrow: "none",
      domain: [0, free ? top * 1.05 : Math.min(1, top * 1.05)],
    }),
    r: { range: phone ? [1, 2.5] : [1.5, 4] },
    marks: [
      floor(),
      calendar(roundTimes(domain, phone ? 4 : 8)),
      ...(name === "n"
        ? [
            Plot.rectY(rows, {
              x1: "at",
              x2: ({ at }) => new Date(+at + step),
              y: "point",
              fill: COLOURS[0],
              fillOpacity: 0.5,
              title,
            }),
          ]
        : [
            Plot.dot(rows, {
              x: "at",
              y: "point",
              r: "n",
              fill: COLOURS[0],
              fillOpacity: 0.18,
              title,
            }),
            Plot.areaY(gaps, {
              x: "at",
              y1: "low",
              y2: "high",
              fill: COLOURS[0],
              fillOpacity: 0.2,
            }),
            Plot.lineY(gaps, { x: "at", y: "mean", stroke: COLOURS[0], strokeWidth: 2.5 }),
          ]),
      Plot.ruleX(marked, { x: "at", stroke: QUIET, strokeWidth: 1.5, strokeDasharray: "4 3" }),
      Plot.text(spaced(marked, room), {
        x: "at",
        text: "system",
        frameAnchor: "top",
        lineAnchor: "bottom",
        dy: -18,
        fill: QUIET,
      }),
      Plot.ruleX(fired, { x: "at", stroke: BAD, strokeWidth: 1.5, title: "message" }),
      Plot.text(spaced(fired, room), {
        x: "at",
        text: () => "alert",
        frameAnchor: "top",
        lineAnchor: "bottom",
        dy: -3,
        fill: BAD,
      }),
      Plot.ruleY(
        alerts.filter(({ to }) => to > domain[0]),
        {
          x1: ({ at }) => Math.max(at, domain[0]),
          x2: "to",
          y: 0,
          stroke: BAD,
          strokeWidth: 6,
          title: "message",
        },
      ),
    ],
  });
}
