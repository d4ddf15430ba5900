// Metrics against the number of documents, and recall against tokens.

import {
  across,
  COLOURS,
  chart,
  ends,
  floor,
  line,
  plot,
  points,
  QUIET,
  shares,
} from "../shared/charts.js";
import { count, NONE, percent, plain, span } from "../shared/numbers.js";
import { el, find, replace, select } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { chosen, data, FAMILY, LETTERS, of, onlySlice, runDot, several } from "./data.js";

const MARKED = [1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 500, 1000];
const ks = data.by_k[0]?.ks ?? [];
const known = (slices) =>
  slices[chosen.questions] ? chosen.questions : onlySlice(Object.keys(slices));
const slider = el("input", {
  type: "range",
  id: "k",
  min: 0,
  max: ks.length - 1,
  step: 1,
  on: { input: () => chosen.move({ k: ks[Number(slider.value)] }) },
});
const out = el("output", { class: "number", for: "k" });
const sliderField = el("label", { class: "field" }, el("span", {}, "k: ", out), slider);

export function depth() {
  find("depth").hidden = !ks.length;
  if (!ks.length) return;
  const { slices, tokens } = data.by_k[0];
  const slice = known(slices);
  const other = chosen.beside in FAMILY ? chosen.beside : "precision";
  const k = ks.includes(chosen.k) ? chosen.k : ks.at(-1);
  const at = ks.indexOf(k);
  controls(slices, slice, other);
  slider.value = at;
  slider.setAttribute("aria-valuetext", `k ${k}`);
  out.textContent = k;
  find("depth-how").textContent =
    `With more documents, recall rises and precision falls (${data.by_k_of}). Solid: recall. Dashed: the other metric. Bands: 95% intervals. Dotted: random. Thin: max of the other metric.`;
  chart(find("depth-figure"), `recall and ${FAMILY[other]} against k, for ${slice}`, (width) =>
    depthChart(width, data.by_k, slice, other, k),
  );
  find("depth-reading").replaceChildren(
    ...data.by_k.map((one, run) =>
      el("div", {}, several && [runDot(run), el("strong", {}, `${LETTERS[run]} `)], reading(one)),
    ),
  );
  const value = (run, family) => (place) =>
    plain(data.by_k[run].slices[slice].families[family].value[place]);
  find("depth-table").replaceChildren(
    table(
      [
        { head: "k", number: true, cell: (place) => ks[place] },
        ...data.runs.flatMap((_, run) =>
          Object.entries(FAMILY).map(([family, name]) => ({
            head: of(run, name),
            number: true,
            cell: value(run, family),
          })),
        ),
        { head: "tokens", number: true, cell: (place) => count(Math.round(tokens[place])) },
      ],
      [...ks.keys()].filter((place) => ks[place] === k || MARKED.includes(ks[place])),
    ),
  );

  function reading(one) {
    const { families, best_f1: best } = one.slices[slice];
    const words = (family, { value, low, high } = families[family]) =>
      `${FAMILY[family]} ${plain(value[at])}${low ? ` (${span(low[at], high[at])})` : ""}`;
    return `At k = ${k}: ${words("recall")}, ${words("precision")}, F1 ${plain(families.f1.value[at])}, ${count(Math.round(one.tokens[at]))} tokens per question. F1 is highest at k = ${best}.`;
  }
}

function controls(slices, slice, other) {
  const names = Object.keys(slices).length > 2 ? Object.keys(slices) : [slice];
  const place = find("depth-choices");
  const selects = [
    select(
      "Questions",
      names.map((name) => [name, `${name} (${count(slices[name].n)})`]),
      slice,
      (value) => chosen.set({ questions: value }),
      { id: "slice" },
    ),
    select(
      "Compare with",
      Object.entries(FAMILY).slice(1),
      other,
      (value) => chosen.set({ beside: value }),
      { id: "other" },
    ),
  ];
  // Inserting the slider again would interrupt its movement.
  if (!place.contains(slider)) place.replaceChildren(el("div", { class: "controls" }), sliderField);
  replace(place.firstChild, selects);
}

