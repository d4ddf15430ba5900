// What readers made of a run, beside controls: by ability, and where questions were lost.

import { againstCost } from "../shared/cost.js";
import { count, many, plain, span } from "../shared/numbers.js";
import { el, find } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { data, who } from "./data.js";

/** What each class is called, in the order in which they stand. */
export const LOST = {
  right_with: "right, all evidence shown",
  right_without: "right without all of it",
  lost_reader: "wrong, all evidence shown",
  declined_wrongly: "declined, all evidence shown",
  lost_part: "wrong, a part shown",
  lost_none: "wrong, none shown",
  declined_rightly: "no answer there: declined",
  made_up: "no answer there: made up",
};
const BESIDE = {
  right_if_all: "right where all was shown",
  right_if_none: "right where none was shown",
  retrieval_could_gain: "better retrieval could add, at most",
  reader_could_gain: "a better reader could add, at most",
};

export function answered() {
  const there = data.answered.some((rows) => rows.length);
  find("answers").hidden = !there;
  if (!there) return;
  find("answers-how").textContent =
    "A reader model answered from what was retrieved, and from controls in its place: nothing, the newest, a random selection of equal size, and the evidence alone. Each number is of one reader and one judge.";
  find("answers-said").replaceChildren(
    ...data.answered.flatMap((rows, run) =>
      [...new Set(rows.map(({ reader }) => reader))].flatMap((reader) =>
        ofReader(
          run,
          reader,
          rows.filter((row) => row.reader === reader),
        ),
      ),
    ),
  );
}

function ofReader(run, reader, rows) {
  const judges = [...new Set(rows.flatMap(({ blocks }) => blocks.map(({ protocol }) => protocol)))];
  const shown = judges.filter((name) => name.startsWith("judge:"));
  const protocols = shown.length ? shown : judges.slice(-1);
  return [
    el("h3", {}, `${who(run)}${reader}`),
    ...protocols.flatMap((protocol) => ofProtocol(protocol, rows)),
  ];
}

function ofProtocol(protocol, rows) {
  const metric = protocol.startsWith("judge:")
    ? "accuracy"
    : protocol === "locomo-answers"
      ? "f1"
      : "token_f1";
  const cells = (row, slice) =>
    row.blocks.find((block) => block.protocol === protocol)?.slices[slice] ?? {};
  const slices = Object.keys(
    rows[0].blocks.find((block) => block.protocol === protocol)?.slices ?? {},
  );
  const value = (cell, interval) =>
    cell?.value === null || cell === undefined
      ? "–"
      : [
          plain(cell.value),
          interval && cell.low !== null
            ? el("span", { class: "small" }, `${span(cell.low, cell.high)}, n ${count(cell.n)}`)
            : null,
        ];
  const system = (row) => [row.system, row.control ? [" ", tag("control")] : ""];
  const number = (head, cell) => ({ head, number: true, cell });
  const lost = rows.some((row) => cells(row, "all").right_with || cells(row, "all").made_up);
  const classes = (kinds, interval) =>
    table(
      [
        { head: "", cell: ([, words]) => words },
        ...rows.map((row) =>
          number(row.system, ([name]) => value(cells(row, "all")[name], interval)),
        ),
      ],
      Object.entries(kinds),
    );
  return [
    el("p", { class: "how" }, `${metric} of ${protocol.replace("judge:", "the judge ")}`),
    table(
      [
        { head: "System", cell: system },
        number("Tokens shown", ({ tokens }) =>
          tokens === null || tokens === undefined ? "–" : count(Math.round(tokens)),
        ),
        ...slices.map((slice) =>
          number(slice, (row) => value(cells(row, slice)[metric], slice === "all")),
        ),
        ...(rows.some(({ over_judges }) => over_judges)
          ? [number("over judges", ({ over_judges: over }) => (over ? span(...over) : "–"))]
          : []),
      ],
      rows,
    ),
    ...againstCost(
      rows.map((row) => ({ ...row, name: row.system, ...cells(row, "all")[metric] })),
      metric,
    ),
    ...(lost
      ? [
          el(
            "p",
            { class: "how" },
            "Where questions went: shares of those that have an answer and evidence; the last two of those that have none.",
          ),
          classes(LOST, false),
          el(
            "p",
            { class: "how" },
            "Accuracy by what was shown, and the most that either could add.",
          ),
          classes(BESIDE, true),
        ]
      : []),
    ...noVerdicts(protocol, rows),
  ];
}

function noVerdicts(protocol, rows) {
  const found = rows.flatMap(({ judges }) => judges.filter(({ judge }) => judge === protocol));
  const neither = found.reduce((sum, one) => sum + one.neither, 0);
  const all = found.reduce((sum, one) => sum + one.judgements, 0);
  return neither
    ? [
        el(
          "p",
          { class: "note" },
          `${count(neither)} of ${many(all, "judgement")} said neither yes nor no, and are in no mean.`,
        ),
      ]
    : [];
}

/** What became of one question, in a panel: the answer of each reader, and every verdict. */
export function answersOf(run, at, text) {
  const rows = data.answered[run] ?? [];
  const found = data.queries.answered[run] ?? [];
  return rows.flatMap((row, place) => {
    const { answer, shown, verdicts } = found[place];
    const said = answer[at] >= 0 ? text(answer[at]) : null;
    const ids = shown[at];
    if (answer[at] < 0 && !verdicts.some(({ right }) => right[at] !== null)) return [];
    return [
      el(
        "li",
        {},
        el("span", { class: "place", "aria-hidden": "true" }, row.control ? "·" : "★"),
        el(
          "div",
          {},
          el("div", { class: "about" }, `${row.system}, ${row.reader}`),
          said === null ? null : el("div", { class: "said" }, said || "(nothing)"),
          ids ? el("div", { class: "about" }, `shown: ${ids.join(", ") || "nothing"}`) : null,
          verdicts.map(({ judge, right, lost, reply }) =>
            el(
              "div",
              {},
              tag(right[at] === null ? "no verdict" : right[at] ? "right" : "wrong"),
              ` ${judge.replace("judge:", "")}`,
              lost[at] ? `: ${LOST[lost[at]]}` : "",
              right[at] === null && reply[at] >= 0
                ? el("span", { class: "small" }, text(reply[at]))
                : "",
            ),
          ),
        ),
      ),
    ];
  });
}

const tag = (words) => el("span", { class: words === "wrong" ? "tag bad" : "tag" }, words);
