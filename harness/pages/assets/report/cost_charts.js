// What is found for a price: tokens, silence, time.

/** Recall within a budget of tokens. */
function tokenChart(width, runs, slice) {
  const last = runs[0].budgets.at(-1),
    marks = [Plot.ruleY([0], { stroke: "var(--line)" })],
    ends = [];
  runs.forEach((one, run) => {
    const line = points(one.budgets, one.slices[slice].recall);
    if (line[0].low !== undefined)
      marks.push(
        Plot.areaY(line, { x: "x", y1: "low", y2: "high", fill: COLOURS[run], fillOpacity: 0.13 }),
      );
    marks.push(
      Plot.lineY(line, { x: "x", y: "value", stroke: COLOURS[run], strokeWidth: 2.5 }),
      Plot.dot(line, {
        x: "x",
        y: "value",
        r: 3.5,
        fill: COLOURS[run],
        tip: true,
        title: (p) => `${count(p.x)} tokens\nrecall ${plain(p.value)}`,
      }),
    );
    ends.push({ x: last, y: line.at(-1).value, run, text: runs.length > 1 ? LETTERS[run] : "" });
  });
  marks.push(
    xAxis(
      (width < 400 ? [50, 200, 1000, 5000] : [50, 100, 200, 500, 1000, 2000, 5000]).filter(
        (t) => t <= last,
      ),
      count,
      "tokens of retrieved text",
    ),
  );
  for (const end of apart(ends, 0.07))
    marks.push(
      Plot.text([end], {
        x: "x",
        y: "at",
        text: "text",
        dx: 10,
        textAnchor: "start",
        fill: COLOURS[end.run],
        fontWeight: 600,
      }),
    );
  return Plot.plot({
    width,
    height: 300,
    style: STYLE,
    marginLeft: 44,
    marginRight: 28,
    marginBottom: 48,
    x: { type: "log", axis: null },
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

/** Share of wrong answers among the surest, from the surest to all. */
function riskChart(width, runs) {
  const marks = [Plot.ruleY([0], { stroke: "var(--line)" })],
    ends = [];
  runs.forEach((one, run) => {
    if (!one) return;
    const line = one.coverage.map((x, at) => ({ x, y: one.risk[at] }));
    const best = one.coverage.map((x, at) => ({ x, y: one.best[at] }));
    if (run === 0 || !runs[0]) {
      marks.push(Plot.lineY(best, { x: "x", y: "y", stroke: QUIET, strokeWidth: 1 }));
      const at = best[Math.floor(best.length * 0.8)];
      if (at.y > 0.1) ends.push({ x: 0.8, y: at.y, text: "best order", run: -1, dy: 14 });
    }
    marks.push(
      Plot.line(
        [
          [0, one.overall],
          [1, one.overall],
        ],
        {
          stroke: runs.length > 1 ? COLOURS[run] : QUIET,
          strokeDasharray: "1 4",
          strokeLinecap: "round",
          strokeWidth: 2,
        },
      ),
      Plot.lineY(line, { x: "x", y: "y", stroke: COLOURS[run], strokeWidth: 2.5 }),
    );
    marks.push(
      Plot.text([[1, one.overall]], {
        text: () => (runs.length > 1 ? LETTERS[run] : plain(one.overall, 2)),
        dx: 8,
        dy: runs.length > 1 ? (run === 0 ? -7 : 7) : 0,
        textAnchor: "start",
        fill: COLOURS[run],
        fontWeight: 600,
      }),
    );
    if (runs.length === 1)
      ends.push({ x: 0.02, y: one.overall, text: "a guess", run: -1, dy: -10, anchor: "start" });
  });
  for (const end of ends)
    marks.push(
      Plot.text([end], {
        x: "x",
        y: "y",
        text: "text",
        dy: end.dy,
        textAnchor: end.anchor ?? "middle",
        fill: QUIET,
        stroke: "var(--raised)",
        strokeWidth: 5,
      }),
    );
  return Plot.plot({
    width,
    height: 300,
    style: STYLE,
    marginLeft: 44,
    marginRight: 44,
    marginBottom: 48,
    x: {
      domain: [0, 1],
      label:
        width < 400
          ? "coverage, the surest first"
          : "coverage: share of questions answered, the surest first",
      labelAnchor: "center",
      labelArrow: "none",
      ticks: 5,
      tickFormat: (t) => `${Math.round(t * 100)}%`,
    },
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

/** How long queries took: shares by bins of equal width on a log scale. */
function latencyChart(width, latency) {
  const edges = latency.edges_ms,
    several = latency.runs.length > 1,
    marks = [];
  const far = edges[Math.floor(edges.length * 0.72)],
    top = Math.max(...latency.runs.filter(Boolean).flatMap((one) => one.share));
  latency.runs.forEach((one, run) => {
    if (!one) return;
    const bins = one.share.map((share, at) => ({ x1: edges[at], x2: edges[at + 1], share }));
    marks.push(
      Plot.rect(
        bins.filter((bin) => bin.share),
        {
          x1: "x1",
          x2: "x2",
          y1: 0,
          y2: "share",
          fill: COLOURS[run],
          fillOpacity: several ? 0.45 : 0.6,
          inset: 0.5,
        },
      ),
    );
    // Each label stands on a line of its own, so that near percentiles do not hide each other.
    const said = several
      ? [["p50", run === 0 ? 1.24 : 1.08]]
      : [
          ["p50", 1.32],
          ["p95", 1.2],
          ["p99", 1.08],
        ];
    for (const [name, high] of said) {
      marks.push(
        Plot.ruleX([one[name]], { stroke: COLOURS[run], strokeWidth: 1.5, y1: 0, y2: top * high }),
        Plot.text([[one[name], top * high]], {
          text: () => `${several ? `${LETTERS[run]} ` : ""}${name} ${duration(one[name])}`,
          dx: one[name] > far ? -6 : 6,
          textAnchor: one[name] > far ? "end" : "start",
          fill: COLOURS[run],
          fontWeight: 600,
          stroke: "var(--raised)",
          strokeWidth: 4,
        }),
      );
    }
  });
  marks.push(
    Plot.ruleY([0], { stroke: "var(--strong-line)" }),
    xAxis(decades(edges[0], edges.at(-1)), duration, "time of one query, log scale"),
  );
  return Plot.plot({
    width,
    height: 300,
    style: STYLE,
    marginLeft: 44,
    marginRight: 28,
    marginBottom: 48,
    x: { type: "log", domain: [edges[0], edges.at(-1)], axis: null },
    y: {
      domain: [0, top * 1.38],
      label: null,
      grid: true,
      ticks: 4,
      tickSize: 0,
      tickFormat: (t) => `${Math.round(t * 100)}%`,
    },
    marks,
  });
}

/** 1, 2 and 5 of each power of ten that lie between; only the 1s where there are many. */
function decades(low, high) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1)
    for (const step of [1, 2, 5]) all.push(step * 10 ** power);
  const inside = all.filter((tick) => tick >= low && tick <= high);
  return inside.length > 7
    ? inside.filter((tick) => Number.isInteger(Math.round(1e6 * Math.log10(tick)) / 1e6))
    : inside;
}
