// confidence, latency, unanswerable questions and updated facts.

import { across, COLOURS, chart, floor, plot, QUIET, shares, upright } from "../shared/charts.js";
import { term } from "../shared/glossary.js";
import { count, duration, percent, plain, withRandom } from "../shared/numbers.js";
import { el, facts, find } from "../shared/page.js";
import { data, LETTERS, runDot, several, who } from "./data.js";

export function others() {
  risk();
  latency();
  silence();
}

function risk() {
  const some = data.risk.find(Boolean);
  find("risk").hidden = !some;
  if (!some) return;
  const areas = data.risk
    .map(
      (one, run) =>
        one && `${who(run)}AURC ${plain(one.aurc)} (confidence: ${one.confidence_source})`,
    )
    .filter(Boolean);
  find("risk-how").textContent =
    `Risk: share of wrong answers (${some.wrong_definition}) among the most confident ones. ${areas.join("; ")}; n = ${count(some.n)}. Lower is better. Thin: best possible. Dotted: random.`;
  chart(find("risk-figure"), "risk against coverage", (width) => riskChart(width, data.risk));
}

function latency() {
  find("latency").hidden = !data.latency;
  if (!data.latency) return;
  const times = (one) =>
    one
      ? `median ${duration(one.p50)}, 95th percentile ${duration(one.p95)}, 99th percentile ${duration(one.p99)} (n = ${count(one.n)})`
      : "not measured";
  const words = data.latency.runs.map((one, run) => who(run) + times(one)).join(". ");
  find("latency-how").textContent =
    `${words[0].toUpperCase()}${words.slice(1)}. Not comparable between machines.`;
  chart(find("latency-figure"), "histogram of latencies", (width) =>
    latencyChart(width, data.latency),
  );
}

function silence() {
  const rows = ({ abstention, knowledge_update: updates, changes }) => [
    ...(abstention
      ? [
          ["Unanswerable questions", count(abstention.n_unanswerable)],
          [term("False positive rate"), plain(abstention.false_positive_rate)],
        ]
      : []),
    ...(abstention?.confidence
      ? [
          [term("AUROC"), plain(abstention.confidence.auroc)],
          ["F1 of abstention, cross-validated", plain(abstention.confidence.at_threshold.f1)],
        ]
      : []),
    ...sectionFacts(updates),
    ...sectionFacts(changes),
  ];
  const blocks = data.runs.map(rows);
  find("silence").hidden = !blocks.some((pairs) => pairs.length);
  find("silence-facts").replaceChildren(
    ...blocks.map((pairs, run) =>
      el(
        "div",
        { class: "card" },
        several && el("h3", {}, runDot(run), LETTERS[run]),
        facts(pairs),
      ),
    ),
  );
}

const COUNTED = {
  n: "Questions about updated facts",
  n_after_update: "Questions after an update",
  n_after_forget: "Questions after a deletion",
  n_with_future: "Questions with later documents",
};

/** The numbers of questions and the values of a section of scores.json. */
function sectionFacts(section) {
  if (!section) return [];
  const counts = Object.keys(COUNTED).filter((name) => typeof section[name] === "number");
  const values = Object.entries(section.values);
  return [
    ...counts.map((name) => [COUNTED[name], count(section[name])]),
    ...values
      .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
      .map(([name, value]) => [
        term(name.replaceAll("_", " ")),
        withRandom(value, section.random_baseline[name]),
      ]),
  ];
}

/** Share of wrong answers against coverage. */
function riskChart(width, runs) {
  const words = (x, y, text, more) =>
    Plot.text([[x, y]], {
      text: () => text,
      fill: QUIET,
      stroke: "var(--raised)",
      strokeWidth: 5,
      ...more,
    });
  const first = runs.findIndex(Boolean);
  const ofRun = (one, run) => {
    if (!one) return null;
    const path = (ys) => one.coverage.map((x, at) => [x, ys[at]]);
    const colour = COLOURS[run];
    const most = one.best[Math.floor(one.best.length * 0.8)];
    return [
      run === first ? Plot.line(path(one.best), { stroke: QUIET, strokeWidth: 1 }) : null,
      run === first && most > 0.1 ? words(0.8, most, "best possible", { dy: 14 }) : null,
      Plot.line(
        [
          [0, one.overall],
          [1, one.overall],
        ],
        {
          stroke: several ? colour : QUIET,
          strokeDasharray: "1 4",
          strokeLinecap: "round",
          strokeWidth: 2,
        },
      ),
      Plot.line(path(one.risk), { stroke: colour, strokeWidth: 2.5 }),
      words(1, one.overall, several ? LETTERS[run] : plain(one.overall, 2), {
        dx: 8,
        dy: several ? (run === 0 ? -7 : 7) : 0,
        textAnchor: "start",
        fill: colour,
        fontWeight: 600,
      }),
      several ? null : words(0.02, one.overall, "random", { dy: -10, textAnchor: "start" }),
    ];
  };
  return plot(width, {
    marginRight: 44,
    x: {
      domain: [0, 1],
      label:
        width < 400
          ? "coverage, most confident first"
          : "coverage: share of questions answered, most confident first",
      labelAnchor: "center",
      labelArrow: "none",
      ticks: 5,
      tickFormat: (t) => percent(t),
    },
    y: shares(),
    marks: [floor(), runs.map(ofRun)],
  });
}

/** histogram of latencies, with bins of equal width on a log scale. */
function latencyChart(width, { edges_ms: edges, runs }) {
  const far = edges[Math.floor(edges.length * 0.72)];
  const top = Math.max(...runs.filter(Boolean).flatMap((one) => one.share));
  // Labels have different heights, so that close percentiles stay readable.
  const heights = (run) =>
    several ? { p50: run === 0 ? 1.24 : 1.08 } : { p50: 1.32, p95: 1.2, p99: 1.08 };
  const ofRun = (one, run) => {
    if (!one) return null;
    const bins = one.share.map((share, at) => ({ x1: edges[at], x2: edges[at + 1], share }));
    const percentile = ([name, high]) => [
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
    ];
    return [
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
      Object.entries(heights(run)).map(percentile),
    ];
  };
  return plot(width, {
    marginRight: 28,
    x: { type: "log", domain: [edges[0], edges.at(-1)], axis: null },
    y: upright({ domain: [0, top * 1.38], ticks: 4, tickFormat: (t) => percent(t) }),
    marks: [
      runs.map(ofRun),
      Plot.ruleY([0], { stroke: "var(--strong-line)" }),
      across(
        decades(edges[0], edges.at(-1), width / 75),
        duration,
        "latency per question, log scale",
      ),
    ],
  });
}

/** Ticks at 1, 2 and 5 of each power of ten; at 1 only if there would be more than `many`. */
function decades(low, high, many) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) powers.push(power);
  const ticks = (steps) =>
    powers
      .flatMap((power) => steps.map((step) => step * 10 ** power))
      .filter((tick) => tick >= low && tick <= high);
  return ticks([1, 2, 5]).length > Math.min(7, many) ? ticks([1]) : ticks([1, 2, 5]);
}
