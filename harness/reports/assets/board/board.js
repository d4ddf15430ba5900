// The board: switches, a table that sorts, intervals, and details on click.

import { intervalSaid, many } from "../shared/numbers.js";
import { el, fetches, find, follow, live, replace, reveal, select } from "../shared/page.js";
import { ordered, table } from "../shared/tables.js";
import { answers } from "./answers.js";
import { claims } from "./claims.js";
import { anyLost, anyUsd, boundRow, columnsOf, ofFewer, pick } from "./columns.js";
import { comparing } from "./comparing.js";
import { chosen, data, part, place, renew, view } from "./data.js";
import { entryDetails } from "./details.js";
import { broken, linkHistory, silent, unfinished } from "./live.js";

function controls(now) {
  const anew = {
    ...{ variant: "", protocol: "", metric: "", sort: "-metric", open: [], compare: [] },
  };
  const one = (label, id, options, value, change) =>
    select(label, options, value, (next) => chosen.set(change(next)), { id });
  const { dataset } = now;
  replace(
    find("choices"),
    one("Dataset", "dataset", now.datasets, dataset, (name) => ({
      ...anew,
      dataset: name,
      granularity: "",
    })),
    one("Granularity", "granularity", now.granularities, now.granularity, (granularity) => ({
      ...anew,
      dataset,
      granularity,
    })),
    now.variants.length > 1 &&
      one("Runs that compare", "variant", now.variants, now.variant, (variant) => ({
        ...anew,
        variant,
      })),
    one(
      "Protocol",
      "protocol",
      now.board.protocols.map(({ name, official }) => [
        name,
        official ? `${name} (official)` : name,
      ]),
      now.protocol,
      (protocol) => ({ protocol }),
    ),
    one("Questions", "slice", now.slices, now.slice, (questions) => ({ questions })),
    one(
      "k",
      "k",
      now.ks.map((k) => [k, k === "all" ? "whole ranking" : k]),
      now.k,
      (k) => ({ k }),
    ),
    one("Ranked by", "metric", now.names, now.metric, (metric) => ({ metric, sort: "-metric" })),
    now.abilities.length > 0 &&
      now.names.length > 1 &&
      one(
        "Beside it",
        "columns",
        [
          ["abilities", "its value by ability"],
          ["metrics", "other metrics"],
        ],
        now.columns,
        (columns) => ({ columns }),
      ),
  );
}

function rowsOf({ board, key, slice }) {
  return board.entries.map((entry) => {
    const found = entry.protocols.find((one) =>
      Object.entries(key).every(([name, value]) => one[name] === value),
    );
    return { entry, slices: found?.slices ?? {}, now: found?.slices[slice] ?? {} };
  });
}

/** The chosen board with all that is known of it: at once where it was looked at before. */
function whole() {
  const at = place();
  const with_ = (rest) => ({ at, board: { ...at.board, ...rest } });
  const rest = part(`board-${at.board.id}`);
  return rest instanceof Promise ? rest.then(with_) : with_(rest);
}

let draws = 0;

/** Draw what is chosen; of a board that was not looked at before, once it is unpacked. */
function draw() {
  draws += 1;
  const mine = draws;
  find("eyebrow").textContent =
    `harness ${data.harness}${live ? " · follows the folder of runs" : ""}`;
  broken(data.broken);
  unfinished();
  const none = !data.boards.length;
  for (const id of ["choices", "board", "footer"]) find(id).hidden = none;
  if (none) for (const name of ["answers", "claims"]) find(name).hidden = true;
  find("empty").hidden = !none;
  if (none) {
    find("lede").textContent = "No scored run is here yet.";
    return;
  }
  const found = whole();
  if (found instanceof Promise) {
    find("board").setAttribute("aria-busy", "true");
    found.then((one) => mine === draws && show(one)).catch(silent);
  } else show(found);
}

