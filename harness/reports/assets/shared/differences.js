// A chart of differences with their intervals, against a line at 0.

import { plot, QUIET } from "./charts.js";
import { short, signed, span } from "./numbers.js";

/**
 * Rows are {name, difference, low, high, shown, colour}: filled and in `colour` if the difference is
 * significant, hollow and grey if not. `label` says what the axis shows.
 */
export function differenceChart(width, rows, label, { marginLeft = 136, rowHeight = 44 } = {}) {
  const small = width < 560;
  const known = rows.filter(({ difference }) => difference != null);
  const ranged = known.filter(({ low, high }) => low != null && high != null && low !== high);
  const ends = [
    ...known.map(({ difference }) => difference),
    ...ranged.flatMap(({ low, high }) => [low, high]),
  ];
  const [least, most] = [Math.min(-0.005, ...ends), Math.max(0.005, ...ends)];
  const spare = (most - least) / 20;
  const reach = most + spare;
  const colour = ({ shown, colour }) => (shown ? colour : QUIET);
  const words = (rows, dx, more) =>
    Plot.text(rows, { x: reach, y: "name", dx, textAnchor: "start", fontSize: 13, ...more });
  return plot(width, {
    height: rows.length * rowHeight + 54,
    marginLeft,
    marginRight: small ? 82 : 226,
    marginTop: 6,
    x: {
      domain: [least - spare, reach],
      label,
      grid: true,
      ticks: small ? 3 : 5,
      tickFormat: (tick) => (tick > 0 ? "+" : "") + short(tick).replace("-", "−"),
      labelAnchor: "center",
      labelArrow: "none",
    },
    y: {
      domain: rows.map(({ name }) => name),
      label: null,
      tickSize: 0,
      padding: 0.3,
      type: "band",
    },
    marks: [
      Plot.ruleX([0], { stroke: "var(--ink)" }),
      Plot.ruleY(ranged, {
        y: "name",
        x1: "low",
        x2: "high",
        stroke: colour,
        strokeWidth: 4,
        strokeOpacity: 0.45,
        strokeLinecap: "round",
      }),
      Plot.dot(known, {
        x: "difference",
        y: "name",
        r: 6,
        fill: (row) => (row.shown ? row.colour : "var(--raised)"),
        stroke: colour,
        strokeWidth: 2,
      }),
      words(known, 14, {
        fill: colour,
        fontWeight: 650,
        text: ({ difference, shown }) => signed(difference) + (shown ? " *" : ""),
      }),
      words(small ? [] : ranged, 90, {
        fill: QUIET,
        text: ({ low, high }) => span(low, high, signed),
      }),
    ],
  });
}
