// Several runs beside each other, and every pair of them; all numbers stand in the data.

import { choices } from "../shared/address.js";
import {
  count,
  fixed,
  moment,
  NONE,
  parameters,
  plain,
  pValue,
  signed,
  span,
} from "../shared/numbers.js";
import { el, find, load, reveal, select } from "../shared/page.js";
import { ordered, table } from "../shared/tables.js";

const data = await load();
const chosen = choices({ metric: "", questions: "", sort: "", shown: "all" });
const HOME = "../".repeat(data.runs.length + 1); // from /compare/A/B/C/
// A report of one of them leads back to the board too, which is as far up from there.
const from = new URLSearchParams(location.search).get("from") ?? HOME;
const back = `?${new URLSearchParams({ from: from.replace(/^(?:\.\.\/)+/, "../../") })}`;
const LETTERS = data.runs.map((_, at) => (at < 26 ? String.fromCharCode(65 + at) : `R${at}`));

/** What is chosen, as far as there is such a thing. */
function view() {
  const known = (wanted, all) => (all.includes(wanted) ? wanted : all[0]);
  return {
    metric: known(chosen.metric, data.metrics),
    slice: known(
      chosen.questions,
      data.slices.includes("all") ? ["all", ...data.slices] : data.slices,
    ),
  };
}

function head() {
  find("eyebrow").textContent = `Comparison · harness ${data.harness}`;
  find("title").textContent = document.title;
  find("lede").textContent =
    `Under ${data.protocol}, by ${data.level}; independent: ${count(data.clusters)} ${data.cluster_by}.`;
  find("settings").hidden = !data.settings.length;
  find("settings-table").replaceChildren(
    table(
      [
        { head: "Setting", cell: ({ setting }) => setting },
        ...LETTERS.map((head, at) => ({ head, kind: "words", cell: ({ values }) => values[at] })),
      ],
      data.settings,
      { class: "cards" },
    ),
  );
  find("foot").replaceChildren(
    ...data.footnotes.map((line) => el("p", { class: "note" }, coded(line))),
  );
  find("footer").replaceChildren(
    el("p", {}, "The same in a terminal: ", el("code", {}, data.command)),
    el("p", {}, "Numbers are computed by harness compare; this page draws them."),
  );
}

function controls({ metric, slice }) {
  const one = (label, id, options, value, change) =>
    select(label, options, value, (next) => chosen.set(change(next)), { id });
  find("choices").replaceChildren(
    one("Metric", "metric", data.metrics, metric, (name) => ({ metric: name })),
    one("Differences over", "slice", data.slices, slice, (questions) => ({ questions })),
    one(
      "Pairs",
      "shown",
      [
        ["all", "all"],
        ["shown", "with a difference that is shown"],
      ],
      chosen.shown,
      (shown) => ({ shown }),
    ),
  );
}

/** Words between backticks as code. */
const coded = (line) => line.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

const letter = (at) => el("span", { class: "tag" }, LETTERS[at]);

/** Every run: its mean over each kind of questions. */
function means({ metric }) {
  find("means-title").textContent = `${metric} of each run`;
  const of = (slice) => ({
    head: [slice, el("span", { class: "small" }, `n ${count(data.results[slice][metric]?.n)}`)],
    title: `${metric} over these questions, with its 95% interval`,
    id: slice,
    number: true,
    cell: (at) => {
      const { value, low, high } = data.results[slice][metric]?.means[at] ?? {};
      return [plain(value), low == null ? null : el("span", { class: "small" }, span(low, high))];
    },
  });
  const run = ({ name, run: folder, distinct_params: params, finished }, at) =>
    el(
      "th",
      { scope: "row", class: "run" },
      letter(at),
      el("a", { href: `${HOME}runs/${encodeURIComponent(folder)}/${back}` }, name),
      Object.keys(params).length > 0 && el("span", { class: "small" }, parameters(params)),
      el("span", { class: "small" }, `${moment(finished)} UTC`),
    );
  find("means-table").replaceChildren(
    table(
      [{ head: "Run", cell: (at) => run(data.runs[at], at) }, ...data.slices.map(of)],
      [...data.runs.keys()],
      { class: "cards" },
    ),
  );
}

/** Every pair over one kind of questions. */
function differences({ metric, slice }) {
  find("differences-title").textContent =
    `Differences of ${metric} over ${slice === "all" ? "all questions" : slice}`;
  const all = data.results[slice][metric]?.pairs ?? [];
  const pairs = chosen.shown === "shown" ? all.filter(({ shown }) => shown) : all;
  const number = (head, by, cell, more = {}) => ({ head, number: true, by, cell, ...more });
  const columns = [
    {
      head: "Pair",
      by: ({ a, b }) => 1000 * b + a,
      cell: ({ a, b }) =>
        el(
          "th",
          { scope: "row", class: "pair-of" },
          letter(b),
          " − ",
          letter(a),
          el("span", { class: "small" }, `${data.runs[b].name} − ${data.runs[a].name}`),
        ),
    },
    number(
      "Difference",
      ({ difference }) => difference,
      ({ difference, shown }) => [
        signed(difference),
        shown ? el("strong", { class: "star" }, " *") : "",
      ],
      { title: "of the means over the same questions; a star marks what is shown" },
    ),
    number("95% interval", null, ({ low, high }) =>
      low === null || low === high ? NONE : span(low, high, signed),
    ),
    number(
      "p",
      ({ p }) => p,
      ({ p }) => pValue(p),
      { first: 1 },
    ),
    number("detectable", null, ({ detectable }) => plain(detectable)),
    number("effect size", null, ({ effect_size: size }) => fixed(size, 2)),
    number(
      "wins / losses / ties",
      ({ wins, losses }) => wins - losses,
      ({ wins, losses, ties }) => `${count(wins)} / ${count(losses)} / ${count(ties)}`,
    ),
  ];
  const rows = ordered(pairs, columns, chosen.sort);
  find("differences-table").replaceChildren(
    rows.length
      ? table(columns, rows, {
          class: "cards",
          sorted: chosen.sort,
          resort: (sort) => chosen.set({ sort }),
        })
      : el(
          "p",
          { class: "note" },
          "Of no pair a difference is shown, which is not the same as none.",
        ),
  );
}

function draw() {
  const now = view();
  controls(now);
  means(now);
  differences(now);
}

head();
chosen.watch(draw);
reveal(draw);
