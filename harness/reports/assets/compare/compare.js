// Several runs: the best one against each other run, all means, and all pairs.

import { choices } from "../shared/address.js";
import { COLOURS, chart } from "../shared/charts.js";
import { differenceChart } from "../shared/differences.js";
import { lowerIsBetter } from "../shared/glossary.js";
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
// A report of one of them links back to the board too, which is two levels up from there.
const from = new URLSearchParams(location.search).get("from") ?? HOME;
const back = `?${new URLSearchParams({ from: from.replace(/^(?:\.\.\/)+/, "../../") })}`;
const LETTERS = data.runs.map((_, at) => (at < 26 ? String.fromCharCode(65 + at) : `R${at}`));

/** The chosen metric and slice; defaults if the address names unknown ones. */
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
    `protocol ${data.protocol} · ${data.level} level · ${count(data.clusters)} independent ${data.cluster_by}`;
  find("settings-title").textContent = `Different settings (${count(data.settings.length)})`;
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
  find("footer").replaceChildren(el("p", {}, "In a terminal: ", el("code", {}, data.command)));
}

function controls({ metric, slice }) {
  const one = (label, id, options, value, change) =>
    select(label, options, value, (next) => chosen.set(change(next)), { id });
  find("choices").replaceChildren(
    one("Metric", "metric", data.metrics, metric, (name) => ({ metric: name })),
    one("Questions", "slice", data.slices, slice, (questions) => ({ questions })),
    one(
      "Pairs",
      "shown",
      [
        ["all", "all"],
        ["shown", "significant differences"],
      ],
      chosen.shown,
      (shown) => ({ shown }),
    ),
  );
}

/** Text between backticks as code. */
const coded = (line) => line.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

const letter = (at) => el("span", { class: "tag" }, LETTERS[at]);

/** The best run in a sentence, and the difference of each other run to it as a chart. */
function best({ metric, slice }) {
  const { means = [], pairs = [] } = data.results[slice][metric] ?? {};
  const lower = lowerIsBetter(metric);
  const order = [...means.keys()].sort((a, b) =>
    lower ? means[a].value - means[b].value : means[b].value - means[a].value,
  );
  const [first, ...others] = order;
  const label = (at) => {
    const { name, distinct_params: params } = data.runs[at];
    const twice = data.runs.filter((run) => run.name === name).length > 1;
    return `${name}${twice ? ` ${parameters(params)}` : ""} (${LETTERS[at]})`;
  };
  const rows = others.map((at) => ({
    name: label(at),
    at,
    ...turned(
      pairs.find(({ a, b }) => (a === first && b === at) || (a === at && b === first)),
      at,
    ),
  }));
  const worse = rows.filter(({ shown }) => shown);
  const level = rows.filter(({ shown }) => !shown);
  const names = (some) => some.map(({ name }) => name).join(", ");
  const over = slice === "all" ? "" : ` for ${slice}`;
  find("verdict").textContent =
    first === undefined
      ? "No question can be scored."
      : worse.length
        ? `${label(first)} has the ${lower ? "lowest" : "highest"} ${metric}${over}, ${plain(means[first].value)}. Significantly ${lower ? "higher" : "lower"}: ${names(worse)}.${level.length ? ` No significant difference: ${names(level)}.` : ""}`
        : `No significant difference overall in ${metric}${over} between the best run, ${label(first)}, and the others.`;
  const figure = find("best-figure");
  figure.hidden = !rows.length;
  if (figure.hidden) return;
  const longest = Math.max(...rows.map(({ name }) => name.length));
  const axis = `difference to ${label(first)}, ${metric}`;
  chart(figure, axis, (width) => {
    const letters = width < 640 || longest > 50;
    const shown = rows.map((row) => ({
      ...row,
      name: letters ? LETTERS[row.at] : row.name,
      colour: COLOURS[1],
    }));
    return differenceChart(width, shown, axis, { marginLeft: letters ? 40 : 24 + 7.2 * longest });
  });
}

/** A pair as the run `at` minus the other one. */
function turned(pair, at) {
  if (!pair || pair.b === at) return pair;
  const { low, high, difference } = pair;
  const less = (value) => (value === null ? null : -value);
  return { ...pair, difference: less(difference), low: less(high), high: less(low) };
}

/** The means of each run by slice. */
function means({ metric }) {
  find("means-title").textContent = `${metric} of each run`;
  const of = (slice) => ({
    head: [slice, el("span", { class: "small" }, `n ${count(data.results[slice][metric]?.n)}`)],
    title: `mean ${metric} of these questions with its 95% interval`,
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

/** All pairs in one slice. */
function differences({ metric, slice }) {
  find("differences-title").textContent =
    `Differences in ${metric}, ${slice === "all" ? "all questions" : slice}`;
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
      { title: "difference of the means over the same questions; * significant" },
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
      : el("p", { class: "note" }, "No significant difference between any two runs."),
  );
}

function draw() {
  const now = view();
  controls(now);
  best(now);
  means(now);
  differences(now);
}

head();
chosen.watch(draw);
reveal(draw);
