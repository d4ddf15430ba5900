// One question with its evidence and the ranking of each run.

import { plain, signed } from "../shared/numbers.js";
import { el } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { answersOf } from "./answered.js";
import { data, of, runDot, several, who } from "./data.js";

/** The number of a text that the page omits; evidence and first ranks have theirs. */
const OMITTED = -2;

/**
 * The panel of a question; `at` is its index in the columns, `view` the chosen protocol and metric.
 * `walk` has its position in the list (`said`), `step(1)` to the next question, and `close()`.
 */
export function questionPanel(at, view, walk) {
  const { columns, evidence, documents, texts, runs, rankings } = data.queries;
  const text = (number) => (number >= 0 ? texts[number] : null);
  const tagged = (run, kind, tag, words) =>
    el("p", {}, el("span", { class: kind }, tag), ` ${who(run)}${words}`);

  const about = (document) =>
    [
      documents.id[document],
      documents.session?.[document],
      documents.date?.[document],
      documents.speaker?.[document],
    ]
      .filter((part, place, all) => part && all.indexOf(part) === place)
      .join(" · ");
  const body = (document) => {
    if (documents.text?.[document] === OMITTED) return "[text omitted to keep this page small]";
    return documents.text ? text(documents.text[document]) : null;
  };

  const answers = (columns.answers?.[at] ?? []).map(text).filter(Boolean);
  const parts = [
    walking(walk),
    el("h3", { id: "question-title" }, text(columns.text?.[at] ?? -1) ?? columns.id[at]),
    el(
      "p",
      { class: "note" },
      [
        columns.id[at],
        columns.ability[at],
        columns.category[at],
        columns.haystack[at],
        columns.date?.[at],
      ]
        .filter((part, place, all) => part && all.indexOf(part) === place)
        .join(" · "),
    ),
  ];
  if (answers.length)
    parts.push(
      el("h4", {}, answers.length > 1 ? "Reference answers" : "Reference answer"),
      el("p", { class: "said" }, answers.join(" / ")),
    );

  const block = data.queries.protocols[view.at];
  runs.forEach((run, place) => {
    const reason = block.excluded[place][at];
    if (reason >= 0) parts.push(tagged(place, "tag", "not scored", block.reasons[place][reason]));
    const trace = run.failed[at] ? text(run.errors[at] ?? -1) : null;
    if (run.failed[at]) parts.push(tagged(place, "tag bad", "failed", ""));
    if (trace) parts.push(el("pre", { class: "trace" }, trace));
    if (run.abstained[at])
      parts.push(tagged(place, "tag", "abstained", "the system declined to answer"));
  });
  data.runs.forEach((_, run) => {
    const said = answersOf(run, at, text);
    if (said.length)
      parts.push(el("h4", {}, `${who(run)}Answers with verdicts`), el("ul", {}, said));
  });
  parts.push(el("h4", {}, "Values"), valuesOf(at, view));
  parts.push(el("h4", {}, "Evidence with ranks"), evidenceList());
  rankings.forEach((ranking, run) => {
    const from = ranking.start[at],
      to = ranking.start[at + 1];
    parts.push(
      el(
        "h4",
        {},
        several && runDot(run),
        `Ranking of ${who(run)}${data.runs[run].system}: ${from === to ? "no document returned" : `top ${to - from} of ${runs[run].returned[at]}`}`,
      ),
    );
    parts.push(
      el(
        "ol",
        {},
        Array.from({ length: to - from }, (_, step) => rankedItem(ranking, from + step, step + 1)),
      ),
    );
    if (runs[run].hits[at]?.length)
      parts.push(
        el("h4", {}, "Texts returned by the system"),
        el("ol", {}, runs[run].hits[at].map(hitItem)),
      );
  });
  return parts;

  function evidenceList() {
    const items = [];
    for (let row = evidence.start[at]; row < evidence.start[at + 1]; row += 1) {
      const document = evidence.document[row];
      const said = evidence.missing[row]
        ? [el("span", { class: "missed" }, "not in the corpus")]
        : evidence.rank.map((ranks, run) => [
            rankSaid(ranks[row], run),
            causeSaid(evidence.cause[run]?.[row] ?? -1),
          ]);
      items.push(
        el(
          "li",
          { class: "gold" },
          el("span", { class: "place", "aria-hidden": "true" }, "★"),
          el(
            "div",
            {},
            said.map((part) => el("div", {}, part)),
            el("div", { class: "about" }, about(document)),
            said_(body(document)),
          ),
        ),
      );
    }
    return items.length ? el("ul", {}, items) : el("p", { class: "note" }, "None in the qrels.");
  }

  function rankSaid(rank, run) {
    if (!rank)
      return el(
        "span",
        { class: "missed" },
        `${who(run)}missed: not in the ${runs[run].returned[at]} returned documents`,
      );
    const k = view.k;
    return k && rank > k
      ? el("span", { class: "missed" }, `${who(run)}missed in the top ${k}: rank ${rank}`)
      : el("span", {}, `${who(run)}rank ${rank}`);
  }

  function causeSaid(cause) {
    if (cause < 0) return null;
    const { names, rules } = data.causes;
    return [
      " ",
      el("span", { class: "tag" }, names[cause]),
      el("div", { class: "rule" }, rules[cause]),
    ];
  }

  function rankedItem(ranking, row, place) {
    const document = ranking.document[row],
      gold = ranking.grade[row] > 0;
    return el(
      "li",
      { class: gold ? "gold" : null },
      el("span", { class: "place" }, `${place}${gold ? " ★" : ""}`),
      el(
        "div",
        {},
        el(
          "div",
          { class: "about" },
          gold ? el("span", { class: "tag gold" }, "evidence") : null,
          gold ? " " : null,
          document < 0 ? "not a document of the corpus" : about(document),
        ),
        document < 0 ? null : said_(body(document)),
      ),
    );
  }

  function hitItem([number, way, ids], place) {
    return el(
      "li",
      {},
      el("span", { class: "place" }, place + 1),
      el(
        "div",
        {},
        el(
          "div",
          { class: "about" },
          ids.length ? `${way}: ${ids.join(", ")}` : "matches no document",
        ),
        said_(text(number)),
      ),
    );
  }

  function said_(words) {
    return words ? el("div", { class: "said" }, words) : null;
  }
}

/** Buttons: previous, next, close. */
function walking({ said, before, after, step, close }) {
  const button = (id, words, call, there = true) =>
    el("button", { type: "button", id, disabled: !there, on: { click: call } }, words);
  return el(
    "div",
    { class: "walk" },
    button("before", "‹ Previous", () => step(-1), before),
    button("after", "Next ›", () => step(1), after),
    el("span", { class: "note" }, said),
    button("close", "Close", close),
  );
}

/** The values of a question at the chosen cut-off, and those without a cut-off. */
function valuesOf(at, { at: place, metric, k, block }) {
  const { values, difference } = data.queries.protocols[place];
  const cut = k === null ? "" : `@${k}`;
  const names = block.metrics.filter(
    (name) => name === metric || (cut ? name.endsWith(cut) : !name.includes("@")),
  );
  return table(
    [
      { head: "Metric", cell: (name) => name },
      ...values.map((ofRun, run) => ({
        head: of(run, "value"),
        number: true,
        cell: (name) => plain(ofRun[name][at]),
      })),
      ...(several
        ? [{ head: "B − A", number: true, cell: (name) => signed(difference[name][at]) }]
        : []),
    ],
    names,
    { class: "values" },
  );
}
