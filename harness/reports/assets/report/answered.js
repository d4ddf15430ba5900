// Accuracy of reader models by ability, with baselines and error attribution.

import { againstCost } from "../shared/cost.js";
import { answeredOnly, count, many, plain, span } from "../shared/numbers.js";
import { el, find } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { added, who } from "./data.js";

/** Labels of the answer classes, in order. */
export const CLASSES = {
  correct_given_evidence: "correct, all evidence in the context",
  correct_without_evidence: "correct, evidence incomplete",
  reader_error: "reader error: wrong, all evidence in the context",
  wrong_abstention: "wrong abstention: all evidence in the context",
  partial_retrieval_error: "partial retrieval error: wrong, some evidence in the context",
  retrieval_error: "retrieval error: wrong, no evidence in the context",
  correct_abstention: "unanswerable: correct abstention",
  hallucinated: "unanswerable: hallucinated",
};
const BESIDE = {
  accuracy_given_evidence: "accuracy given all evidence",
  accuracy_given_no_evidence: "accuracy given no evidence",
  retrieval_headroom: "retrieval headroom",
  reader_headroom: "reader headroom",
};

export function answered() {
  const answers = added("answers");
  find("answers").hidden = !answers;
  if (!answers) return;
  find("answers-how").textContent =
    "A reader model answers from the retrieved documents and from baselines: no context, the newest documents, random documents, and only the evidence. Each number is for one reader and one judge.";
  find("answers-tables").replaceChildren(
    ...answers.readers.flatMap((rows, run) =>
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
  const judges = [
    ...new Set(rows.flatMap(({ protocols }) => protocols.map(({ protocol }) => protocol))),
  ];
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
    row.protocols.find((block) => block.protocol === protocol)?.slices[slice] ?? {};
  const slices = Object.keys(
    rows[0].protocols.find((block) => block.protocol === protocol)?.slices ?? {},
  );
  const value = (cell, interval) =>
    cell?.value === null || cell === undefined
      ? "–"
      : [
          plain(cell.value),
          interval && cell.interval
            ? el(
                "span",
                { class: "small" },
                `${span(cell.interval.low, cell.interval.high)}, n ${count(cell.n)}`,
              )
            : null,
          cell.answered_only
            ? el("span", { class: "small" }, answeredOnly(cell.answered_only))
            : null,
        ];
  const system = (row) => [row.system, row.baseline ? [" ", tag("baseline")] : ""];
  const number = (head, cell) => ({ head, number: true, cell });
  const attributed = rows.some(
    (row) => cells(row, "all").correct_given_evidence || cells(row, "all").hallucinated,
  );
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
        number("Context tokens", ({ tokens }) =>
          tokens === null || tokens === undefined ? "–" : count(Math.round(tokens)),
        ),
        ...slices.map((slice) =>
          number(slice, (row) => value(cells(row, slice)[metric], slice === "all")),
        ),
        ...(rows.some(({ judge_range }) => judge_range)
          ? [number("range over judges", ({ judge_range: over }) => (over ? span(...over) : "–"))]
          : []),
      ],
      rows,
    ),
    ...againstCost(
      rows.map((row) => {
        const cell = cells(row, "all")[metric];
        return { ...row, name: row.system, value: cell?.value, ...cell?.interval };
      }),
      metric,
    ),
    ...(attributed
      ? [
          el(
            "p",
            { class: "how" },
            "Error attribution: shares of the answerable questions with evidence. The last two rows: shares of the unanswerable questions.",
          ),
          classes(CLASSES, false),
          el(
            "p",
            { class: "how" },
            "Accuracy by evidence in the context. Headroom: how much perfect retrieval or a perfect reader could add.",
          ),
          classes(BESIDE, true),
        ]
      : []),
    ...noVerdicts(protocol, rows),
  ];
}

function noVerdicts(protocol, rows) {
  const found = rows.flatMap(({ judges }) => judges.filter(({ judge }) => judge === protocol));
  const undecided = found.reduce((sum, one) => sum + one.undecided, 0);
  const all = found.reduce((sum, one) => sum + one.judgements, 0);
  return undecided
    ? [
        el(
          "p",
          { class: "note" },
          `${count(undecided)} of ${many(all, "judgement")} are undecided and excluded.`,
        ),
      ]
    : [];
}

/** The answers of each reader to one question, with all verdicts. */
export function answersOf(run, at, text) {
  const answers = added("answers");
  const rows = answers?.readers[run] ?? [];
  const found = answers?.queries[run] ?? [];
  return rows.flatMap((row, place) => {
    const { answer, failed, context, verdicts } = found[place];
    const answered = answer[at] >= 0 ? text(answer[at]) : failed.includes(at) ? "(failed)" : null;
    const ids = context[at];
    if (answered === null && !verdicts.some(({ correct }) => correct[at] !== null)) return [];
    return [
      el(
        "li",
        {},
        el("span", { class: "place", "aria-hidden": "true" }, row.baseline ? "·" : "★"),
        el(
          "div",
          {},
          el("div", { class: "about" }, `${row.system}, ${row.reader}`),
          answered === null ? null : el("div", { class: "said" }, answered || "(empty)"),
          ids ? el("div", { class: "about" }, `context: ${ids.join(", ") || "empty"}`) : null,
          verdicts.map(({ judge, correct, error_class: error, reply }) =>
            el(
              "div",
              {},
              tag(correct[at] === null ? "no verdict" : correct[at] ? "correct" : "wrong"),
              ` ${judge.replace("judge:", "")}`,
              error[at] ? `: ${CLASSES[error[at]]}` : "",
              correct[at] === null && reply[at] >= 0
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
