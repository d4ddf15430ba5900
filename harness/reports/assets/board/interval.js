// A mean with its interval, drawn in a cell of the table.

import { distinct, svg } from "../shared/page.js";

/**
 * The end of the scale of all intervals, which begins at 0. It includes every ranked run, over the
 * shown queries and those of each of `slices`.
 */
export function scaleEnd(rows, metric, slices) {
  const reach = (cells) => cells?.[metric]?.interval?.high ?? cells?.[metric]?.value ?? 0;
  const highest = Math.max(
    ...rows
      .filter(({ entry }) => !entry.sees_gold_labels)
      .flatMap(({ now, slices: of }) => [reach(now), ...slices.map((name) => reach(of[name]))]),
    0,
  );
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].find((one) => one >= highest) ?? 1;
}

/**
 * A mean with its interval on a scale from 0 to `end`; the random baseline is dashed, the upper bound
 * solid. `middle` is half its height.
 */
export function intervalDrawing({ value, interval }, bounds, end, middle = 14) {
  const size = middle / 14;
  const at = (one) => `${(100 * Math.min(one, end)) / end}%`;
  const upright = (name, one, high, width) => ({
    class: name,
    x1: at(one),
    x2: at(one),
    y1: middle - size * high,
    y2: middle + size * high,
    "stroke-width": width,
  });
  const lines = [{ class: "track", x1: 0, x2: "100%", y1: middle, y2: middle }];
  const { random_baseline: random, upper_bound: max } = bounds;
  for (const [name, ends] of Object.entries({ random, max }))
    for (const one of distinct(ends ?? [])) if (one <= end) lines.push(upright(name, one, 12, 2));
  if (interval && interval.low <= end)
    lines.push({
      class: "reach",
      x1: at(interval.low),
      x2: at(interval.high),
      y1: middle,
      y2: middle,
      "stroke-width": size * 12,
    });
  const there = value !== null && value !== undefined;
  if (there && value <= end) lines.push(upright("mean", value, 10, 3));
  const drawing = svg("svg", { "aria-hidden": "true", height: 2 * middle });
  drawing.append(...lines.map((line) => svg("line", line)));
  if (there && value > end) {
    const beyond = svg("text", { class: "beyond", x: "100%", y: middle + 5, "text-anchor": "end" });
    beyond.textContent = size < 1 ? "›" : "beyond ›";
    drawing.append(beyond);
  }
  return drawing;
}