export function prompt() {
  const all = data.by_tokens;
  find("prompt").hidden = !Object.keys(all[0].slices).length;
  if (find("prompt").hidden) return;
  const slice = known(all[0].slices);
  find("prompt-how").textContent =
    `Recall of the top documents that fit into a token budget. Questions: ${slice} (n = ${count(all[0].slices[slice].n)}). Tokenizer: ${data.tokenizer}. Band: 95% interval.`;
  chart(find("prompt-figure"), `recall against tokens, for ${slice}`, (width) =>
    tokenChart(width, all, slice),
  );
  const ofRun = (one, run) => {
    const { recall, ended } = one.slices[slice];
    const column = (head, id, show) => ({
      head,
      id,
      number: true,
      cell: (tokens) => {
        const place = one.budgets.indexOf(tokens);
        return place < 0 ? NONE : show(place);
      },
    });
    return [
      column(
        [of(run, "recall"), el("span", { class: "small" }, "95% interval")],
        "recall",
        (place) => [
          plain(recall.value[place]),
          recall.low && el("span", { class: "small" }, span(recall.low[place], recall.high[place])),
        ],
      ),
      column(of(run, "exhausted"), "exhausted rankings", (place) => percent(ended[place])),
    ];
  };
  find("prompt-table").replaceChildren(
    table([{ head: "tokens", number: true, cell: count }, ...all.flatMap(ofRun)], all[0].budgets),
  );
}

/** Recall and one other metric against k, for every run, with the chosen k marked. */
function depthChart(width, runs, slice, other, k) {
  const last = ks.at(-1);
  const deep = last > 100;
  const right = k > (deep ? Math.sqrt(last) : last / 2);
  const labels = [];
  const ofFamily = (one, run, family, at) => {
    const found = points(one.ks, one.slices[slice].families[family]);
    const level = (y, more) =>
      Plot.lineY(
        found.filter((p) => p[y] != null),
        { x: "x", y, stroke: QUIET, ...more },
      );
    const end = { x: last, y: found.at(-1).value, colour: COLOURS[run] };
    labels.push({ ...end, text: FAMILY[family] + (several ? ` ${LETTERS[run]}` : "") });
    if (run === 0 && family === "recall" && found.at(-1).random != null)
      labels.push({ x: last, y: found.at(-1).random, colour: QUIET, text: "random" });
    return [
      run === 0
        ? level("random", { strokeDasharray: "1 4", strokeLinecap: "round", strokeWidth: 2 })
        : null,
      run === 0 && at === 1 ? level("max", { strokeWidth: 1 }) : null,
      line(found, COLOURS[run], { strokeDasharray: at ? "6 4" : null }),
      Plot.dot(
        found.filter((p) => p.x === k),
        {
          x: "x",
          y: "value",
          r: 5,
          fill: COLOURS[run],
          stroke: "var(--raised)",
          strokeWidth: 1.5,
        },
      ),
    ];
  };
  const lines = runs.map((one, run) =>
    ["recall", other].map((family, at) => ofFamily(one, run, family, at)),
  );
  const tens =
    width < 560 ? [1, 20, 40, 60, 80, 100] : [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
  const few = last <= 10 ? [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : tens;
  const ticks = (deep ? [1, 3, 10, 30, 100, 300, 1000] : few).filter((t) => t <= last);
  return plot(width, {
    height: Math.max(300, Math.min(420, width * 0.5)),
    marginRight: 96,
    x: { type: deep ? "log" : "linear", domain: [1, last], axis: null },
    y: shares(),
    marks: [
      floor(),
      Plot.ruleX([k], { stroke: "var(--ink)", strokeWidth: 1.5 }),
      lines,
      across(ticks, count, "k: number of documents"),
      Plot.text([[k, 1]], {
        text: () => `k = ${k}`,
        dx: right ? -8 : 8,
        dy: -2,
        textAnchor: right ? "end" : "start",
        fontWeight: 600,
        fontSize: 13,
        fill: "var(--ink)",
        stroke: "var(--raised)",
        strokeWidth: 5,
      }),
      ends(labels, 0.055),
    ],
  });
}

/** Recall within a budget of tokens. */
function tokenChart(width, runs, slice) {
  const last = runs[0].budgets.at(-1);
  const labels = [];
  const lines = runs.map((one, run) => {
    const found = points(one.budgets, one.slices[slice].recall);
    if (several)
      labels.push({ x: last, y: found.at(-1).value, text: LETTERS[run], colour: COLOURS[run] });
    const dots = {
      x: "x",
      y: "value",
      r: 3.5,
      fill: COLOURS[run],
      tip: true,
      title: (p) => `${count(p.x)} tokens\nrecall ${plain(p.value)}`,
    };
    return [line(found, COLOURS[run]), Plot.dot(found, dots)];
  });
  const ticks = width < 400 ? [50, 200, 1000, 5000] : [50, 100, 200, 500, 1000, 2000, 5000];
  return plot(width, {
    marginRight: 28,
    x: { type: "log", axis: null },
    y: shares(),
    marks: [
      floor(),
      lines,
      across(
        ticks.filter((t) => t <= last),
        count,
        "tokens of retrieved text",
      ),
      ends(labels, 0.07, { dx: 10 }),
    ],
  });
}
