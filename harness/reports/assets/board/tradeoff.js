// Quality against latency, tokens or cost: a labelled point per run, and the Pareto front.

import { ticksBetween } from "../shared/cost.js";
import { count, dollars, duration, plain, short } from "../shared/numbers.js";
import { find, replace, select, svg } from "../shared/page.js";
import { saveButtons } from "../shared/save_chart.js";
import { ofFewer, pick, tokensOf } from "./columns.js";
import { chosen, nameOf } from "./data.js";

const AXES = [
  {
    id: "p50",
    name: "median latency",
    of: ({ entry }) => entry.cost.search_ms?.p50,
    show: duration,
  },
  {
    id: "p99",
    name: "99th percentile of latency",
    of: ({ entry }) => entry.cost.search_ms?.p99,
    show: duration,
  },
  {
    id: "index",
    name: "indexing time",
    of: ({ entry }) => entry.cost.index && 1000 * entry.cost.index.seconds,
    show: duration,
  },
  {
    id: "tokens",
    name: "tokens of the first ten documents",
    of: tokensOf,
    show: (value) => count(Math.round(value)),
  },
  {
    id: "usd",
    name: "USD per 1,000 queries",
    of: ({ entry }) => entry.cost.searching?.usd_per_1000_queries,
    show: dollars,
  },
  {
    id: "ingestion",
    name: "USD to ingest the dataset",
    of: ({ entry }) => entry.cost.ingestion?.usd,
    show: dollars,
  },
];
const SIDES = { left: 46, right: 16, top: 14, bottom: 46 }; // margins, pixels
const TEXT = 13; // pixels of a label
const RATIO = 5; // of the largest to the smallest value, from which on the axis is logarithmic

/** Draws the runs that the table shows, if at least two have both numbers. */
export function tradeoff(now, rows) {
  const { metric, slice } = now;
  const ranked = rows.filter(
    (row) => !row.entry.sees_gold_labels && !ofFewer(row, metric) && row.now[metric],
  );
  const known = (axis) => ranked.filter((row) => Number.isFinite(axis.of(row) ?? Number.NaN));
  const axes = AXES.filter((axis) => known(axis).length > 1);
  find("tradeoff").hidden = !axes.length;
  find("jump").hidden = !axes.length;
  if (!axes.length) return;
  const axis = axes.find(({ id }) => id === chosen.across) ?? axes[0];
  const points = known(axis).map((row) => ({
    ...row.now[metric],
    entry: row.entry,
    x: axis.of(row),
  }));
  const title = `${metric} against ${axis.name}${slice === "all" ? "" : `, ${slice}`}`;
  find("tradeoff-title").textContent = title;
  find("jump").querySelector("a").textContent = title;
  replace(
    find("tradeoff-choices"),
    select(
      "Horizontal axis",
      axes.map(({ id, name }) => [id, name]),
      axis.id,
      (across) => chosen.set({ across }),
      { id: "across" },
    ),
  );
  find("tradeoff-chart").redraw = () => drawn(points, axis, title, metric);
  find("tradeoff-chart").redraw();
}

function drawn(points, axis, title, metric) {
  const place = find("tradeoff-chart");
  const width = Math.floor(place.clientWidth);
  if (!width) return;
  const drawing = scatter(points, axis, { title, metric, width });
  replace(
    place,
    drawing,
    saveButtons(() => drawing),
  );
}

let width = 0;
new ResizeObserver(() => {
  const place = find("tradeoff-chart");
  if (place.clientWidth === width) return;
  width = place.clientWidth;
  place.redraw?.();
}).observe(find("tradeoff-chart"));

/** The points that no other one beats in both, from the cheapest on. */
function frontOf(points) {
  const found = [];
  for (const point of points.toSorted((a, b) => a.x - b.x || b.value - a.value))
    if (!found.length || point.value > found.at(-1).value) found.push(point);
  return found;
}

/** The upright scale: the values with some room, and round ticks. */
function upScale(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(0.02, (most - least) * 0.1);
  const [low, high] = [Math.max(0, least - room), Math.min(1, most + room)];
  return {
    ...{ low, high, ticks: roundTicks(low, high) },
    at: (value) => to - ((value - low) / (high - low)) * (to - from),
  };
}

function roundTicks(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const first = Math.ceil(low / step);
  return Array.from(
    { length: Math.floor(high / step) - first + 1 },
    (_, at) => (first + at) * step,
  );
}

/** The horizontal scale: logarithmic where values differ by much, with 0 at its left end. */
function acrossScale(values, from, to) {
  const paid = values.filter((value) => value > 0);
  const free = paid.length < values.length;
  const [least, most] = paid.length ? [Math.min(...paid), Math.max(...paid)] : [1, 1];
  const left = free ? from + 44 : from;
  const log = most / least >= RATIO;
  const room = log ? (most / least) ** 0.06 : Math.max((most - least) * 0.08, most * 0.02);
  const [low, high] = log ? [least / room, most * room] : [Math.max(0, least - room), most + room];
  const share = (value) =>
    log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const ticks = log ? ticksBetween(low, high) : roundTicks(low, high);
  return {
    at: (value) => (free && value === 0 ? from + 8 : left + share(value) * (to - left)),
    ticks: free ? [0, ...ticks.filter((tick) => tick > 0)] : ticks,
  };
}

