// Puts the report together from the data; every number on it stands there.

import { explained, term } from "../shared/glossary.js";
import {
  count,
  intervalSaid,
  moment,
  NONE,
  parameters,
  plain,
  pValue,
  signed,
  span,
} from "../shared/numbers.js";
import { contents, el, facts, find, replace, reveal, select } from "../shared/page.js";
import { legend } from "../shared/save_chart.js";
import { table } from "../shared/tables.js";
import { abilities } from "./abilities.js";
import { addedSections } from "./added.js";
import { answered } from "./answered.js";
import { causes } from "./causes.js";
import { others } from "./confidence_and_time.js";
import {
  chosen,
  data,
  LETTERS,
  onlySlice,
  protocolOf,
  runDot,
  several,
  view,
  who,
} from "./data.js";
import { depth, prompt } from "./depth.js";
import { opened, prepare, questions } from "./questions.js";

const what = (...words) => el("div", { class: "what" }, ...words);

function head() {
  const { dataset, runs } = data;
  find("eyebrow").textContent =
    `Retrieval report${data.share ? " · without the texts of the dataset" : ""} · harness ${data.harness}`;
  find("title").textContent = document.title;
  find("lede").textContent =
    `${count(data.asked)} questions${data.asked === data.in_dataset ? "" : ` of ${count(data.in_dataset)}`} over ${dataset.granularity}s, ${dataset.text} text, ${dataset.split}; rankings at most ${count(data.depth)} deep; data ${dataset.fingerprint.slice(0, 8)}.`;
  if (dataset.published_files === false)
    find("lede").append(" ", el("span", { class: "tag bad" }, "not the published files"));
  find("runs").replaceChildren(
    ...runs.map((run, at) =>
      several
        ? el("div", { class: "run" }, el("h3", {}, runDot(at), who(at), run.system), about(run))
        : about(run),
    ),
  );
  if (several) legend.push(...runs.map(({ system }, at) => [who(at) + system, ["--a", "--b"][at]]));
  const notes = runs.flatMap((run, at) =>
    [
      ...(run.sees_gold_labels ? ["was shown the answer key: no competitor"] : []),
      ...run.warnings,
    ].map((words) => who(at) + words),
  );
  const settings = table(
    [
      { head: "Setting", cell: ({ setting }) => setting },
      ...runs.map((_, at) => ({ head: LETTERS[at], cell: ({ values }) => values[at] })),
    ],
    data.settings,
    { class: "cards" },
  );
  replace(
    find("notes"),
    data.settings.length > 0 &&
      el("div", { class: "differs wide" }, el("h3", {}, "What differs between the runs"), settings),
    notes.length > 0 &&
      el(
        "ul",
        { class: "note-list" },
        [...new Set(notes)].map((words) => el("li", {}, words)),
      ),
  );
  find("footer").textContent =
    `Made by harness ${data.harness} from ${runs.map((run) => run.name).join(" and ")}; data ${dataset.fingerprint}; queries ${data.digest}. Numbers are computed there; this page draws them and loads nothing from a network.`;
}

const about = (run) =>
  facts([
    ["Version", run.version],
    ["System", run.retriever === run.system ? null : run.retriever],
    ["Revision", run.revision],
    ["Parameters", parameters(run.params)],
    ["Rankings", run.depth_message],
    ["Failed", count(run.failed)],
    ["Without a ranking", run.without_ranking ? count(run.without_ranking) : null],
    ["Finished", `${moment(run.finished)} UTC`],
    ["By", run.submitted_by],
  ]);

function headline() {
  const { block, metric } = view();
  replace(
    find("choices"),
    select(
      "Protocol",
      data.protocols.map(protocolOf),
      protocolOf(block),
      (protocol) =>
        chosen.set({
          protocol,
          metric: data.protocols.find((one) => protocolOf(one) === protocol).lead,
        }),
      { id: "protocol" },
    ),
    select("Metric", groups(block), metric, (name) => chosen.set({ metric: name }), {
      id: "metric",
    }),
  );
  const slice = onlySlice(block.slices.map(({ name }) => name));
  if (!slice || !metric) {
    replace(find("figure"), el("p", {}, "No question could be scored under this protocol."));
    return;
  }
  const cells = block.results.map((ofRun) => ofRun[slice][metric]);
  const of = slice === "all" ? "all questions" : slice;
  const answeredOnly = ({ value: mean, n }) =>
    what("answered only ", el("span", { class: "number" }, plain(mean)), ` (${count(n)})`);
  const value = ({ value: mean, interval, answered_only: answered }, at) =>
    el(
      "div",
      {},
      what(several ? [runDot(at), who(at), data.runs[at].system] : [term(metric), `, ${of}`]),
      el("div", { class: `value run-${"ab"[at]}` }, plain(mean)),
      what(
        interval ? [term("95% interval"), ` ${span(interval.low, interval.high)}`] : "no interval",
      ),
      answered ? answeredOnly(answered) : null,
    );
  const level = (name, words) => el("div", {}, what(name), el("div", { class: "number" }, words));
  const { random_baseline: random, random_method: drawn } = cells[0];
  const { upper_bound: bound, upper_bound_method: bounded } = cells[0];
  const frame = [
    ["random", random, drawn],
    ["max", bound, bounded],
  ]
    .filter(([, value]) => value !== null)
    .map(([name, value, how]) => level(term(name, how ? `${name}, ${how}` : name), plain(value)));
  replace(
    find("figure"),
    el(
      "div",
      { class: "big" },
      cells.map(value),
      frame,
      level(term("n"), [...new Set(cells.map(({ n }) => count(n)))].join(" | ")),
    ),
    several && verdict(block.pairs[slice]?.[metric], metric, block.dropped),
    el(
      "p",
      { class: "how" },
      `${block.protocol}: ${block.description}.${leftOut(block)} ${intervalSaid(cells[0].interval)}.`,
    ),
  );
}

