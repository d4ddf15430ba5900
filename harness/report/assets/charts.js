// The drawings, by Observable Plot. Colour tells runs apart, dashes tell metrics apart.

const COLOURS = ["var(--a)", "var(--b)"];
const QUIET = "var(--muted)";
const LETTERS = ["A", "B"];
const STYLE = { fontSize: "13px", background: "none", overflow: "visible" };

/** Put a drawing into its figure, as wide as that is, and again whenever that changes. */
function chart(figure, label, draw) {
  const box = figure.querySelector(".chart");
  const redraw = () => {
    const width = Math.floor(box.clientWidth);
    if (!width) return;
    const svg = draw(width);
    const inner = svg.tagName === "svg" ? svg : svg.querySelector("svg");
    inner.setAttribute("role", "img");
    inner.setAttribute("aria-label", label);
    box.replaceChildren(svg);
  };
  box.redraw = redraw;
  if (!box.watched) {
    box.watched = true;
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth === width) return;
      width = box.clientWidth;
      box.redraw();
    }).observe(box);
  }
  redraw();
}

/** Series of one run as points: [{x, value, low, high, chance, ceiling}]. */
function points(xs, series) {
  return xs.map((x, at) => ({
    x, value: series.value[at], low: series.low?.[at], high: series.high?.[at],
    chance: series.chance?.[at], ceiling: series.ceiling?.[at],
  }));
}

/** Means by slice with their intervals, beside chance and ceiling. */
function abilityChart(width, names, cells, metric) {
  const small = width < 560, runs = cells.length;
  const rows = names.flatMap(({ name }) => cells.map((one, run) => {
    const cell = one[name][metric];
    return { name, run, value: cell.value, low: cell.interval?.low, high: cell.interval?.high, chance: cell.chance, ceiling: cell.ceiling };
  }));
  const first = rows.filter((row) => row.run === 0);
  const marks = [
    Plot.tickX(first.filter((row) => row.ceiling != null), { x: "ceiling", y: "name", stroke: QUIET, strokeWidth: 2 }),
    Plot.tickX(first.filter((row) => row.chance != null), { x: "chance", y: "name", stroke: QUIET, strokeWidth: 2, strokeDasharray: "3 2" }),
  ];
  for (let run = 0; run < runs; run += 1) {
    const mine = rows.filter((row) => row.run === run && row.value != null);
    const dy = runs === 1 ? 0 : run === 0 ? -9 : 9;
    marks.push(
      Plot.ruleY(mine.filter((row) => row.low != null), { x1: "low", x2: "high", y: "name", dy, stroke: COLOURS[run], strokeWidth: 4, strokeOpacity: 0.45, strokeLinecap: "round" }),
      Plot.dot(mine, { x: "value", y: "name", dy, r: 6, fill: COLOURS[run], stroke: "var(--raised)", strokeWidth: 1.5 }),
      Plot.text(mine, {
        x: 1, y: "name", dy, dx: 12, textAnchor: "start", fill: COLOURS[run], fontWeight: 600, fontSize: 13,
        text: (row) => (small ? plain(row.value) : `${plain(row.value)}   ${row.low == null ? "" : span(row.low, row.high)}`),
      }),
    );
  }
  return Plot.plot({
    width, height: names.length * (runs === 1 ? 44 : 56) + 46, style: STYLE,
    marginLeft: small ? 104 : 136, marginRight: small ? 52 : 176, marginTop: 6, marginBottom: 40,
    x: { domain: [0, 1], label: metric, grid: true, ticks: 5, labelAnchor: "center", labelArrow: "none" },
    y: { domain: names.map(({ name }) => name), label: null, tickSize: 0, padding: 0.3 },
    marks,
  });
}

const FAMILY = { recall: "recall", precision: "precision", f1: "F1", hit: "hit", recall_all: "recall_all", ndcg: "nDCG" };

