// The chart of a history: a line per system, with gaps where results are not comparable.

import { ends, plot, upright } from "../shared/charts.js";
import { moment, plain, span } from "../shared/numbers.js";

const DASHES = [null, "7 4", "2 4"];
const FEW = 70; // points of a line, beyond which it has no dots
const LABELS = 10; // lines, beyond which they have no names at their ends
const CHARACTER = 7.2; // pixels of a label, about
const LEFT = 48; // pixels at the left, for the ticks
const GAP = 12; // pixels between labels of nights

export const BANDS = 3; // lines, beyond which they have no intervals

/** The number of highlighted lines with a value in a cell. */
export const drawnOf = (lines, slice, metric, chosen) =>
  lines.filter(
    (one) => one.results[slice]?.[metric] && (chosen.size === 0 || chosen.has(one.system)),
  ).length;

/** A value of a column, which is a single value if all are the same. */
export const col = (column, at) => (Array.isArray(column) ? column[at] : column);
export const colourOf = (place) => `var(--s${place % 8})`;
export const dashOf = (place) => DASHES[Math.floor(place / 8) % 3];

/** The points of a line in one cell, from night `from` on, without those that have no value. */
function pointsOf(one, place, slice, metric, from, nights) {
  const cells = one.results[slice]?.[metric];
  if (!cells) return [];
  return one.night
    .map((night, at) => ({
      night,
      at,
      one,
      place,
      x: new Date(nights[night].at),
      part: `${place}/${one.part[at]}`,
      value: col(cells.value, at),
      low: col(cells.low, at),
      high: col(cells.high, at),
      changed: other(col(one.changed, at)),
      drop: col(cells.drop, at),
    }))
    .filter((p) => p.night >= from && p.value !== null);
}

/** Changed settings, without those that change every day. */
function other(changed) {
  const left = (changed ?? []).filter(
    ({ setting }) => !["git commit", "processor"].includes(setting),
  );
  return left.length ? left : null;
}

/** Marks of nights without a value: [{night, x, said}]. */
function byNight(lines, from, nights, what) {
  const found = new Map();
  for (const one of lines)
    one.night.forEach((night, at) => {
      const said = night >= from && what(one, at);
      if (!said) return;
      const mark = found.get(night) ?? { night, x: new Date(nights[night].at), said: [] };
      mark.said.push(`${one.system}: ${said}`);
      found.set(night, mark);
    });
  return [...found.values()];
}

/** The tooltip of a point. */
function pointSaid(p, metric) {
  const span_ = p.low === null ? "" : ` (${span(p.low, p.high)})`;
  const changed = p.changed
    ? `\nnew: ${p.changed.map(({ setting, before, now }) => `${setting} ${before} → ${now}`).join("; ")}`
    : "";
  const drop = p.drop ? `\n${p.drop}` : "";
  return `${p.one.system}\n${moment(p.one.at[p.at])}\n${metric} ${plain(p.value)}${span_}${drop}${changed}`;
}

const DATE = d3.utcFormat("%-d %b");
const CLOCK_TIME = d3.utcFormat("%H:%M");
const WITH_YEAR = d3.utcFormat("%-d %b %Y");

/**
 * The nights that have a label on the axis, with that label on one line: the day, its year where that
 * is new, or the time of a further night of the same day. No label touches the next one.
 */
export function nightLabels(times, across) {
  const widest = Math.max(...times.map((time) => DATE(time).length)) * CHARACTER + GAP;
  const room = (across(times.at(-1)) - across(times[0])) / widest;
  const every = Math.max(1, Math.ceil((times.length - 1) / Math.max(1, room)));
  const found = [];
  let free = Number.NEGATIVE_INFINITY;
  for (const time of times.filter((_, at) => at % every === 0)) {
    const last = found.at(-1)?.time;
    const sameYear = last?.getUTCFullYear() === time.getUTCFullYear();
    const sameDay = sameYear && DATE(last) === DATE(time);
    const text = (sameDay ? CLOCK_TIME : sameYear ? DATE : WITH_YEAR)(time);
    const half = (text.length * CHARACTER) / 2;
    if (across(time) - half < free) continue;
    found.push({ time, text });
    free = across(time) + half + GAP;
  }
  return found;
}

