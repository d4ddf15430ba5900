// The parts of a report on how much to take: by documents and by tokens.

/** Controls of the two charts that are about what is taken from a ranking. */
function depthControls() {
  find("depth").hidden = !data.by_k.length;
  if (!data.by_k.length) return;
  const { ks, slices } = data.by_k[0];
  view.k = ks.includes(view.k) ? view.k : ks.at(-1);
  view.slice = onlySlice(Object.keys(slices));
  const names = Object.keys(slices).length > 2 ? Object.keys(slices) : [view.slice];
  const out = el("output", { class: "number", for: "k" });
  const slider = el("input", {
    type: "range",
    id: "k",
    min: 0,
    max: ks.length - 1,
    step: 1,
    value: ks.indexOf(view.k),
    on: {
      input: () => {
        view.k = ks[Number(slider.value)];
        depth();
      },
    },
  });
  find("depth-choices").replaceChildren(
    select(
      "Questions",
      names.map((name) => [name, `${name} (${count(slices[name].n)})`]),
      view.slice,
      (value) => {
        view.slice = value;
        depth();
        prompt();
      },
      { id: "slice" },
    ),
    select(
      "Beside recall",
      Object.keys(FAMILY)
        .slice(1)
        .map((name) => [name, FAMILY[name]]),
      view.other,
      (value) => {
        view.other = value;
        depth();
      },
      { id: "other" },
    ),
    el("label", { class: "field" }, el("span", {}, "k: ", out), slider),
  );
  find("depth-how").textContent =
    `${data.by_k_of}: the more documents are taken, the more evidence is among them, and the more of what is taken is something else. Solid: recall. Dashed: the other metric. Bands: 95% intervals. Dotted: chance. Thin: the highest that the dashed line could reach.`;
}

function depth() {
  if (!data.by_k.length) return;
  const { ks, tokens } = data.by_k[0],
    at = ks.indexOf(view.k);
  find("k").setAttribute("aria-valuetext", `k ${view.k}`);
  find("depth-choices").querySelector("output").textContent = view.k;
  chart(
    find("depth-figure"),
    `recall and ${FAMILY[view.other]} against k, for ${view.slice}`,
    (width) => depthChart(width, data.by_k, view.slice, view.other, view.k),
  );
  const said = data.by_k.map((one, run) => {
    const { families, best_f1: best } = one.slices[view.slice];
    const band = (series) => (series.low ? ` (${span(series.low[at], series.high[at])})` : "");
    const text = `At k = ${view.k}: recall ${plain(families.recall.value[at])}${band(families.recall)}, precision ${plain(families.precision.value[at])}${band(families.precision)}, F1 ${plain(families.f1.value[at])}, ${count(Math.round(one.tokens[at]))} tokens a question. F1 is largest at k = ${best}.`;
    return el(
      "div",
      {},
      several ? [runDot(run), el("strong", {}, `${LETTERS[run]} `)] : null,
      text,
    );
  });
  find("depth-reading").replaceChildren(...said);
  const marked = ks
    .map((k, place) => [k, place])
    .filter(([k]) =>
      [1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 500, 1000, view.k].includes(k),
    );
  const columns = data.runs.flatMap((_, run) =>
    ["recall", "precision", "f1", "hit", "recall_all", "ndcg"].map((family) => ({ run, family })),
  );
  find("depth-table").replaceChildren(
    table(
      [
        "k",
        ...columns.map(
          ({ run, family }) => `${several ? `${LETTERS[run]} ` : ""}${FAMILY[family]}`,
        ),
        "tokens",
      ],
      marked.map(([k, place]) => [
        el("th", { scope: "row", class: "number" }, k),
        ...columns.map(({ run, family }) =>
          el(
            "td",
            { class: "number" },
            plain(data.by_k[run].slices[view.slice].families[family].value[place]),
          ),
        ),
        el("td", { class: "number" }, count(Math.round(tokens[place]))),
      ]),
    ),
  );
}

function prompt() {
  const all = data.by_tokens,
    names = Object.keys(all[0].slices);
  find("prompt").hidden = !names.length;
  if (!names.length) return;
  const slice = names.includes(view.slice) ? view.slice : names[0];
  find("prompt-how").textContent =
    `Recall of as much of a ranking as fits, ${slice} (n ${count(all[0].slices[slice].n)}). Tokens: ${data.tokenizer}. Band: 95% interval.`;
  chart(find("prompt-figure"), `recall against tokens, for ${slice}`, (width) =>
    tokenChart(width, all, slice),
  );
  find("prompt-table").replaceChildren(
    table(
      [
        "tokens",
        ...data.runs.flatMap((_, run) => [
          `${several ? `${LETTERS[run]} ` : ""}recall`,
          "95% interval",
          "rankings that ended",
        ]),
      ],
      all[0].budgets.map((tokens, at) => [
        el("th", { scope: "row", class: "number" }, count(tokens)),
        ...all.flatMap((one) => {
          const place = one.budgets.indexOf(tokens),
            { recall, ended } = one.slices[slice];
          const cell = (words) => el("td", { class: "number" }, words);
          return place < 0
            ? [cell(NONE), cell(NONE), cell(NONE)]
            : [
                cell(plain(recall.value[place])),
                cell(recall.low ? span(recall.low[place], recall.high[place]) : NONE),
                cell(`${plain(100 * ended[place], 0)}%`),
              ];
        }),
      ]),
    ),
  );
}