/** Recall and one other metric against k, for every run, with the chosen k marked. */
function depthChart(width, runs, slice, other, k) {
  const xs = runs[0].ks, deep = xs.at(-1) > 100, last = xs.at(-1);
  const right = k > (deep ? Math.sqrt(last) : last / 2);
  const marks = [Plot.ruleY([0], { stroke: "var(--line)" }), Plot.ruleX([k], { stroke: "var(--ink)", strokeWidth: 1.5 })];
  marks.push(Plot.text([[k, 1]], { text: () => `k = ${k}`, dx: right ? -8 : 8, dy: -2, textAnchor: right ? "end" : "start", fontWeight: 600, fontSize: 13, fill: "var(--ink)", stroke: "var(--raised)", strokeWidth: 5 }));
  const ends = [];
  runs.forEach((one, run) => {
    const families = one.slices[slice].families;
    for (const [at, family] of ["recall", other].entries()) {
      const line = points(one.ks, families[family]);
      const dash = at === 0 ? null : "6 4";
      if (line[0].low !== undefined) marks.push(Plot.areaY(line, { x: "x", y1: "low", y2: "high", fill: COLOURS[run], fillOpacity: 0.13 }));
      if (run === 0) marks.push(Plot.lineY(line.filter((p) => p.chance != null), { x: "x", y: "chance", stroke: QUIET, strokeDasharray: "1 4", strokeLinecap: "round", strokeWidth: 2 }));
      if (run === 0 && at === 1) marks.push(Plot.lineY(line.filter((p) => p.ceiling != null), { x: "x", y: "ceiling", stroke: QUIET, strokeWidth: 1 }));
      marks.push(Plot.lineY(line, { x: "x", y: "value", stroke: COLOURS[run], strokeWidth: 2.5, strokeDasharray: dash }));
      marks.push(Plot.dot(line.filter((p) => p.x === k), { x: "x", y: "value", r: 5, fill: COLOURS[run], stroke: "var(--raised)", strokeWidth: 1.5 }));
      ends.push({ x: last, y: line.at(-1).value, run, text: FAMILY[family] + (runs.length > 1 ? ` ${LETTERS[run]}` : "") });
    }
    if (run === 0 && families.recall.chance) ends.push({ x: last, y: families.recall.chance.at(-1), run: -1, text: "chance" });
  });
  for (const end of apart(ends, 0.055)) {
    marks.push(Plot.text([end], { x: "x", y: "at", text: "text", dx: 8, textAnchor: "start", fill: end.run < 0 ? QUIET : COLOURS[end.run], fontWeight: 600, fontSize: 13 }));
  }
  return Plot.plot({
    width, height: Math.max(300, Math.min(420, width * 0.5)), style: STYLE, marginLeft: 44, marginRight: 96, marginBottom: 42,
    x: { type: deep ? "log" : "linear", domain: [1, last], label: "k: documents taken from the ranking", labelAnchor: "center", labelArrow: "none", ticks: deep ? [1, 3, 10, 30, 100, 300, 1000].filter((t) => t <= last) : [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100].filter((t) => t <= last) },
    y: { domain: [0, 1], label: null, grid: true, ticks: 5 },
    marks,
  });
}

/** Labels moved as little as it takes not to lie on each other; gives each its `at`. */
function apart(labels, gap) {
  const sorted = labels.map((label) => ({ ...label, at: label.y })).sort((a, b) => a.y - b.y);
  for (let i = 1; i < sorted.length; i += 1) sorted[i].at = Math.max(sorted[i].at, sorted[i - 1].at + gap);
  const over = (sorted.at(-1)?.at ?? 0) - 1;
  if (over > 0) for (const label of sorted) label.at -= Math.min(over, Math.max(0, label.at - gap * 0.5));
  return sorted;
}

/** Recall within a budget of tokens. */
function tokenChart(width, runs, slice) {
  const last = runs[0].budgets.at(-1), marks = [Plot.ruleY([0], { stroke: "var(--line)" })], ends = [];
  runs.forEach((one, run) => {
    const line = points(one.budgets, one.slices[slice].recall);
    if (line[0].low !== undefined) marks.push(Plot.areaY(line, { x: "x", y1: "low", y2: "high", fill: COLOURS[run], fillOpacity: 0.13 }));
    marks.push(Plot.lineY(line, { x: "x", y: "value", stroke: COLOURS[run], strokeWidth: 2.5 }), Plot.dot(line, { x: "x", y: "value", r: 3.5, fill: COLOURS[run], tip: true, title: (p) => `${count(p.x)} tokens\nrecall ${plain(p.value)}` }));
    ends.push({ x: last, y: line.at(-1).value, run, text: runs.length > 1 ? LETTERS[run] : "" });
  });
  for (const end of apart(ends, 0.07)) marks.push(Plot.text([end], { x: "x", y: "at", text: "text", dx: 10, textAnchor: "start", fill: COLOURS[end.run], fontWeight: 600 }));
  return Plot.plot({
    width, height: 300, style: STYLE, marginLeft: 44, marginRight: 28, marginBottom: 42,
    x: { type: "log", label: "tokens of retrieved text", labelAnchor: "center", labelArrow: "none", ticks: [50, 100, 200, 500, 1000, 2000, 5000].filter((t) => t <= last), tickFormat: count },
    y: { domain: [0, 1], label: null, grid: true, ticks: 5 },
    marks,
  });
}

