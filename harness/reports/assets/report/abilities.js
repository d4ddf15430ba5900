// Means and differences by ability, as charts and as a table.

import { COLOURS, chart, plot, QUIET } from "../shared/charts.js";
import { differenceChart } from "../shared/differences.js";
import { boundOf, meaning, term } from "../shared/glossary.js";
import {
  answeredOnly,
  count,
  NONE,
  plain,
  pValue,
  short,
  signed,
  span,
} from "../shared/numbers.js";
import { el, find, replace } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { data, of, several, view } from "./data.js";

export function abilities() {
  const { block, metric } = view();
  const empty = !block.slices.length;
  for (const figure of document.querySelectorAll("#abilities figure")) figure.hidden = empty;
  find("abilities-table").parentElement.hidden = empty;
  if (empty) return;
  differences(block, metric);
  replace(
    find("abilities-how"),
    "Dot: mean. Bar: ",
    term("95% interval"),
    ". Dashed line: ",
    term("random"),
    ". Solid line: ",
    term(boundOf(metric)),
    el("span", { class: "not-narrow" }, ". In parentheses: ", term("n", "number of questions")),
    several ? ". *\u00a0significant; hollow: not significant." : ".",
  );
  chart(
    find("abilities-figure"),
    `${metric} by ability with 95% intervals; the table below has the numbers`,
    (width) => abilityChart(width, block.slices, block.results, metric),
  );
  const under = el("span", { class: "small" }, "95% interval");
  const ofRun = (run) => ({
    head: [of(run, metric), under.cloneNode(true)],
    id: of(run, metric),
    title: meaning(metric),
    number: true,
    cell: ({ name }) => {
      const { value, interval, answered_only: answered } = at(run, name);
      const reach = interval ? span(interval.low, interval.high) : NONE;
      const only = answeredOnly(answered);
      return [
        plain(value),
        el("span", { class: "small" }, reach),
        only && el("span", { class: "small" }, only),
      ];
    },
  });
  const at = (run, name) => block.results[run][name][metric];
  const pair = (head, said) => ({
    head,
    number: true,
    cell: ({ name }) => {
      const found = block.pairs[name]?.[metric];
      return found ? said(found) : NONE;
    },
  });
  find("abilities-table").replaceChildren(
    table(
      [
        { head: "Slice", cell: ({ name }) => name },
        { head: "n", number: true, cell: ({ n }) => count(n) },
        ...data.runs.map((_, run) => ofRun(run)),
        ...(several
          ? [
              {
                ...pair("B − A", ({ difference, low, high }) => [
                  signed(difference),
                  el("span", { class: "small" }, span(low, high, signed)),
                ]),
                head: ["B − A", under],
                id: "B − A",
              },
              pair("p", ({ p, shown }) => `${pValue(p)}${shown ? " *" : ""}`),
              pair("detectable", ({ detectable }) => plain(detectable)),
              pair("wins / losses / ties", ({ wins, losses, ties }) =>
                [wins, losses, ties].map(count).join(" / "),
              ),
            ]
          : []),
        { head: "random", number: true, cell: ({ name }) => plain(at(0, name).random_baseline) },
        {
          head: boundOf(metric),
          number: true,
          cell: ({ name }) =>
            (at(0, name).upper_bound_method ? "≤ " : "") + plain(at(0, name).upper_bound),
        },
      ],
      block.slices,
    ),
  );
}

/** The place for the names of slices, and their labels, with the number of questions if it fits. */
const left = (width) => (width < 400 ? 132 : 160);
const labelled = (width, slices) =>
  slices.map((slice) => ({
    ...slice,
    label: width < 400 ? slice.name : `${slice.name} (${count(slice.n)})`,
  }));

/** Differences of two runs by slice. */
function differences(block, metric) {
  const figure = find("differences-figure");
  const pairOf = ({ name }) => block.pairs[name]?.[metric];
  figure.hidden = !block.slices.some(pairOf);
  if (figure.hidden) return;
  chart(figure, `B − A, ${metric} by ability with 95% intervals`, (width) => {
    const rows = labelled(width, block.slices).map((slice) => {
      const pair = pairOf(slice);
      return { ...pair, name: slice.label, colour: COLOURS[pair?.difference > 0 ? 1 : 0] };
    });
    const size = { marginLeft: left(width), rowHeight: 56 };
    return differenceChart(width, rows, `B − A, ${metric}`, size);
  });
}

/** Means by slice with intervals, random baseline and upper bound. */
function abilityChart(width, slices, cells, metric) {
  const small = width < 560;
  const names = labelled(width, slices);
  const runs = cells.length;
  const rowsOf = (one, run) =>
    names.map(({ name, label }) => {
      const { value, interval, random_baseline: random, upper_bound: max } = one[name][metric];
      return { name: label, run, value, low: interval?.low, high: interval?.high, random, max };
    });
  const tick = (rows, x, more = {}) =>
    Plot.tickX(
      rows.filter((row) => row[x] != null),
      { x, y: "name", stroke: QUIET, strokeWidth: 2, ...more },
    );
  const first = rowsOf(cells[0], 0);
  const ofRun = (one, run) => {
    const rows = rowsOf(one, run).filter((row) => row.value != null);
    const dy = runs === 1 ? 0 : run === 0 ? -9 : 9;
    const place = { y: "name", dy };
    const words = (dx, more) => ({
      ...place,
      x: 1,
      dx,
      textAnchor: "start",
      fontSize: 13,
      ...more,
    });
    return [
      Plot.ruleY(
        rows.filter((row) => row.low != null),
        {
          ...place,
          x1: "low",
          x2: "high",
          stroke: COLOURS[run],
          strokeWidth: 4,
          strokeOpacity: 0.45,
          strokeLinecap: "round",
        },
      ),
      Plot.dot(rows, {
        ...place,
        x: "value",
        r: 6,
        fill: COLOURS[run],
        stroke: "var(--raised)",
        strokeWidth: 1.5,
      }),
      Plot.text(
        rows,
        words(14, { fill: COLOURS[run], fontWeight: 650, text: (row) => plain(row.value) }),
      ),
      Plot.text(
        small ? [] : rows.filter((row) => row.low != null),
        words(72, { fill: QUIET, text: (row) => span(row.low, row.high) }),
      ),
    ];
  };
  return plot(width, {
    height: names.length * (runs === 1 ? 44 : 56) + 54,
    marginLeft: left(width),
    marginRight: small ? 62 : 190,
    marginTop: 6,
    x: {
      domain: [0, 1],
      label: metric,
      grid: true,
      ticks: 5,
      tickFormat: short,
      labelAnchor: "center",
      labelArrow: "none",
    },
    y: { domain: names.map(({ label }) => label), label: null, tickSize: 0, padding: 0.3 },
    marks: [
      tick(first, "max"),
      tick(first, "random", { strokeDasharray: "3 2" }),
      cells.map(ofRun),
    ],
  });
}
