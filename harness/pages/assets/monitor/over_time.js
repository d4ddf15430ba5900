// One number by hour or day.

let shown = null;

function choices(data) {
  return [
    ...(data.labels ? data.metrics.map((m) => [m, m]) : []),
    ["no_result", "no result"],
    ["abstained_rate", "abstained"],
    ["failed_rate", "failed"],
    ["p95", "p95 of time"],
    ["p50", "p50 of time"],
    ["click_rate", "recalls with a click"],
    ["rating", "mean rating"],
    ["n", "recalls"],
  ];
}

const OVER = {
  no_result: "known",
  click_rate: "watched",
  rating: "rated",
};

function series(data, name) {
  const metric = data.metrics.includes(name);
  return data.over_time.rows.map((row) => ({
    at: new Date(row.start * 1000),
    value: metric ? row.metrics[name] : row[name],
    n: metric ? row.scored : row[OVER[name] ?? "n"],
  }));
}

const said = (name, value) =>
  name === "n" ? count(value) : name[0] === "p" && name.length === 3 ? milliseconds(value) : plain(value);

function overTime(data) {
  const own = choices(data);
  if (!own.some(([name]) => name === shown)) shown = own[0][0];
  const later = data.over_time;
  const left = [
    later.dropped ? `${count(later.dropped)} older ones were dropped` : "",
    later.late ? `${count(later.late)} recalls came too late for theirs` : "",
    later.without_time ? `${count(later.without_time)} recalls have no time` : "",
    later.in_the_future ? `${count(later.in_the_future)} recalls are dated more than a day ahead` : "",
  ].filter(Boolean);
  find("time-how").textContent =
    `By ${later.bucket} of the recalls' own time (UTC). Small points are over few recalls.` +
    (left.length ? ` Not in here: ${left.join("; ")}.` : "");
  find("time-choices").replaceChildren(
    select("Show", own, shown, (value) => {
      shown = value;
      draw(data);
    }, { id: "time-select" }),
  );
  draw(data);
}

function draw(data) {
  const name = shown;
  const rows = series(data, name);
  const there = rows.filter((row) => row.value !== null && row.n > 0);
  const label = choices(data).find(([value]) => value === name)[1];
  chart(find("time-figure"), `${label} over time`, (width) => lineChart(width, there, name, label));
  find("time-table").replaceChildren(
    table(
      [
        ["from", "", (row) => moment(row.at / 1000)],
        [label, "number", (row) => said(name, row.value)],
        ["n", "number", (row) => count(row.n)],
      ],
      rows.toReversed(),
    ),
  );
}

function lineChart(width, rows, name, label) {
  if (!rows.length) {
    const empty = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    empty.setAttribute("width", width);
    empty.setAttribute("height", 40);
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("y", 24);
    text.setAttribute("fill", "var(--muted)");
    text.textContent = "Nothing measured yet.";
    empty.append(text);
    return empty;
  }
  const scaled = ["p50", "p95"].includes(name)
    ? rows.map((row) => ({ ...row, value: row.value * 1000 }))
    : rows;
  const top = ["p50", "p95", "rating", "n"].includes(name) ? null : [0, 1];
  const unit = ["p50", "p95"].includes(name) ? `${label}, ms` : label;
  const only = rows.length === 1;
  return Plot.plot({
    width,
    height: Math.max(220, Math.min(340, width * 0.4)),
    style: STYLE,
    marginLeft: 56,
    marginTop: 32,
    marginRight: 24,
    marginBottom: 40,
    x: {
      type: "utc",
      label: null,
      ...(only
        ? { domain: [new Date(+rows[0].at - 36e5), new Date(+rows[0].at + 36e5)] }
        : {}),
    },
    y: { label: unit, grid: true, ticks: 5, tickSize: 0, labelArrow: "none", ...(top ? { domain: top } : { zero: true }) },
    r: { range: [2, 6] },
    marks: [
      Plot.ruleY([0], { stroke: "var(--line)" }),
      Plot.lineY(scaled, { x: "at", y: "value", stroke: COLOURS[0], strokeWidth: 2 }),
      Plot.dot(scaled, { x: "at", y: "value", r: "n", fill: COLOURS[0], title: (row) => `${moment(row.at / 1000)}: ${said(name, ["p50", "p95"].includes(name) ? row.value / 1000 : row.value)} (n ${count(row.n)})` }),
    ],
  });
}
