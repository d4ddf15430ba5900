// Answers next to a board: the systems and baselines of each reader and judge.

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
            "share of answerable queries: wrong without all of the evidence in the context",
          ),
          number(
            "reader error",
            (row) => errorShare(row, "reader_error", "wrong_abstention"),
            "share of answerable queries: wrong with all of the evidence in the context",
          ),
        ]
      : []),
    ...(rows.some(({ judge_range: range }) => range)
      ? [
          number(
            "range over judges",
            ({ judge_range: range }) => (range ? span(...range) : NONE),
            "lowest and highest accuracy of the same answers by different judges",
          ),
        ]
      : []),
    number("context tokens", ({ tokens }) => (tokens === null ? NONE : count(Math.round(tokens)))),
    number("USD", ({ usd }) => (usd === null ? NONE : plain(usd))),
  ];
}

/** Shows the answers next to a board, or nothing. */
export function answers(found) {
  find("answers").hidden = !found.length;
  replace(
    find("answers-tables"),
    ...found.flatMap(({ reader, protocol, metric, rows }) => [
      el("h3", {}, `${metric}, ${protocol.replace("judge:", "judge ")}`),
      el("p", { class: "how" }, `Reader: ${reader}`),
      table(answerColumns(rows), rows, {
        class: "cards",
        label: `Answers of the reader ${reader}`,
      }),
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
