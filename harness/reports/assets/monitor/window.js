// The window of this moment: numbers by ability, drift, feedback, tests.

import { count, duration, moment, NONE, percent, plain } from "../shared/numbers.js";
import { el, facts } from "../shared/page.js";
import { table } from "../shared/tables.js";

const RATES = [
  ["no_result", "no result"],
  ["abstained", "abstained"],
  ["failed", "failed"],
  ["false_positive", "false positive"],
];

/** Seconds since 1970 as people say them, in UTC. */
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
  const scored = `n ${count(all.scored)} labelled`;
  return [
    ...(data.labels ? data.metrics.map((m) => tile(m, plain(all.metrics[m]), scored)) : []),
    tile("no result", share(all.no_result.value), `n ${count(all.no_result.n)}`),
    tile("abstained", share(all.abstained.value), `n ${count(all.abstained.n)}`),
    tile("p95 of time", milliseconds(all.seconds.p95), `n ${count(all.seconds.n)}`),
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
      ...rates.map(([rate, said]) => number(said, (name) => share(cell(name)[rate].value))),
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
          ? "Too few queries with a text, in the window or among the labels, to tell."
          : "No labelled queries were given.",
      ),
    ];
  const of = `Of ${count(found.requests)} requests, ${count(found.n)} are of unlabelled queries. `;
  if (found.divergence === null)
    return [el("p", {}, `${of}That is too few to compare their words with the labelled ones.`)];
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
      ["queries with an unseen word", share(found.unseen_rate)],
      ["the same among labelled queries", share(found.labelled_unseen_rate)],
    ]),
    el("ul", { class: "caveats" }, el("li", {}, found.caveat)),
  ];
}

export function feedback(data) {
  const found = data.feedback;
  if (!found) return [el("p", { class: "note" }, "Neither clicks nor ratings were logged.")];
  const said = (cell, show) => (cell.n ? `${show(cell.value)} (n ${count(cell.n)})` : null);
  return [
    facts([
      ["requests with a click", said(found.click_rate, share)],
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

const excluded = (test) =>
  Object.entries(test.excluded)
    .map(([why, n]) => `${count(n)} ${why}`)
    .join(", ") || NONE;

export function tests(data) {
  if (!data.tests.length) return el("p", { class: "note" }, "None was asked for.");
  const state = (test) =>
    test.reference === null
      ? `measuring the reference: ${count(test.learned ?? 0)} of ${count(test.to_learn ?? 0)} ${test.observation_unit}`
      : !test.testable
        ? "not testable: the reference cannot become worse"
        : test.active
          ? "alert"
          : "not significant";
  return table(
    [
      { head: "rule", cell: ({ rule }) => rule },
      number("reference", ({ reference }) => plain(reference)),
      number("its n", ({ reference_n: n }) => (n === null ? "set" : count(n))),
      number("at worst", ({ reference_bound: bound }) => plain(bound)),
      number("tested", ({ tested, observation_unit: unit }) => `${count(tested)} ${unit}`),
      { head: "excluded", cell: excluded },
      number("evidence", ({ evidence }) => share(evidence)),
      {
        head: "false-alarm rate over all time",
        cell: ({ alpha, condition }) => `at most ${alpha} ${condition}`,
      },
      { head: "state", cell: state },
    ],
    data.tests,
    { class: "cards" },
  );
}
