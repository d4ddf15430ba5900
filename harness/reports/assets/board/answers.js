// Answers beside a board: of each reader and judge the systems, and the baselines below them.

import { againstCost } from "../shared/cost.js";
import { answeredOnly, count, NONE, plain, span } from "../shared/numbers.js";
import { el, find, replace } from "../shared/page.js";
import { table } from "../shared/tables.js";

const BASELINE_CONDITIONS = new Set(["none", "newest", "random", "evidence"]);
const errorShare = (row, ...names) => {
  const known = names
    .map((name) => row.error_classes[name]?.value)
    .filter((value) => value !== undefined);
  return known.length ? plain(known.reduce((sum, value) => sum + value, 0)) : NONE;
};

function answerColumns(rows) {
  const slices = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const number = (head, cell, title) => ({ head, number: true, cell, title });
  return [
    {
      head: "System",
      cell: ({ system, condition }) => [
        system,
        BASELINE_CONDITIONS.has(condition) ? [" ", el("span", { class: "tag" }, "baseline")] : "",
      ],
    },
    ...slices.map((slice) =>
      number(slice, ({ values }) => {
        const cell = values[slice];
        if (cell?.value === undefined) return NONE;
        const within = slice === "all" && cell.low !== undefined;
        return [
          plain(cell.value),
          ...[
            within ? `${span(cell.low, cell.high)}, n ${count(cell.n)}` : null,
            answeredOnly(cell.answered_only),
          ]
            .filter(Boolean)
            .map((words) => el("span", { class: "small" }, words)),
        ];
      }),
    ),
    ...(rows.some(({ error_classes: classes }) => classes.retrieval_error)
      ? [
          number(
            "retrieval error",
            (row) => errorShare(row, "partial_retrieval_error", "retrieval_error"),
            "wrong without all of the evidence in the context, of answerable questions",
          ),
          number(
            "reader error",
            (row) => errorShare(row, "reader_error", "wrong_abstention"),
            "wrong with all of the evidence in the context, of answerable questions",
          ),
        ]
      : []),
    ...(rows.some(({ judge_range: range }) => range)
      ? [
          number(
            "over judges",
            ({ judge_range: range }) => (range ? span(...range) : NONE),
            "the least and the largest accuracy of the same answers, by who judged them",
          ),
        ]
      : []),
    number("tokens shown", ({ tokens }) => (tokens === null ? NONE : count(Math.round(tokens)))),
    number("USD", ({ usd }) => (usd === null ? NONE : plain(usd))),
  ];
}

/** The answers beside a board; nothing where there are none. */
export function answers(found) {
  find("answers").hidden = !found.length;
  replace(
    find("answers-tables"),
    ...found.flatMap(({ reader, protocol, metric, rows }) => [
      el("h3", {}, `${metric} of ${protocol.replace("judge:", "the judge ")}`),
      el("p", { class: "how" }, `read by ${reader}`),
      table(answerColumns(rows), rows, { class: "cards", label: `Answers read by ${reader}` }),
      ...againstCost(
        rows.map((row) => ({
          ...row,
          ...row.values.all,
          name: row.system,
          baseline: BASELINE_CONDITIONS.has(row.condition),
        })),
        metric,
      ),
    ]),
  );
}
