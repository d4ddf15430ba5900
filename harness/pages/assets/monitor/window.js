// The window of this moment: numbers by ability, drift, feedback, tests.

const RATES = [
  ["no_result", "no result"],
  ["abstained", "abstained"],
  ["failed", "failed"],
  ["false_evidence", "false evidence"],
];

function moment(time) {
  const date = new Date((time ?? NaN) * 1000);
  if (Number.isNaN(+date)) return NONE; // nobody knows, or no calendar has it
  return date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
}
const share = (value) =>
  value === null || value === undefined ? NONE : `${(value * 100).toFixed(1)}%`;
const milliseconds = (seconds) => duration(seconds === null ? null : seconds * 1000);

function tile(what, value, n) {
  return el(
    "div",
    { class: "tile" },
    el("div", { class: "what" }, what),
    el("div", { class: "value" }, value),
    el("div", { class: "what number" }, n),
  );
}

function tiles(data) {
  const all = data.slices.all;
  const scored = `n ${count(all.scored)} labelled`;
  return [
    ...(data.labels ? data.metrics.map((m) => tile(m, plain(all.metrics[m]), scored)) : []),
    tile("no result", share(all.no_result.value), `n ${count(all.no_result.n)}`),
    tile("abstained", share(all.abstained.value), `n ${count(all.abstained.n)}`),
    tile("p95 of time", milliseconds(all.seconds.p95), `n ${count(all.seconds.n)}`),
  ];
}

/** A table; `columns` are [head, class, cell of a row]. */
function table(columns, rows, attributes = () => ({})) {
  const cells = (row) =>
    columns.map(([, kind, cell], at) =>
      el(at ? "td" : "th", at ? { class: kind } : { scope: "row" }, cell(row)),
    );
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map(([head, kind]) => el("th", { scope: "col", class: kind }, head)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) => el("tr", attributes(row), cells(row))),
    ),
  );
}

function abilities(data) {
  const names = Object.keys(data.slices).sort((a, b) =>
    a === "all" ? 1 : b === "all" ? -1 : a.localeCompare(b),
  );
  const cell = (name) => data.slices[name];
  const metrics = data.labels ? data.metrics : [];
  const rates = RATES.filter(([rate]) => cell("all")[rate].n);
  return table(
    [
      ["ability", "", (name) => name],
      ["recalls", "number", (name) => count(cell(name).n)],
      ...(metrics.length ? [["scored", "number", (name) => count(cell(name).scored)]] : []),
      ...metrics.map((m) => [m, "number", (name) => plain(cell(name).metrics[m])]),
      ...rates.map(([rate, said]) => [said, "number", (name) => share(cell(name)[rate].value)]),
      ...["p50", "p95", "p99"].map((p) => [
        p,
        "number",
        (name) => milliseconds(cell(name).seconds[p]),
      ]),
    ],
    names,
    (name) => ({ class: name === "all" ? "all" : null }),
  );
}

function drift(data) {
  const found = data.drift;
  if (!found)
    return [
      el(
        "p",
        { class: "note" },
        data.labels
          ? "Too few queries with a text, in the window or among the labels, to tell."
          : "No labelled queries were given.",
      ),
    ];
  const of = `Of ${count(found.recalls)} recalls, ${count(found.n)} are of queries that are not labelled. `;
  if (found.divergence === null)
    return [el("p", {}, of + "That is too few to compare their words with the labelled ones.")];
  return [
    el(
      "p",
      {},
      of +
        (found.excess > 0
          ? "Their words are further from the labelled queries than these are from each other."
          : "Their words are as near to the labelled queries as these are to each other."),
    ),
    facts([
      ["divergence of words, bits", plain(found.divergence)],
      ["level among labelled queries", plain(found.level)],
      ["queries with an unseen word", share(found.unseen)],
      ["the same among labelled queries", share(found.unseen_level)],
    ]),
    el("ul", { class: "caveats" }, el("li", {}, found.caveat)),
  ];
}

function feedback(data) {
  const found = data.feedback;
  if (!found) return [el("p", { class: "note" }, "Neither clicks nor ratings were logged.")];
  const said = (cell, show) => (cell.n ? `${show(cell.value)} (n ${count(cell.n)})` : null);
  return [
    facts([
      ["recalls with a click", said(found.click_rate, share)],
      ["reciprocal rank of the first click", said(found.first_click_mrr, plain)],
      ["mean rating", said(found.rating, plain)],
    ]),
    el(
      "ul",
      { class: "caveats" },
      found.caveats.map((one) => el("li", {}, one)),
    ),
  ];
}

const leftOut = (test) =>
  Object.entries(test.left_out)
    .map(([why, n]) => `${count(n)} ${why}`)
    .join(", ") || NONE;

function tests(data) {
  if (!data.tests.length) return el("p", { class: "note" }, "None was asked for.");
  const state = (test) =>
    test.learning
      ? `measuring the reference: ${count(test.learned[0])} of ${count(test.learned[1])} ${test.unit}`
      : !test.testable
        ? "not testable: the reference cannot become worse"
        : test.alarm
          ? "alarm"
          : "no change shown";
  return table(
    [
      ["looks for", "", (test) => test.test],
      ["reference", "number", (test) => plain(test.reference)],
      ["its n", "number", (test) => (test.reference_n === null ? "set" : count(test.reference_n))],
      ["at worst", "number", (test) => plain(test.reference_bound)],
      ["tested", "number", (test) => `${count(test.tested)} ${test.unit}`],
      ["left out", "", (test) => leftOut(test)],
      ["evidence", "number", (test) => share(test.evidence)],
      ["chance of a false alarm, ever", "", (test) => `at most ${test.alpha} ${test.condition}`],
      ["state", "", state],
    ],
    data.tests,
  );
}
