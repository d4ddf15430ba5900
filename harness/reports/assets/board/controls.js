// The controls above the table: a search, three choices, and the others below "More".

import { count, many } from "../shared/numbers.js";
import { el, find, replace, select } from "../shared/page.js";
import { boardName, chosen, data } from "./data.js";

/** What changes with the board: choices that another board may not have. */
const ANEW = {
  ...{ variant: "", protocol: "", metric: "", sort: "-metric" },
  ...{ open: [], compare: [], unfold: [] },
};

export function controls(now) {
  const one = (label, id, options, value, change) =>
    options.length > 1 && select(label, options, value, (next) => chosen.set(change(next)), { id });
  replace(
    find("main-choices"),
    one("Dataset", "dataset", now.names, now.name, (name) => toBoard(name)),
    one("Queries", "slice", now.slices, now.slice, (questions) => ({ questions })),
    one("Metric", "metric", now.metrics, now.metric, (metric) => ({ metric, sort: "-metric" })),
  );
  replace(
    find("more-choices"),
    one("Comparable runs", "variant", now.variants, now.variant, (variant) => ({
      ...ANEW,
      variant,
    })),
    one(
      "Protocol",
      "protocol",
      now.board.protocols.map(protocolOption),
      now.protocol,
      (protocol) => ({
        protocol,
      }),
    ),
    one(
      "k",
      "k",
      now.ks.map((k) => [k, k === "all" ? "whole ranking" : k]),
      now.k,
      (k) => ({ k }),
    ),
    now.abilities.length > 0 &&
      now.metrics.length > 1 &&
      one(
        "Other columns",
        "columns",
        [
          ["abilities", "by ability"],
          ["metrics", "other metrics"],
        ],
        now.columns,
        (columns) => ({ columns }),
      ),
  );
  find("more").hidden = !find("more-choices").hasChildNodes();
  if (document.activeElement !== search) search.value = chosen.search;
}

const protocolOption = ({ name, official }) => [name, official ? `${name} (official)` : name];

/** The choices that lead to a board by its dataset and granularity. */
function toBoard(name) {
  const { dataset } = data.boards.find((one) => boardName(one) === name);
  return { ...ANEW, dataset: dataset.name, granularity: dataset.granularity };
}

/** The input is made once, so that it keeps its cursor while the page is drawn again. */
const search = find("search");
search.addEventListener("input", () => chosen.move({ search: search.value }));
find("choices").addEventListener("submit", (event) => event.preventDefault());

const wanted = () => chosen.search.toLowerCase().split(/\s+/).filter(Boolean);
const has = (text) => wanted().every((word) => text.toLowerCase().includes(word));

/** Whether the search finds a run of a board: by its name, system, parameters, sender or dataset. */
export const finds = ({ label, system, params, submitted_by: by }, board) =>
  has([label, system, JSON.stringify(params), by ?? "", boardName(board)].join(" "));

/** How many runs the search found, and the other boards on which it finds something. */
export function matches(now, found) {
  find("matches").hidden = !wanted().length;
  if (!wanted().length) return;
  const names = [
    ...new Set(
      data.boards
        .filter((one) => has([boardName(one), ...one.systems].join(" ")))
        .map(boardName)
        .filter((name) => name !== now.name),
    ),
  ];
  const total = now.board.entries.length;
  const go = (name) => {
    const search = has(name) ? "" : chosen.search; // the dataset itself was searched for
    return { ...toBoard(name), search };
  };
  replace(
    find("matches"),
    found
      ? `${found === total ? "All" : `${count(found)} of`} ${many(total, "run")} on ${now.name} match. `
      : `No run on ${now.name} matches. `,
    names.length > 0 && (found ? "Also on: " : "Found on: "),
    names.flatMap((name, at) => [
      el(
        "button",
        {
          type: "button",
          class: "link",
          id: `go-${at}`,
          on: { click: () => chosen.set(go(name)) },
        },
        name,
      ),
      " ",
    ]),
  );
}