/** Share of wrong answers among the surest, from the surest to all. */
function riskChart(width, runs) {
  const marks = [Plot.ruleY([0], { stroke: "var(--line)" })], ends = [];
  runs.forEach((one, run) => {
    if (!one) return;
    const line = one.coverage.map((x, at) => ({ x, y: one.risk[at] }));
    const best = one.coverage.map((x, at) => ({ x, y: one.best[at] }));
    if (run === 0 || !runs[0]) {
      marks.push(Plot.lineY(best, { x: "x", y: "y", stroke: QUIET, strokeWidth: 1 }));
      const at = best[Math.floor(best.length * 0.8)];
      ends.push({ x: 0.8, y: at.y, text: "perfect order", run: -1, dy: 14 });
    }
    marks.push(
      Plot.lineY([[0, one.overall], [1, one.overall]], { stroke: runs.length > 1 ? COLOURS[run] : QUIET, strokeDasharray: "1 4", strokeLinecap: "round", strokeWidth: 2 }),
      Plot.lineY(line, { x: "x", y: "y", stroke: COLOURS[run], strokeWidth: 2.5 }),
    );
    marks.push(Plot.text([[1, one.overall]], { text: () => (runs.length > 1 ? LETTERS[run] : plain(one.overall, 2)), dx: 8, dy: runs.length > 1 ? (run === 0 ? -7 : 7) : 0, textAnchor: "start", fill: COLOURS[run], fontWeight: 600 }));
    if (run === 0) ends.push({ x: 0.02, y: one.overall, text: "no order: a guess", run: -1, dy: -10, anchor: "start" });
  });
  for (const end of ends) marks.push(Plot.text([end], { x: "x", y: "y", text: "text", dy: end.dy, textAnchor: end.anchor ?? "middle", fill: QUIET, stroke: "var(--raised)", strokeWidth: 5 }));
  return Plot.plot({
    width, height: 300, style: STYLE, marginLeft: 44, marginRight: 44, marginBottom: 42,
    x: { domain: [0, 1], label: "coverage: share of questions answered, the surest first", labelAnchor: "center", labelArrow: "none", ticks: 5, tickFormat: (t) => `${Math.round(t * 100)}%` },
    y: { domain: [0, 1], label: null, grid: true, ticks: 5 },
    marks,
  });
}

/** How long queries took: shares by bins of equal width on a log scale. */
function latencyChart(width, latency) {
  const edges = latency.edges_ms, several = latency.runs.length > 1, marks = [];
  const middle = Math.sqrt(edges[0] * edges.at(-1)), top = Math.max(...latency.runs.filter(Boolean).flatMap((one) => one.share));
  latency.runs.forEach((one, run) => {
    if (!one) return;
    const bins = one.share.map((share, at) => ({ x1: edges[at], x2: edges[at + 1], share }));
    marks.push(Plot.rect(bins.filter((bin) => bin.share), { x1: "x1", x2: "x2", y1: 0, y2: "share", fill: COLOURS[run], fillOpacity: several ? 0.45 : 0.6, inset: 0.5 }));
    // Each label stands on a line of its own, so that near percentiles do not hide each other.
    const said = several ? [["p50", run === 0 ? 1.24 : 1.08]] : [["p50", 1.32], ["p95", 1.2], ["p99", 1.08]];
    for (const [name, high] of said) {
      marks.push(
        Plot.ruleX([one[name]], { stroke: COLOURS[run], strokeWidth: 1.5, y1: 0, y2: top * high }),
        Plot.text([[one[name], top * high]], { text: () => `${several ? `${LETTERS[run]} ` : ""}${name} ${duration(one[name])}`, dx: one[name] > middle ? -6 : 6, textAnchor: one[name] > middle ? "end" : "start", fill: COLOURS[run], fontWeight: 600, stroke: "var(--raised)", strokeWidth: 4 }),
      );
    }
  });
  marks.push(Plot.ruleY([0], { stroke: "var(--strong-line)" }));
  return Plot.plot({
    width, height: 300, style: STYLE, marginLeft: 44, marginRight: 28, marginBottom: 42,
    x: { type: "log", domain: [edges[0], edges.at(-1)], label: "time of one query, log scale", labelAnchor: "center", labelArrow: "none", ticks: 4, tickFormat: duration },
    y: { domain: [0, top * 1.38], label: null, grid: true, ticks: 4, tickFormat: (t) => `${Math.round(t * 100)}%` },
    marks,
  });
}
