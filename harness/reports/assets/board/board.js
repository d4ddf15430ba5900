// The leaderboard: controls, a table, a comparison next to it, and quality against cost.

import { boundOf } from "../shared/glossary.js";
import { intervalSaid, many } from "../shared/numbers.js";
import { el, fetches, find, follow, live, replace, reveal } from "../shared/page.js";
import { ordered, table } from "../shared/tables.js";
import { answers } from "./answers.js";
import { claims } from "./claims.js";
import { anyLost, anyUsd, boundRow, columnsOf, ofFewer, pick } from "./columns.js";
import { comparing } from "./comparing.js";
import { controls, finds, matches } from "./controls.js";
import { chosen, data, part, place, renew, view } from "./data.js";
import { entryDetails } from "./details.js";
import { broken, linkHistory, silent, unfinished } from "./live.js";
import { folded, rowsOf } from "./rows.js";
import { tradeoff } from "./tradeoff.js";

/** The chosen board with its part of the data: a promise if that is not loaded yet. */
function whole() {
  const at = place();
  const with_ = (rest) => ({ at, board: { ...at.board, ...rest } });
  const rest = part(`board-${at.board.id}`);
  return rest instanceof Promise ? rest.then(with_) : with_(rest);
}

let draws = 0;

/** Draws what is chosen, after loading the board if necessary. */
function draw() {
  draws += 1;
  const mine = draws;
  find("eyebrow").textContent =
    `harness ${data.harness}${live ? " · updates while runs finish" : ""}`;
  broken(data.broken);
  unfinished();
  const none = !data.boards.length;
  for (const id of ["choices", "board", "footer"]) find(id).hidden = none;
  if (none) for (const name of ["answers", "claims", "tradeoff", "jump"]) find(name).hidden = true;
  find("empty").hidden = !none;
  if (none) {
    find("lede").textContent = "No scored runs yet.";
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
  const { board, protocol, slice, metric } = now;
  controls(now);
  lede(now);
  const all = rowsOf(now);
  const rows = all.filter(({ entry }) => finds(entry, board));
  matches(now, rows.length);
  const columns = columnsOf(now, all);
  let shown = ordered(
    rows.sort((a, b) => a.entry.run.localeCompare(b.entry.run)),
    columns,
    chosen.sort,
  );
  // Runs that fail on hard queries must not rise by it.
  if (/^-?metric$/.test(chosen.sort))
    shown = shown.sort((a, b) => ofFewer(a, metric) - ofFewer(b, metric));
  const outside = (row) => row.entry.sees_gold_labels || ofFewer(row, metric);
  find("board").hidden = !rows.length;
  replace(
    find("table"),
    table(columns, folded(shown), {
      class: "board",
      label: `${now.title}, ${protocol}, ${slice}, ranked by ${metric}`,
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
        boundRow(boundOf(metric), "upper_bound", now, columns),
      ],
    }),
  );
  comparing(now);
  tradeoff(now, rows);
  answers(board.answers ?? []);
  claims(board.claims ?? []);
  notes(all, metric, board);
}

/** What was run on which data, and by which protocol it is scored. */
function lede({ board, title, official, key }) {
  find("lede").replaceChildren(
    `${many(board.entries.length, "run")}: ${title.replaceAll("  ", ", ")}. `,
    el(
      "span",
      { class: "tag" },
      official
        ? `${key.protocol}: the same numbers as ${official}`
        : `${key.protocol}: this harness's own protocol`,
    ),
  );
}

/** A row; a click outside its controls chooses it for the comparison. */
function rowOf({ entry }, outside) {
  const picked = chosen.compare.includes(entry.run);
  const click = ({ target }) => {
    if (!target.closest("a, button, label, input") && getSelection().isCollapsed) pick(entry.run);
  };
  const classes = ["entry", outside && "outside", picked && "picked"].filter(Boolean).join(" ");
  return { class: classes, on: { click } };
}

function notes(rows, metric, { dataset, scoring }) {
  const cells = (some) => some.map(({ now }) => now[metric]);
  const ranked = rows.filter(({ entry }) => !entry.sees_gold_labels);
  const cell = cells(ranked.length ? ranked : rows).find((one) => one?.interval);
  const few = cells(ranked).find((one) => one?.rank)?.rank_note;
  find("said").textContent = cell
    ? `${intervalSaid(cell.interval)}. Ranks are ranges: those of this table hold the true ranks of all systems at once in 95% of samples, by paired tests, for one metric and one choice of queries${few ? `; ${few}` : ""}.`
    : "";
  const lost = anyLost(rows)
    ? " Failed queries count 0; unresolved ones are in no mean, because no returned text matched a document."
    : "";
  const usd = anyUsd(rows)
    ? " USD: cost of ingesting the dataset and, below it, of a thousand queries."
    : "";
  find("legend").textContent =
    `Thick mark: mean. Bar: 95% interval. Dashed: random baseline. All bars have the same scale. Open a name for all numbers of a run; choose two rows to compare them. Latency: median per query and, below it, the 99th percentile, on the machine of the run. Tokens: mean of the first ten documents.${lost}${usd}`;
  const altered = dataset.published_files === false ? " These are not the published files." : "";
  find("footer").textContent =
    `Data ${dataset.fingerprint}.${altered} Scoring version ${scoring.version}. All numbers are in leaderboard.json. The page loads nothing from ${live || fetches ? "other servers" : "a network"}.`;
}

chosen.watch(draw);
for (const [href, words] of data.links ?? []) find("links").append(el("a", { href }, words), " ");
// The first board is loaded before the page is shown.
if (data.boards.length) await Promise.resolve(whole()).catch(silent);
reveal(draw);

let version = null;
if (live)
  follow(async (state) => {
    unfinished(state.unfinished);
    linkHistory(state.history);
    // Also the first time: a run may have finished since the page was made.
    if (state.version === version) return;
    version = state.version;
    await renew();
    draw();
  }, silent);
