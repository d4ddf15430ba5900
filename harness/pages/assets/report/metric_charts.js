// Means by ability, and metrics against k.

/** Means by slice with their intervals, beside chance and ceiling. */
function abilityChart(width, names, cells, metric) {
  const small = width < 560,
    runs = cells.length;
  const rows = names.flatMap(({ name }) =>
    cells.map((one, run) => {
      const cell = one[name][metric];
      return {
        name,
        run,
        value: cell.value,
        low: cell.interval?.low,
        high: cell.interval?.high,
        chance: cell.chance,
        ceiling: cell.ceiling,
      };
    }),
  );
  const first = rows.filter((row) => row.run === 0);
  const marks = [
    Plot.tickX(
      first.filter((row) => row.ceiling != null),
      { x: "ceiling", y: "name", stroke: QUIET, strokeWidth: 2 },
    ),
    Plot.tickX(
      first.filter((row) => row.chance != null),
      { x: "chance", y: "name", stroke: QUIET, strokeWidth: 2, strokeDasharray: "3 2" },
    ),
  ];
  for (let run = 0; run < runs; run += 1) {
    const mine = rows.filter((row) => row.run === run && row.value != null);
    const dy = runs === 1 ? 0 : run === 0 ? -9 : 9;
    marks.push(
      Plot.ruleY(
        mine.filter((row) => row.low != null),
        {
          x1: "low",
          x2: "high",
          y: "name",
          dy,
          stroke: COLOURS[run],
          strokeWidth: 4,
          strokeOpacity: 0.45,
          strokeLinecap: "round",
        },
      ),
      Plot.dot(mine, {
        x: "value",
        y: "name",
        dy,
        r: 6,
        fill: COLOURS[run],
        stroke: "var(--raised)",
        strokeWidth: 1.5,
      }),
      Plot.text(mine, {
        x: 1,
        y: "name",
        dy,
        dx: 14,
        textAnchor: "start",
        fill: COLOURS[run],
        fontWeight: 650,
        fontSize: 14,
        text: (row) => plain(row.value),
      }),
      Plot.text(small ? [] : mine, {
        x: 1,
        y: "name",
        dy,
        dx: 64,
        textAnchor: "start",
        fill: QUIET,
        fontSize: 13,
        text: (row) => (row.low == null ? "" : span(row.low, row.high)),
      }),
    );
  }
  return Plot.plot({
    width,
    height: names.length * (runs === 1 ? 44 : 56) + 54,
    style: STYLE,
    marginLeft: small ? 92 : 136,
    marginRight: small ? 62 : 176,
    marginTop: 6,
    marginBottom: 48,
    x: {
      domain: [0, 1],
      label: metric,
      grid: true,
      ticks: 5,
      labelAnchor: "center",
      labelArrow: "none",
    },
    y: { domain: names.map(({ name }) => name), label: null, tickSize: 0, padding: 0.3 },
    marks,
  });
}

const FAMILY = {
  recall: "recall",
  precision: "precision",
  f1: "F1",
  hit: "hit",
  recall_all: "recall_all",
  ndcg: "nDCG",
};

/** Recall and one other metric against k, for every run, with the chosen k marked. */
function depthChart(width, runs, slice, other, k) {
  const xs = runs[0].ks,
    deep = xs.at(-1) > 100,
    last = xs.at(-1);
  const right = k > (deep ? Math.sqrt(last) : last / 2);
  const marks = [
    Plot.ruleY([0], { stroke: "var(--line)" }),
    Plot.ruleX([k], { stroke: "var(--ink)", strokeWidth: 1.5 }),
  ];
  marks.push(
    Plot.text([[k, 1]], {
      text: () => `k = ${k}`,
      dx: right ? -8 : 8,
      dy: -2,
      textAnchor: right ? "end" : "start",
      fontWeight: 600,
      fontSize: 13,
      fill: "var(--ink)",
      stroke: "var(--raised)",
      strokeWidth: 5,
    }),
  );
  const ends = [];
  runs.forEach((one, run) => {
    const families = one.slices[slice].families;
    for (const [at, family] of ["recall", other].entries()) {
      const line = points(one.ks, families[family]);
      const dash = at === 0 ? null : "6 4";
      if (line[0].low !== undefined)
        marks.push(
          Plot.areaY(line, {
            x: "x",
            y1: "low",
            y2: "high",
            fill: COLOURS[run],
            fillOpacity: 0.13,
          }),
        );
      if (run === 0)
        marks.push(
          Plot.lineY(
            line.filter((p) => p.chance != null),
            {
              x: "x",
              y: "chance",
              stroke: QUIET,
              strokeDasharray: "1 4",
              strokeLinecap: "round",
              strokeWidth: 2,
            },
          ),
        );
      if (run === 0 && at === 1)
        marks.push(
          Plot.lineY(
            line.filter((p) => p.ceiling != null),
            { x: "x", y: "ceiling", stroke: QUIET, strokeWidth: 1 },
          ),
        );
      marks.push(
        Plot.lineY(line, {
          x: "x",
          y: "value",
          stroke: COLOURS[run],
          strokeWidth: 2.5,
          strokeDasharray: dash,
        }),
      );
      marks.push(
        Plot.dot(
          line.filter((p) => p.x === k),
          {
            x: "x",
            y: "value",
            r: 5,
            fill: COLOURS[run],
            stroke: "var(--raised)",
            strokeWidth: 1.5,
          },
        ),
      );
      ends.push({
        x: last,
        y: line.at(-1).value,
        run,
        text: FAMILY[family] + (runs.length > 1 ? ` ${LETTERS[run]}` : ""),
      });
    }
    if (run === 0 && families.recall.chance)
      ends.push({ x: last, y: families.recall.chance.at(-1), run: -1, text: "chance" });
  });
  const tens =
    width < 560 ? [1, 20, 40, 60, 80, 100] : [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
  const ticks = deep
    ? [1, 3, 10, 30, 100, 300, 1000]
    : last <= 10
      ? [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
      : tens;
  marks.push(
    xAxis(
      ticks.filter((t) => t <= last),
      count,
      "k: documents taken from the ranking",
    ),
  );
  for (const end of apart(ends, 0.055)) {
    marks.push(
      Plot.text([end], {
        x: "x",
        y: "at",
        text: "text",
        dx: 8,
        textAnchor: "start",
        fill: end.run < 0 ? QUIET : COLOURS[end.run],
        fontWeight: 600,
        fontSize: 13,
      }),
    );
  }
  return Plot.plot({
    width,
    height: Math.max(300, Math.min(420, width * 0.5)),
    style: STYLE,
    marginLeft: 44,
    marginRight: 96,
    marginBottom: 48,
    x: { type: deep ? "log" : "linear", domain: [1, last], axis: null },
    y: {
      domain: [0, 1],
      label: null,
      grid: true,
      ticks: 5,
      tickSize: 0,
      tickFormat: (t) => plain(t, 1),
    },
    marks,
  });
}