function scatter(points, axis, { title, metric, width }) {
  const height = width < 560 ? 340 : 400;
  const box = {
    left: SIDES.left,
    right: width - SIDES.right,
    top: SIDES.top,
    bottom: height - SIDES.bottom,
  };
  const across = acrossScale(
    points.map(({ x }) => x),
    box.left + 12,
    box.right - 12,
  );
  const up = upScale(
    points.map(({ value }) => value),
    box.top,
    box.bottom,
  );
  const drawing = svg("svg", {
    class: "tradeoff",
    width,
    height,
    role: "group",
    "aria-label": title,
  });
  const words = (text, attributes) => {
    const node = svg("text", attributes);
    node.textContent = text;
    return node;
  };
  for (const tick of up.ticks)
    drawing.append(
      svg("line", {
        class: "level",
        x1: box.left,
        x2: box.right,
        y1: up.at(tick),
        y2: up.at(tick),
      }),
      words(short(tick), {
        class: "tick",
        x: box.left - 8,
        y: up.at(tick) + 4,
        "text-anchor": "end",
      }),
    );
  for (const tick of across.ticks)
    drawing.append(
      words(axis.show(tick), {
        class: "tick",
        x: across.at(tick),
        y: box.bottom + 18,
        "text-anchor": "middle",
      }),
    );
  drawing.append(
    words(`${axis.name} (less is better)`, {
      class: "tick",
      x: (box.left + box.right) / 2,
      y: height - 8,
      "text-anchor": "middle",
    }),
  );
  const front = frontOf(points);
  drawing.append(frontLine(front, across, up, box));
  const placed = points
    .map((point) => ({
      ...point,
      at: [across.at(point.x), up.at(point.value)],
      best: front.includes(point),
    }))
    .sort((a, b) => b.best - a.best || b.value - a.value);
  const labels = labelled(placed, box);
  for (const [at, point] of placed.entries())
    drawing.append(mark(point, labels[at], up, { axis, metric, words }));
  return drawing;
}

/** The best value for each cost, as steps from the cheapest point to the right end. */
function frontLine(front, across, up, box) {
  const steps = front.map((point, at) => {
    const next = at + 1 < front.length ? across.at(front[at + 1].x) : box.right;
    return `${at ? "V" : `M${across.at(point.x)},`}${up.at(point.value)}H${next}`;
  });
  return svg("path", { class: "front", d: steps.join("") });
}

/** A point with its interval and name; it can be chosen for the comparison. */
function mark(
  { entry, value, interval, x, at: [left, top], best },
  label,
  up,
  { axis, metric, words },
) {
  const said = `${nameOf(entry)}: ${metric} ${plain(value)}, ${axis.name} ${axis.show(x)}${best ? "; on the Pareto front" : ""}`;
  const picked = chosen.compare.includes(entry.run);
  const group = svg("g", {
    class: ["point", best && "best", picked && "picked"].filter(Boolean).join(" "),
    id: `point-${entry.run}`,
    role: "checkbox",
    tabindex: 0,
    "aria-checked": String(picked),
    "aria-label": said,
  });
  group.addEventListener("click", () => pick(entry.run));
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick(entry.run);
  });
  const clip = (one) => up.at(Math.min(up.high, Math.max(up.low, one)));
  const title = svg("title", {});
  title.textContent = said;
  group.append(title);
  if (interval)
    group.append(
      svg("line", {
        class: "reach",
        x1: left,
        x2: left,
        y1: clip(interval.low),
        y2: clip(interval.high),
      }),
    );
  if (label.far)
    group.append(svg("line", { class: "lead", x1: left, y1: top, x2: label.x, y2: label.y - 4 }));
  group.append(
    svg("circle", { cx: left, cy: top, r: 5 }),
    words(nameOf(entry), { class: "name", x: label.x, y: label.y, "text-anchor": label.anchor }),
  );
  return group;
}

const brush = document.createElement("canvas").getContext("2d");

/** Where the labels are: as near to their points as they can be without covering others. */
function labelled(points, box) {
  brush.font = `${TEXT}px ${getComputedStyle(document.body).fontFamily}`;
  const taken = points.map(({ at: [x, y] }) => [x - 6, y - 6, x + 6, y + 6]);
  const shifts = [
    ...[-11, 11, 0],
    ...Array.from({ length: 9 }, (_, at) => [-(at + 1) * 15, (at + 1) * 15]).flat(),
  ];
  return points.map(({ entry, at: [x, y] }) => {
    const wide = brush.measureText(nameOf(entry)).width;
    const candidates = shifts.flatMap((shift) =>
      [
        { x: x + 9, anchor: "start" },
        { x: x - 9, anchor: "end" },
        // Where the name fits on neither side.
        { x: Math.max(box.left, Math.min(x - wide / 2, box.right - wide)), anchor: "start" },
      ].map(({ x: from, anchor }) => {
        const left = anchor === "start" ? from : from - wide;
        const base = y + shift + 4;
        const area = [left, base - TEXT + 2, left + wide, base + 3];
        return { x: from, y: base, anchor, area, far: Math.abs(shift) > 15 };
      }),
    );
    const inside = ({ area: [left, top, right, bottom] }) =>
      left >= box.left && right <= box.right && top >= 0 && bottom <= box.bottom;
    const free = ({ area }) =>
      taken.every(
        (one) => area[0] > one[2] || area[2] < one[0] || area[1] > one[3] || area[3] < one[1],
      );
    const label =
      candidates.find((one) => inside(one) && free(one)) ??
      candidates.find(inside) ??
      candidates[0];
    taken.push(label.area);
    return label;
  });
}