/** The metrics of a protocol, the main ones first, then by family. */
function groups({ metrics, main_metrics: main }) {
  const others = metrics.filter((name) => !main.includes(name));
  const families = [...new Set(others.map((name) => name.split("@")[0]))];
  const ofFamily = (family) => others.filter((name) => name.split("@")[0] === family);
  return [["main", main], ...families.map((family) => [family, ofFamily(family)])];
}

/** What was not scored, and why. */
function leftOut(block) {
  const said = block.excluded.map((reasons) =>
    Object.entries(reasons)
      .map(([reason, n]) => `${count(n)} ${reason}`)
      .join("; "),
  );
  const words =
    new Set(said).size === 1
      ? said[0]
      : said.map((one, at) => who(at) + (one || "none")).join("; ");
  return words ? ` Not scored: ${words}.` : "";
}

/** What a paired comparison says, in a sentence. */
function verdict(pair, metric, dropped) {
  if (!pair) return el("p", { class: "verdict" }, "These two were not compared in this metric.");
  const p = `(p = ${pair.p === null ? NONE : pValue(pair.p)}, corrected)`;
  const end = pair.shown
    ? `A difference is shown ${p}.`
    : `No difference is shown ${p}, which is not the same as none.`;
  const could =
    pair.detectable === null
      ? "With so few that differ, or so unequal haystacks, no smallest one that could have been shown is known."
      : `The smallest that these questions could have shown at 80% power: ${plain(pair.detectable)}.`;
  const alone = dropped
    .map((n, at) => n && ` ${count(n)} questions of ${LETTERS[at]} have no value in the other.`)
    .filter(Boolean);
  return el(
    "p",
    { class: "verdict" },
    term(metric),
    ", B − A: ",
    el("strong", { class: "number" }, signed(pair.difference)),
    ` (95% interval ${span(pair.low, pair.high, signed)}). ${end} ${could} B won ${count(pair.wins)}, lost ${count(pair.losses)}, tied ${count(pair.ties)}.${alone.join("")}`,
  );
}

/** What the page has numbers of, in the order in which one meets them. */
function words() {
  const metrics = [view().metric, ...data.protocols.flatMap((block) => block.metrics)];
  const families = [...new Set(metrics.map((name) => name.split("@")[0]))];
  const pairs = several ? ["B − A", "p", "detectable", "won / lost / tied"] : [];
  const silence = ["False positive rate", "AUROC"];
  const updates = ["update recall", "stale only rate", "update ranked first"];
  const changes = ["outdated returned", "outdated above", "forgotten returned", "future returned"];
  return [
    ...families,
    ...["95% interval", "random", "max", "n"],
    ...pairs,
    ...["tokens", "rankings that ended", "p50", "p95", "p99"],
    ...(data.runs.some((run) => run.abstention) ? silence : []),
    ...(data.risk.some(Boolean) ? ["AURC"] : []),
    ...(data.runs.some((run) => run.knowledge_update) ? updates : []),
    ...(data.runs.some((run) => run.changes) ? changes : []),
  ];
}

/** Each part of the page, and the choices that it shows. */
const PARTS = [
  [headline, ["protocol", "metric"]],
  [abilities, ["protocol", "metric"]],
  [depth, ["questions", "beside", "k"]],
  [prompt, ["questions"]],
  [questions, ["protocol", "metric", "search", "ability", "result", "against", "cause", "sort"]],
  [
    opened,
    ["protocol", "metric", "search", "ability", "result", "against", "cause", "sort", "open"],
  ],
];

chosen.watch((names) => {
  for (const [draw, shows] of PARTS) if (shows.some((name) => names.has(name))) draw();
});
reveal(() => {
  head();
  prepare();
  for (const [draw] of PARTS) draw();
  causes();
  answered();
  addedSections();
  others();
  find("words-said").replaceChildren(explained(words()));
  contents(find("contents"));
});
