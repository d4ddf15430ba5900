// The current window: numbers by ability, drift, feedback, tests.

import { count, duration, many, moment, NONE, percent, plain } from "../shared/numbers.js";
import { el, facts } from "../shared/page.js";
import { table } from "../shared/tables.js";

const RATES = [
  ["no_result", "no result"],
  ["abstained", "abstained"],
  ["failed", "failed"],
  ["false_positive", "false positive"],
];

/** Formats seconds since 1970 as a time in UTC. */
export const when = (time) => moment(time === null ? null : time * 1000, "second");
const share = (value) => percent(value, 1);
export const milliseconds = (seconds) => duration(seconds === null ? null : seconds * 1000);
const number = (head, cell) => ({ head, number: true, cell });

function tile(what, value, n) {
  return el(
    "div",
    { class: "tile" },
    el("div", { class: "what" }, what),
    el("div", { class: "value" }, value),
    el("div", { class: "what number" }, n),
  );
}

export function tiles(data) {
  const all = data.slices.all;
  const scored = `${count(all.scored)} scored requests`;
  return [
    ...(data.labels ? data.metrics.map((m) => tile(m, plain(all.metrics[m]), scored)) : []),
    tile("no result", share(all.no_result.value), many(all.no_result.n, "request")),
    tile("abstained", share(all.abstained.value), many(all.abstained.n, "request")),
    tile("p95 latency", milliseconds(all.seconds.p95), many(all.seconds.n, "request")),
  ];
}

export function abilities(data) {
  const names = Object.keys(data.slices).sort((a, b) =>
    a === "all" ? 1 : b === "all" ? -1 : a.localeCompare(b),
  );
  const cell = (name) => data.slices[name];
  const metrics = data.labels ? data.metrics : [];
  const rates = RATES.filter(([rate]) => cell("all")[rate].n);
  return table(
    [
      { head: "ability", cell: (name) => name },
      number("requests", (name) => count(cell(name).n)),
      ...(metrics.length ? [number("scored", (name) => count(cell(name).scored))] : []),
      ...metrics.map((m) => number(m, (name) => plain(cell(name).metrics[m]))),
      ...rates.map(([rate, head]) => number(head, (name) => share(cell(name)[rate].value))),
      ...["p50", "p95", "p99"].map((p) => number(p, (name) => milliseconds(cell(name).seconds[p]))),
    ],
    names,
    { class: "cards", about: (name) => ({ class: name === "all" ? "all" : null }) },
  );
}

export function drift(data) {
  const found = data.drift;
  if (!found)
    return [
      el(
        "p",
        { class: "note" },
        data.labels
          ? "Not measurable: too few labelled queries have a text."
          : "Not measurable: no labelled queries.",
      ),
    ];
  const unlabelled = `${count(found.n)} of ${count(found.requests)} requests are unlabelled queries. `;
  if (found.divergence === null)
    return [el("p", {}, `${unlabelled}Too few to compare their words with the labelled queries.`)];
  return [
    el(
      "p",
      {},
      unlabelled +
        (found.excess > 0
          ? "Their words differ from the labelled queries by more than chance."
          : "Their words do not differ from the labelled queries by more than chance."),
    ),
    facts([
      ["divergence of words (bits)", plain(found.divergence)],
      ["95th percentile by chance (bits)", plain(found.level)],
      ["queries with a new word", share(found.unseen_rate)],
      ["same, among labelled queries", share(found.labelled_unseen_rate)],
    ]),
    el("ul", { class: "caveats" }, el("li", {}, found.caveat)),
  ];
}

export function feedback(data) {
  const found = data.feedback;
  if (!found) return [el("p", { class: "note" }, "No clicks or ratings were logged.")];
  const value = (cell, show) => (cell.n ? `${show(cell.value)} (n ${count(cell.n)})` : null);
  return [
    facts([
      ["click rate", value(found.click_rate, share)],
      ["reciprocal rank of the first click", value(found.first_click_mrr, plain)],
      ["mean rating", value(found.rating, plain)],
    ]),
    el(
      "ul",
      { class: "caveats" },
      found.caveats.map((one) => el("li", {}, one)),
    ),
  ];
}

const excluded = (test) =>
  Object.entries(test.excluded)
    .map(([why, n]) => `${count(n)} ${why}`)
    .join(", ") || NONE;

const testState = (test) => {
  if (test.reference === null)
    return `measuring the reference: ${count(test.learned ?? 0)} of ${count(test.to_learn ?? 0)} ${test.observation_unit}`;
  if (!test.testable) return "not testable: the reference cannot become worse";
  return test.active ? "alert" : "no significant change";
};

export function tests(data) {
  if (!data.tests.length) return el("p", { class: "note" }, "No tests.");
  return table(
    [
      { head: "test", cell: ({ rule }) => rule },
      { head: "state", cell: testState },
      number("reference", ({ reference }) => plain(reference)),
      number("n of reference", ({ reference_n: n }) => (n === null ? "given" : count(n))),
      number("worst plausible", ({ reference_bound: bound }) => plain(bound)),
      number("tested", ({ tested, observation_unit: unit }) => `${count(tested)} ${unit}`),
      { head: "excluded", cell: excluded },
      number("evidence (alert at 100%)", ({ evidence }) => percent(evidence)),
      {
        head: "false-alarm rate",
        cell: ({ alpha, condition }) => `at most ${percent(alpha)}, ${condition}`,
      },
    ],
    data.tests,
    { class: "cards" },
  );
}