/**
 * The lines in one slice and metric. `chosen` is the set of highlighted systems (empty: all), and
 * `night` the index of the night that the table shows.
 */
export function historyChart(width, lines, { slice, metric, from, chosen, night, nights }) {
  const small = width < 560;
  const all = lines.flatMap((one, place) => pointsOf(one, place, slice, metric, from, nights));
  const outstanding = (p) => chosen.size === 0 || chosen.has(p.one.system);
  const front = all.filter(outstanding),
    back = all.filter((p) => !outstanding(p));
  const drawn = drawnOf(lines, slice, metric, chosen);
  const banded = drawn <= BANDS ? front.filter((p) => p.low !== null) : [];
  const sizes = d3.rollup(
    all,
    (points) => points.length,
    (p) => p.part,
  );
  const longest = Math.max(
    0,
    ...d3
      .rollup(
        front,
        (points) => points.length,
        (p) => p.place,
      )
      .values(),
  );
  const values = [...all.map((p) => p.value), ...banded.flatMap((p) => [p.low, p.high])];
  const [least, most] = values.length ? d3.extent(values) : [0, 1];
  const spare = Math.max(0.02, (most - least) * 0.08);
  const bottom = Math.max(0, least - spare),
    top = Math.min(1, most + spare);
  const shownNights = nights.filter((_, at) => at >= from);
  const [first, last] = d3.extent(shownNights, ({ at }) => at);
  const edge = last > first ? (last - first) * 0.02 : 12 * 3600_000;
  const domain = [new Date(first - edge), new Date(last + edge)];
  // The systems of a single night are next to each other.
  const single = nights.length === 1;
  const aside = (place) => (single ? (place - (lines.length - 1) / 2) * 16 : 0);
  const failures = byNight(lines, from, nights, (one, at) => {
    const error = col(one.error, at);
    return error && `failed (${error})`;
  });
  const breaks = byNight(lines, from, nights, (one, at) => col(one.breaks, at)?.join("; "));
  const commits = byNight(
    lines,
    from,
    nights,
    (one, at) =>
      (col(one.changed, at) ?? [])
        .filter(({ setting }) => setting === "git commit")
        .map(({ before, now }) => `commit ${before} → ${now}`)[0],
  );
  const named = drawn <= LABELS && !small;
  const labels = named
    ? [...d3.group(front, (p) => p.place).values()].map((points) => {
        const end = points.at(-1);
        const name = end.one.system;
        const text = name.length > 22 ? `${name.slice(0, 21)}…` : name;
        return { x: end.x, y: end.value, colour: colourOf(end.place), text };
      })
    : [];
  const widest = Math.max(0, ...labels.map(({ text }) => text.length));
  const height = small ? 320 : 400;
  const rail = 26; // below the lines, for failures and commits
  const marginRight = named ? 20 + widest * 7.6 : 20;
  const across = d3.scaleUtc(domain, [LEFT, width - marginRight]);
  const ticks = nightLabels(
    shownNights.map(({ at }) => new Date(at)),
    across,
  );
  const marks = [
    Plot.ruleX(breaks, {
      x: "x",
      stroke: "var(--strong-line)",
      strokeDasharray: "4 4",
      className: "break",
    }),
    Plot.text(breaks, {
      x: "x",
      frameAnchor: "top",
      dy: -12,
      text: () => "≠",
      fill: "var(--ink)",
      fontSize: 17,
      fontWeight: 700,
      title: (m) => `not comparable with earlier nights\n${m.said.join("\n")}`,
      className: "break-mark",
    }),
    Plot.areaY(
      banded.filter((p) => sizes.get(p.part) > 1),
      {
        x: "x",
        y1: "low",
        y2: "high",
        z: "part",
        fill: (p) => colourOf(p.place),
        fillOpacity: 0.13,
        className: "band",
      },
    ),
    Plot.lineY(back, { x: "x", y: "value", z: "part", stroke: "var(--line)", strokeWidth: 1.5 }),
  ];
  for (const [place, points] of d3.group(front, (p) => p.place))
    marks.push(
      Plot.ruleX(
        points.filter((p) => banded.includes(p) && sizes.get(p.part) === 1),
        {
          x: "x",
          y1: "low",
          y2: "high",
          dx: aside(place),
          stroke: colourOf(place),
          strokeWidth: 4,
          strokeOpacity: 0.35,
          strokeLinecap: "round",
          className: "bar",
        },
      ),
      Plot.lineY(
        points.filter((p) => sizes.get(p.part) > 1),
        {
          x: "x",
          y: "value",
          z: "part",
          stroke: colourOf(place),
          strokeWidth: 2.25,
          strokeDasharray: dashOf(place),
          className: "line",
        },
      ),
    );
  const dotted = front.filter((p) => !p.changed && (longest <= FEW || sizes.get(p.part) === 1));
  for (const [place, points] of d3.group(dotted, (p) => p.place))
    marks.push(
      Plot.dot(points, {
        x: "x",
        y: "value",
        r: 3.5,
        dx: aside(place),
        fill: colourOf(place),
        stroke: "var(--raised)",
        strokeWidth: 1,
        className: "dot",
      }),
    );
  marks.push(
    Plot.dot(
      front.filter((p) => p.changed),
      {
        x: "x",
        y: "value",
        symbol: "diamond",
        r: 6,
        fill: "var(--raised)",
        stroke: (p) => colourOf(p.place),
        strokeWidth: 2,
        className: "changed",
      },
    ),
    // Drops that failed the suite; hollow if inconclusive.
    Plot.dot(
      all.filter((p) => p.drop),
      {
        x: "x",
        y: "value",
        dy: -14,
        symbol: "triangle",
        rotate: 180,
        r: 6,
        fill: (p) => (p.drop.startsWith("fail") ? "var(--bad)" : "var(--raised)"),
        stroke: "var(--bad)",
        strokeWidth: 1.5,
        title: (p) => `${p.one.system}: ${p.drop}`,
        className: "drop",
      },
    ),
    Plot.text(failures, {
      x: "x",
      frameAnchor: "bottom",
      dy: 14,
      text: () => "×",
      fill: "var(--bad)",
      fontSize: 20,
      fontWeight: 700,
      title: (m) => m.said.join("\n"),
      className: "failure",
    }),
    Plot.ruleX(commits, {
      x: "x",
      y1: bottom,
      y2: bottom + (top - bottom) * 0.03,
      stroke: "var(--strong-line)",
      strokeWidth: 2,
      title: (m) => m.said.join("\n"),
      className: "commit",
    }),
  );
  if (night >= from && !single)
    marks.unshift(
      Plot.ruleX([new Date(nights[night].at)], {
        stroke: "var(--ink)",
        strokeWidth: 1.25,
        className: "chosen",
      }),
    );
  marks.push(
    ends(labels, ((top - bottom) * 17) / (height - 90), { dx: 10 + aside(lines.length - 1) }),
  );
  marks.push(
    Plot.tip(
      front,
      Plot.pointer({
        x: "x",
        y: "value",
        title: (p) => pointSaid(p, metric),
        fill: "var(--raised)",
        stroke: "var(--strong-line)",
      }),
    ),
  );
  return plot(width, {
    height: height + rail,
    marginLeft: LEFT,
    marginRight,
    marginTop: 28,
    marginBottom: 40 + rail,
    x: { type: "utc", domain, axis: null },
    y: upright({ domain: [bottom, top] }),
    marks: [
      Plot.axisX(
        ticks.map(({ time }) => time),
        {
          anchor: "bottom",
          text: ticks.map(({ text }) => text),
          tickSize: 0,
          label: null,
          dy: rail,
          className: "night",
        },
      ),
      ...marks,
    ],
  });
}