function show({ at, board: chosenBoard }) {
  find("board").removeAttribute("aria-busy");
  const now = view(at, chosenBoard);
  const { board, protocol, official, slice, metric } = now;
  controls(now);
  find("lede").replaceChildren(
    `${many(board.entries.length, "run")} on ${board.title}. `,
    el(
      "span",
      { class: "tag" },
      official
        ? `official: gives the numbers of ${official}`
        : `${now.key.protocol} is the harness's own protocol, no official score`,
    ),
  );
  const rows = rowsOf(now);
  const columns = columnsOf(now, rows);
  let shown = ordered(
    rows.sort((a, b) => a.entry.run.localeCompare(b.entry.run)),
    columns,
    chosen.sort,
  );
  // Who fails on the hard ones must not rise by it.
  if (/^-?metric$/.test(chosen.sort))
    shown = shown.sort((a, b) => ofFewer(a, metric) - ofFewer(b, metric));
  const outside = (row) => row.entry.sees_gold_labels || ofFewer(row, metric);
  replace(
    find("table"),
    table(columns, shown, {
      class: "board",
      label: `${board.title}, ${protocol}, ${slice}, ranked by ${metric}`,
      sorted: chosen.sort,
      resort: (sort) => chosen.set({ sort }),
      about: (row) => rowOf(row, outside(row)),
      below: ({ entry, slices }) =>
        chosen.open.includes(entry.run) && {
          about: { class: "details", id: `details-${entry.run}` },
          content: entryDetails(entry, slices, metric),
        },
      foot: [
        boundRow("random", "random_baseline", now, columns),
        boundRow("max", "upper_bound", now, columns),
      ],
    }),
  );
  comparing(now);
  answers(board.answers ?? []);
  claims(board.claims ?? []);
  said(rows, metric, board);
}

/** A row, which a click chooses to be compared, where it is on nothing that has its own use. */
function rowOf({ entry }, outside) {
  const picked = chosen.compare.includes(entry.run);
  const click = ({ target }) => {
    if (!target.closest("a, button, label, input") && getSelection().isCollapsed) pick(entry.run);
  };
  const classes = ["entry", outside && "outside", picked && "picked"].filter(Boolean).join(" ");
  return { class: classes, on: { click } };
}

function said(rows, metric, { dataset, scoring }) {
  const cells = (some) => some.map(({ now }) => now[metric]);
  const ranked = rows.filter(({ entry }) => !entry.sees_gold_labels);
  const cell = cells(ranked.length ? ranked : rows).find((one) => one?.interval);
  const few = cells(ranked).find((one) => one?.rank)?.rank_note;
  find("said").textContent = cell
    ? `${intervalSaid(cell.interval)}. A rank is a range: those of this table hold the true rank of every system at once in 95% of cases, by paired differences${few ? `; ${few}` : ""}. For several metrics or kinds of questions together nothing is promised.`
    : "";
  const lost = anyLost(rows)
    ? " Lost: queries that failed, which count 0, and those that cannot be measured, which are in no mean."
    : "";
  const usd = anyUsd(rows)
    ? " USD: what taking the haystacks in cost and, below it, a thousand questions."
    : "";
  find("legend").textContent =
    `Thick line: mean. Bar: 95% interval. Dashed: what a random order would score; all bars of the table have one scale. Point at a bar for its numbers, or open a name for all of them; choose two rows to compare them. Time: of a query where it ran, the median and, below it, what 99 of 100 were within. Tokens: mean of the top 10.${lost}${usd}`;
  const altered = dataset.published_files === false ? " These are not the published files." : "";
  find("footer").textContent =
    `Data ${dataset.fingerprint}.${altered} Scores version ${scoring.version}. Made from leaderboard.json; the page draws what stands there and loads nothing from ${live || fetches ? "elsewhere" : "a network"}.`;
}

find("choices").addEventListener("submit", (event) => event.preventDefault());
chosen.watch(draw);
for (const [href, words] of data.links ?? []) find("links").append(el("a", { href }, words), " ");
// What is drawn first is there at once; where it cannot be had, the page says so.
if (data.boards.length) await Promise.resolve(whole()).catch(silent);
reveal(draw);

let version = null;
if (live)
  follow(async (state) => {
    unfinished(state.unfinished);
    linkHistory(state.history);
    // The first time too: a run may have come since the page was made.
    if (state.version === version) return;
    version = state.version;
    await renew();
    draw();
  }, silent);
