// Draws the report; every number on it is in the data.

import { boundOf, explained } from "../shared/glossary.js";
import { count, intervalSaid, many, moment, parameters } from "../shared/numbers.js";
import { contents, el, facts, find, replace, reveal, select } from "../shared/page.js";
import { legend } from "../shared/save_chart.js";
import { table } from "../shared/tables.js";
import { abilities } from "./abilities.js";
import { addedSections } from "./added.js";
import { answered } from "./answered.js";
import { causes } from "./causes.js";
import { others } from "./confidence_and_time.js";
import { chosen, data, LETTERS, protocolOf, runDot, several, view, who } from "./data.js";
import { depth, prompt } from "./depth.js";
import { opened, prepare, questions } from "./questions.js";
import { overall, verdict } from "./verdict.js";

function head() {
  const { dataset, runs } = data;
  find("eyebrow").textContent =
    `Retrieval report${data.share ? " · without texts of the dataset" : ""} · harness ${data.harness}`;
  find("title").textContent = document.title;
  const asked = `${count(data.asked)}${data.asked === data.in_dataset ? "" : ` of ${count(data.in_dataset)}`} questions`;
  find("lede").textContent =
    `${asked} · ${dataset.granularity} level · ${dataset.split} split · up to ${many(data.depth, "document")} per question`;
  if (dataset.published_files === false)
    find("lede").append(" ", el("span", { class: "tag bad" }, "not the published files"));
  if (several) legend.push(...runs.map(({ system }, at) => [who(at) + system, ["--a", "--b"][at]]));
  find("run-title").textContent = several ? "The runs" : "The run";
  find("runs").replaceChildren(
    ...runs.map((run, at) =>
      several
        ? el("div", { class: "run" }, el("h3", {}, runDot(at), who(at), run.system), about(run))
        : about(run),
    ),
  );
  find("footer").textContent =
    `harness ${data.harness}; ${runs.map((run) => run.name).join(" and ")}; data ${dataset.fingerprint}; queries ${data.digest}. The page loads nothing from a network.`;
}

const about = (run) =>
  facts([
    ["Version", run.version],
    ["Retriever", run.retriever === run.system ? null : run.retriever],
    ["Revision", run.revision],
    ["Parameters", parameters(run.params)],
    ["Rankings", run.depth_message],
    ["Failed", count(run.failed)],
    ["Without a ranking", run.without_ranking ? count(run.without_ranking) : null],
    ["Finished", `${moment(run.finished)} UTC`],
    ["Submitted by", run.submitted_by],
  ]);

function resultChoices() {
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
}

/** The chosen protocol, notes of the runs, and the settings in which they differ. */
function notes() {
  const { block, metric } = view();
  const cell = block.results[0][overall(block)]?.[metric];
  const warnings = data.runs.flatMap((run, at) =>
    [
      ...(run.sees_gold_labels ? ["sees the gold labels, so it is no competitor"] : []),
      ...run.warnings,
    ].map((words) => who(at) + words),
  );
  const settings = table(
    [
      { head: "Setting", cell: ({ setting }) => setting },
      ...data.runs.map((_, at) => ({ head: LETTERS[at], cell: ({ values }) => values[at] })),
    ],
    data.settings,
    { class: "cards" },
  );
  replace(
    find("notes"),
    facts([
      ["Protocol", `${block.protocol}: ${block.description}`],
      [
        "Questions",
        cell ? `${count(cell.n)} scored${excluded(block)}` : `0 scored${excluded(block)}`,
      ],
      ["Statistics", intervalSaid(cell?.interval)],
      ["Random baseline", cell?.random_method],
      ["Upper bound (max)", cell?.upper_bound_method],
      [
        "Dataset",
        `${data.dataset.name}, text=${data.dataset.text}, data=${data.dataset.fingerprint.slice(0, 8)}`,
      ],
    ]),
    warnings.length > 0 &&
      el(
        "ul",
        { class: "note-list" },
        [...new Set(warnings)].map((words) => el("li", {}, words)),
      ),
    data.settings.length > 0 &&
      el(
        "details",
        { class: "numbers", id: "settings" },
        el("summary", {}, `Different settings (${count(data.settings.length)})`),
        el("div", { class: "wide" }, settings),
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

/** The numbers of excluded questions with their reasons. */
function excluded(block) {
  const reasons = block.excluded.map((ofRun) =>
    Object.entries(ofRun)
      .map(([reason, n]) => `${count(n)} ${reason}`)
      .join(", "),
  );
  const words =
    new Set(reasons).size === 1
      ? reasons[0]
      : reasons.map((one, at) => who(at) + (one || "none")).join("; ");
  return words ? `; excluded: ${words}` : "";
}

/** The terms and metrics of the page, in the order in which they appear. */
function terms() {
  const metrics = [view().metric, ...data.protocols.flatMap((block) => block.metrics)];
  const families = [...new Set(metrics.map((name) => name.split("@")[0]))];
  const pairs = several ? ["B − A", "p", "detectable", "wins / losses / ties"] : [];
  const silence = ["False positive rate", "AUROC"];
  const updates = ["update recall", "stale only rate", "update ranked first"];
  const changes = ["outdated returned", "outdated above", "forgotten returned", "future returned"];
  return [
    ...families,
    ...["95% interval", "random", boundOf(view().metric), "n"],
    ...pairs,
    ...["tokens", "exhausted rankings", "p50", "p95", "p99"],
    ...(data.runs.some((run) => run.abstention) ? silence : []),
    ...(data.risk.some(Boolean) ? ["AURC"] : []),
    ...(data.runs.some((run) => run.knowledge_update) ? updates : []),
    ...(data.runs.some((run) => run.changes) ? changes : []),
  ];
}

/** The parts of the page, each with the choices that change it. */
const PARTS = [
  [verdict, ["protocol", "metric"]],
  [resultChoices, ["protocol", "metric"]],
  [notes, ["protocol", "metric"]],
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
  find("glossary-terms").replaceChildren(explained(terms()));
  contents(find("contents"));
});
