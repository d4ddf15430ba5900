// The drawings, by Observable Plot. Colour tells runs apart, dashes tell metrics apart.

import { short } from "./numbers.js";
import { el } from "./page.js";
import { saveButtons } from "./save_chart.js";

export const COLOURS = ["var(--a)", "var(--b)"];
export const QUIET = "var(--muted)";
export const STYLE = { fontSize: "13px", background: "none", overflow: "visible" };

/**
 * Put a drawing into its figure, as wide as that is, and again whenever that changes. `draw` makes
 * it of a width; null says that there is nothing to draw.
 */
export function chart(figure, label, draw) {
  const box = figure.querySelector(".chart");
  box.redraw = () => {
    const width = Math.floor(box.clientWidth);
    if (!width) return;
    const drawing = draw(width);
    box.saving.hidden = !drawing;
    if (!drawing) {
      const about = { class: "note", role: "img", "aria-label": `${label}: nothing measured yet` };
      box.replaceChildren(el("p", about, "Nothing measured yet."));
      return;
    }
    const inner = drawing.tagName === "svg" ? drawing : drawing.querySelector("svg");
    inner.setAttribute("role", "img");
    inner.setAttribute("aria-label", label);
    box.replaceChildren(drawing);
  };
  if (!box.watched) {
    box.saving = saveButtons(() => box.querySelector("svg[role=img]"));
    box.after(box.saving);
    let width = box.clientWidth;
    box.watched = new ResizeObserver(() => {
      if (box.clientWidth === width) return;
      width = box.clientWidth;
      box.redraw();
    });
    box.watched.observe(box);
  }
  box.redraw();
}

/** A drawing as all pages have it: quiet axes, the marks, room for what stands beside them. */
export const plot = (width, options) =>
  Plot.plot({ width, height: 300, style: STYLE, marginLeft: 44, marginBottom: 48, ...options });

/** An upright axis without a title. */
export const upright = (more = {}) => ({
  label: null,
  grid: true,
  ticks: 5,
  tickSize: 0,
  tickFormat: short,
  ...more,
});

/** An upright axis of shares. */
export const shares = () => upright({ domain: [0, 1] });
export const floor = () => Plot.ruleY([0], { stroke: "var(--line)" });

/** A horizontal axis with exactly these ticks: on a log scale the library would leave labels out. */
export const across = (ticks, format, label) =>
  Plot.axisX(ticks, {
    text: format,
    label,
    labelAnchor: "center",
    labelArrow: "none",
    tickSize: 5,
  });

const CLOCK = d3.utcFormat("%H:%M");
const DAY = d3.utcFormat("%-d %b");
const YEAR = d3.utcFormat("%Y");

/** About so many round times, of a domain of two dates. */
export const roundTimes = (domain, count) => d3.scaleUtc().domain(domain).ticks(count);

/**
 * A horizontal axis with ticks at these times, in UTC: days, or where a day has several a clock of
 * 24 hours. The first tick and those of a new day or year say that too.
 */
export function calendar(ticks, more = {}) {
  const clock = ticks.some((one, at) => at && DAY(one) === DAY(ticks[at - 1]));
  const [large, small] = clock ? [CLOCK, DAY] : [DAY, YEAR];
  const text = (one, at) =>
    !at || small(one) !== small(ticks[at - 1]) ? `${large(one)}\n${small(one)}` : large(one);
  return Plot.axisX(ticks, { anchor: "bottom", text, tickSize: 0, label: null, ...more });
}

/** Columns of one run as points: [{x, value, low, high, random, max}]. */
export const points = (xs, series) =>
  xs.map((x, at) => ({
    x,
    value: series.value[at],
    low: series.low?.[at],
    high: series.high?.[at],
    random: series.random_baseline?.[at],
    max: series.upper_bound?.[at],
  }));

/** A line of points with its interval as a band. */
export const line = (points, stroke, options = {}) => [
  points[0]?.low === undefined
    ? null
    : Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill: stroke, fillOpacity: 0.13 }),
  Plot.lineY(points, { x: "x", y: "value", stroke, strokeWidth: 2.5, ...options }),
];

/** Names at the ends of lines, [{x, y, text, colour}], moved as little as it takes to be read. */
export const ends = (labels, gap, options = {}) =>
  apart(labels, gap).map((label) =>
    Plot.text([label], {
      x: "x",
      y: "at",
      text: "text",
      dx: 8,
      textAnchor: "start",
      fill: label.colour,
      fontWeight: 600,
      fontSize: 13,
      ...options,
    }),
  );

function apart(labels, gap) {
  const sorted = labels.map((label) => ({ ...label, at: label.y })).sort((a, b) => a.y - b.y);
  for (let i = 1; i < sorted.length; i += 1)
    sorted[i].at = Math.max(sorted[i].at, sorted[i - 1].at + gap);
  const over = (sorted.at(-1)?.at ?? 0) - 1;
  if (over > 0)
    for (const label of sorted) label.at -= Math.min(over, Math.max(0, label.at - gap * 0.5));
  return sorted;
}
