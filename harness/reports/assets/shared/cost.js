// Answers against what they cost: a point a system, its interval upright, baselines hollow.

import { count, dollars } from "./numbers.js";
import { el, svg } from "./page.js";
import { saveButtons } from "./save_chart.js";

const HIGH = 230; // of the drawing, in pixels; across it is as wide as its place
const TOP = 12;
const FOOT = 26;
const LINE = 16; // what a name needs
const NEAR = 20; // per cent across, within which two names could meet

const down = (value) => TOP + (1 - value) * (HIGH - TOP - FOOT);

/** 1, 2, 5, 10, ...: at most six of them between two numbers above 0. */
export function ticksBetween(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const step of [1, 2, 5]) found.push(step * 10 ** power);
  const inside = found.filter((one) => one >= low && one <= high);
  const every = Math.ceil(inside.length / 6);
  return inside.filter((_, at) => at % every === 0);
}

/** From what something costs to per cent across: by ratios, and what is free at the left end. */
function placing(costs) {
  const paid = costs.filter((one) => one > 0);
  const [low, high] = [Math.min(...paid), Math.max(...paid)];
  const free = costs.some((one) => one === 0);
  const left = free ? 14 : 6;
  const spread = Math.log(high / low);
  const at = (cost) =>
    cost === 0
      ? 3
      : spread
        ? left + (66 - left) * (Math.log(cost / low) / spread)
        : (left + 66) / 2;
  return { at, ticks: [...(free ? [0] : []), ...(spread ? ticksBetween(low, high) : [low])] };
}

/** Where the names stand, so that none stands on another. */
function lettered(points) {
  const placed = [];
  for (const point of points.toSorted((a, b) => a.y - b.y)) {
    const met = placed.filter(({ x }) => Math.abs(x - point.x) < NEAR);
    const least = Math.max(0, ...met.map(({ at }) => at + LINE));
    placed.push({ ...point, at: Math.max(point.y, least) });
  }
  return placed;
}

function drawing(rows, cost, title, said) {
  const { at, ticks } = placing(rows.map((row) => row[cost]));
  const box = svg("svg", { class: "cost", height: HIGH, role: "img", "aria-label": title });
  const words = (text, attributes) => {
    const found = svg("text", attributes);
    found.textContent = text;
    box.append(found);
  };
  for (const level of [0, 0.25, 0.5, 0.75, 1]) {
    box.append(
      svg("line", { class: "level", x1: 0, x2: "100%", y1: down(level), y2: down(level) }),
    );
    words(String(level), { class: "tick", x: "100%", y: down(level) - 3, "text-anchor": "end" });
  }
  for (const one of ticks)
    words(said(one), { class: "tick", x: `${at(one)}%`, y: HIGH - 8, "text-anchor": "middle" });
  const points = rows.map((row) => ({ ...row, x: at(row[cost]), y: down(row.value) }));
  for (const { x, y, low, high, baseline } of points) {
    const of = baseline ? "baseline" : "own";
    if (low !== undefined && low !== null)
      box.append(
        svg("line", { class: of, x1: `${x}%`, x2: `${x}%`, y1: down(low), y2: down(high) }),
      );
    box.append(svg("circle", { class: of, cx: `${x}%`, cy: y, r: 5 }));
  }
  for (const { name, x, at: y, baseline } of lettered(points))
    words(name, { class: baseline ? "name baseline" : "name", x: `${x + 1.6}%`, y: y + 4 });
  const buttons = saveButtons(() => box);
  return el("figure", { class: "cost" }, el("figcaption", {}, title), box, buttons);
}

/**
 * Drawings of rows [{name, baseline, value, low, high, tokens, usd}]: by tokens shown, and by money
 * where that is known of two or more. Nothing where there is nothing to set against each other.
 */
export function againstCost(rows, metric) {
  const known = rows.filter(({ value }) => value !== null && value !== undefined);
  const of = (cost) => known.filter((row) => Number.isFinite(row[cost] ?? Number.NaN));
  const worth = (found, cost) => found.length > 1 && found.some((row) => row[cost] > 0);
  const drawings = [];
  if (worth(of("tokens"), "tokens"))
    drawings.push(
      drawing(of("tokens"), "tokens", `${metric} against tokens shown a question`, (one) =>
        count(Math.round(one)),
      ),
    );
  if (worth(of("usd"), "usd"))
    drawings.push(
      drawing(of("usd"), "usd", `${metric} against what all answers cost`, (one) => dollars(one)),
    );
  return drawings.length ? [el("div", { class: "costs" }, drawings)] : [];
}
