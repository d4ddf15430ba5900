// Puts the report together from the data; every number on it stands there.

const data = await load();
const several = data.runs.length > 1;
const first = data.runs[0];
const view = { block: data.main, metric: data.blocks[data.main]?.lead ?? "", slice: "all", other: "precision", k: 10 };
const onlySlice = (names) => (names.includes("all") ? "all" : names[0]);
const runDot = (run) => el("span", { class: `dot run-${"ab"[run]}`, "aria-hidden": "true" });

/** The cut-off of a metric's name, null for none. */
function cutOff(metric) {
  return metric.includes("@") ? Number(metric.split("@")[1]) : null;
}

function head() {
  const { dataset } = data;
  find("eyebrow").textContent = `Retrieval report${data.share ? " · without the texts of the dataset" : ""} · harness ${data.harness}`;
  const title = several ? `${first.system} and ${data.runs[1].system} on ${dataset.name}` : `${first.system} on ${dataset.name}`;
  find("title").textContent = title;
  document.title = title;
  find("theme-place").append(themeSwitch());
  find("lede").textContent = `${count(data.asked)} questions${data.asked === data.in_dataset ? "" : ` of ${count(data.in_dataset)}`} over ${dataset.granularity}s, ${dataset.text} text, ${dataset.split}; rankings ${count(data.depth)} deep; data ${dataset.fingerprint.slice(0, 8)}.`;
  const altered = dataset.published_files === false ? [" ", el("span", { class: "tag bad" }, "not the published files")] : null;
  find("runs").replaceChildren(
    facts([
      ["Data", [el("code", {}, dataset.fingerprint.slice(0, 8)), ...(altered ?? [])]],
      ["A document is", `a ${dataset.granularity}`], ["Text", dataset.text], ["Split", dataset.split],
      ["Questions asked", data.asked === data.in_dataset ? count(data.asked) : `${count(data.asked)} of ${count(data.in_dataset)}`],
      ["Depth of rankings", count(data.depth)],
      ...(several ? [] : runFacts(first)),
    ]),
    ...(several ? data.runs.map((run, at) => el("div", { class: "run" }, el("h3", {}, runDot(at), `${LETTERS[at]}: ${run.system}`), facts(runFacts(run)))) : []),
  );
  const notes = data.runs.flatMap((run, at) => [
    ...(run.sees_answer_key ? ["was shown the answer key: no competitor"] : []), ...run.warnings,
  ].map((words) => (several ? `${LETTERS[at]}: ${words}` : words)));
  const differs = data.settings.map(({ what, values }) => el("tr", {}, el("th", { scope: "row" }, what), values.map((value) => el("td", {}, value))));
  find("notes").replaceChildren(
    differs.length ? el("div", { class: "differs wide" }, el("h3", {}, "What differs between the runs"), el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Setting"), LETTERS.map((letter) => el("th", { scope: "col" }, letter)))), el("tbody", {}, differs))) : "",
    notes.length ? el("ul", { class: "note-list" }, [...new Set(notes)].map((words) => el("li", {}, words))) : "",
  );
  find("footer").textContent = `Made by harness ${data.harness} from ${data.runs.map((run) => run.name).join(" and ")}; data ${data.dataset.fingerprint}; queries ${data.digest}. Numbers are computed there; this page draws them and loads nothing from a network.`;
}

function runFacts(run) {
  return [
    ["Version", run.version], ["Revision", run.revision], ["Parameters", parameters(run.params)], ["Failed", count(run.failed)],
    ["Without a ranking", run.without_ranking ? count(run.without_ranking) : null],
    ["Finished", run.finished.slice(0, 16).replace("T", " ")], ["By", run.by],
  ];
}

function choices() {
  const blocks = data.blocks.map((block, at) => [at, `${block.protocol}, ${block.unit}`]);
  const block = data.blocks[view.block];
  find("choices").replaceChildren(
    select("Protocol", blocks, view.block, (value) => { view.block = Number(value); view.metric = data.blocks[view.block].lead; update("protocol"); }, { id: "protocol" }),
    select("Metric", block.metrics.map((name) => [name, name]), view.metric, (value) => { view.metric = value; update("metric"); }, { id: "metric" }),
  );
}

function headline() {
  const block = data.blocks[view.block], slice = onlySlice(block.slices.map(({ name }) => name)), metric = view.metric;
  if (!slice || !metric) return find("figure").replaceChildren(el("p", {}, "No question could be scored under this protocol."));
  const cells = block.cells.map((cells) => cells[slice][metric]);
  const blockOf = (cell, at) => el("div", {},
    el("div", { class: "what" }, several ? [runDot(at), `${LETTERS[at]}: ${data.runs[at].system}`] : `${metric}, ${slice === "all" ? "all questions" : slice}`),
    el("div", { class: `value run-${"ab"[at]}` }, plain(cell.value)),
    el("div", { class: "what" }, cell.interval ? `95% interval ${span(cell.interval.low, cell.interval.high)}` : "no interval"));
  const level = (name, value) => (value === null || value === undefined ? null : el("div", {}, el("div", { class: "what" }, name), el("div", { class: "number" }, plain(value))));
  const left = Object.entries(block.left_out[0]).map(([reason, n]) => `${count(n)} ${reason}`).join("; ");
  find("figure").replaceChildren(
    el("div", { class: "big" }, cells.map(blockOf), level("chance", cells[0].chance), level("ceiling", cells[0].ceiling), el("div", {}, el("div", { class: "what" }, "n"), el("div", { class: "number" }, count(cells[0].n)))),
    several ? verdict(block.pairs[slice]?.[metric], metric) : "",
    el("p", { class: "how" }, `${block.protocol}: ${block.about}.${left ? ` Not scored: ${left}.` : ""} ${intervalSaid(cells[0].interval)}.`),
  );
}

/** What a paired comparison says, in a sentence. */
function verdict(pair, metric) {
  if (!pair) return el("p", { class: "verdict" }, "These two were not compared in this metric.");
  const end = pair.shown ? `A difference is shown (p = ${pair.p.toFixed(4)}, corrected).` : `No difference is shown (p = ${pair.p === null ? NONE : pair.p.toFixed(4)}, corrected), which is not the same as none.`;
  return el("p", { class: "verdict" }, `${metric}, A − B: `, el("strong", { class: "number" }, signed(pair.difference)), ` (95% interval ${span(pair.low, pair.high, signed)}). ${end} The smallest that these questions could have shown at 80% power: ${plain(pair.detectable)}. A won ${count(pair.won)}, lost ${count(pair.lost)}, tied ${count(pair.tied)}.`);
}

function abilities() {
  const block = data.blocks[view.block], metric = view.metric;
  find("abilities").hidden = !block.slices.length;
  if (!block.slices.length) return;
  chart(find("abilities-figure"), `${metric} by ability with 95% intervals; the table below has the numbers`, (width) => abilityChart(width, block.slices, block.cells, metric));
  const number = (value) => el("td", { class: "number" }, value);
  const titles = ["Slice", "n", ...data.runs.flatMap((_, run) => [`${several ? `${LETTERS[run]} ` : ""}${metric}`, "95% interval"]), ...(several ? ["A − B", "95% interval", "p", "detectable", "won / lost / tied"] : []), "chance", "ceiling"];
  find("abilities-table").replaceChildren(table(titles, block.slices.map(({ name, n }) => {
    const cells = block.cells.map((cells) => cells[name][metric]), pair = block.pairs[name]?.[metric];
    return [el("th", { scope: "row" }, name), number(count(n)),
      ...cells.flatMap((cell) => [number(plain(cell.value)), number(cell.interval ? span(cell.interval.low, cell.interval.high) : NONE)]),
      ...(several ? (pair ? [number(signed(pair.difference)), number(span(pair.low, pair.high, signed)), number(`${plain(pair.p, 4)}${pair.shown ? " *" : ""}`), number(plain(pair.detectable)), number(`${pair.won} / ${pair.lost} / ${pair.tied}`)] : Array.from({ length: 5 }, () => number(NONE))) : []),
      number(plain(cells[0].chance)), number(plain(cells[0].ceiling))];
  })));
}

function table(titles, rows) {
  return el("table", {}, el("thead", {}, el("tr", {}, titles.map((title, at) => el("th", { scope: "col", class: at ? "number" : null }, title)))), el("tbody", {}, rows.map((row) => el("tr", {}, row))));
}

/** Controls of the two charts that are about what is taken from a ranking. */
function depthControls() {
  find("depth").hidden = !data.by_k.length;
  if (!data.by_k.length) return;
  const { ks, slices } = data.by_k[0];
  view.k = ks.includes(view.k) ? view.k : ks.at(-1);
  view.slice = onlySlice(Object.keys(slices));
  const names = Object.keys(slices).length > 2 ? Object.keys(slices) : [view.slice];
  const out = el("output", { class: "number", for: "k" });
  const slider = el("input", { type: "range", id: "k", min: 0, max: ks.length - 1, step: 1, value: ks.indexOf(view.k), on: { input: () => { view.k = ks[Number(slider.value)]; depth(); } } });
  find("depth-choices").replaceChildren(
    select("Questions", names.map((name) => [name, `${name} (${count(slices[name].n)})`]), view.slice, (value) => { view.slice = value; depth(); prompt(); }, { id: "slice" }),
    select("Beside recall", Object.keys(FAMILY).slice(1).map((name) => [name, FAMILY[name]]), view.other, (value) => { view.other = value; depth(); }, { id: "other" }),
    el("label", { class: "field" }, el("span", {}, "k: ", out), slider),
  );
  find("depth-how").textContent = `${data.by_k_of}: the more documents are taken, the more evidence is among them, and the more of what is taken is something else. Solid: recall. Dashed: the other metric. Bands: 95% intervals. Dotted: chance. Thin: the highest that the dashed line could reach.`;
}

function depth() {
  if (!data.by_k.length) return;
  const { ks, tokens } = data.by_k[0], at = ks.indexOf(view.k);
  find("k").setAttribute("aria-valuetext", `k ${view.k}`);
  find("depth-choices").querySelector("output").textContent = view.k;
  chart(find("depth-figure"), `recall and ${FAMILY[view.other]} against k, for ${view.slice}`, (width) => depthChart(width, data.by_k, view.slice, view.other, view.k));
  const said = data.by_k.map((one, run) => {
    const { families, best_f1: best } = one.slices[view.slice];
    const band = (series) => (series.low ? ` (${span(series.low[at], series.high[at])})` : "");
    const text = `At k = ${view.k}: recall ${plain(families.recall.value[at])}${band(families.recall)}, precision ${plain(families.precision.value[at])}${band(families.precision)}, F1 ${plain(families.f1.value[at])}, ${count(Math.round(one.tokens[at]))} tokens a question. F1 is largest at k = ${best}.`;
    return el("div", {}, several ? [runDot(run), el("strong", {}, `${LETTERS[run]} `)] : null, text);
  });
  find("depth-reading").replaceChildren(...said);
  const marked = ks.map((k, place) => [k, place]).filter(([k]) => [1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 200, 500, 1000, view.k].includes(k));
  const columns = data.runs.flatMap((_, run) => ["recall", "precision", "f1", "hit", "recall_all", "ndcg"].map((family) => ({ run, family })));
  find("depth-table").replaceChildren(table(["k", ...columns.map(({ run, family }) => `${several ? `${LETTERS[run]} ` : ""}${FAMILY[family]}`), "tokens"], marked.map(([k, place]) => [
    el("th", { scope: "row", class: "number" }, k), ...columns.map(({ run, family }) => el("td", { class: "number" }, plain(data.by_k[run].slices[view.slice].families[family].value[place]))), el("td", { class: "number" }, count(Math.round(tokens[place]))),
  ])));
}

function prompt() {
  const all = data.by_tokens, names = Object.keys(all[0].slices);
  find("prompt").hidden = !names.length;
  if (!names.length) return;
  const slice = names.includes(view.slice) ? view.slice : names[0];
  find("prompt-how").textContent = `Recall of as much of a ranking as fits, ${slice} (n ${count(all[0].slices[slice].n)}). Tokens: ${data.tokenizer}. Band: 95% interval.`;
  chart(find("prompt-figure"), `recall against tokens, for ${slice}`, (width) => tokenChart(width, all, slice));
  find("prompt-table").replaceChildren(table(["tokens", ...data.runs.flatMap((_, run) => [`${several ? `${LETTERS[run]} ` : ""}recall`, "95% interval", "rankings that ended"])], all[0].budgets.map((tokens, at) => [
    el("th", { scope: "row", class: "number" }, count(tokens)),
    ...all.flatMap((one) => {
      const place = one.budgets.indexOf(tokens), { recall, ended } = one.slices[slice];
      const cell = (words) => el("td", { class: "number" }, words);
      return place < 0 ? [cell(NONE), cell(NONE), cell(NONE)] : [cell(plain(recall.value[place])), cell(recall.low ? span(recall.low[place], recall.high[place]) : NONE), cell(`${plain(100 * ended[place], 0)}%`)];
    }),
  ])));
}

function others() {
  const risks = data.risk.filter(Boolean);
  find("risk").hidden = !risks.length;
  if (risks.length) {
    const area = data.risk.map((one, run) => (one ? `${several ? `${LETTERS[run]}: ` : ""}AURC ${plain(one.aurc)}, by ${one.confidence_is}` : null)).filter(Boolean).join("; ");
    find("risk-how").textContent = `Share of wrong answers (${risks[0].wrong_is}) when only the surest are given. ${area}; n ${count(risks[0].n)}. Lower is better.`;
    chart(find("risk-figure"), "risk against coverage", (width) => riskChart(width, data.risk));
  }
  find("latency").hidden = !data.latency;
  if (data.latency) {
    find("latency-how").textContent = data.latency.runs.map((one, run) => (one ? `${several ? `${LETTERS[run]}: ` : ""}half within ${duration(one.p50)}, 95% within ${duration(one.p95)}, 99% within ${duration(one.p99)}; n ${count(one.n)}` : `${LETTERS[run]}: not measured`)).join(". ") + ". Measured where it ran; machines differ.";
    chart(find("latency-figure"), "distribution of the time of a query", (width) => latencyChart(width, data.latency));
  }
  const rows = (run) => {
    const pairs = [];
    if (run.abstention) {
      const { confidence } = run.abstention;
      pairs.push(["Questions without an answer", count(run.abstention.n_unanswerable)], ["False evidence", plain(run.abstention.false_evidence_rate)]);
      if (confidence) pairs.push(["AUROC", plain(confidence.auroc)], ["F1 of abstaining, cross-validated", plain(confidence.at_threshold.f1)]);
    }
    for (const [name, value] of Object.entries(run.knowledge_update ?? {})) {
      if (name !== "signatures") pairs.push([name === "n" ? "Questions on updated facts" : name.replaceAll("_", " "), name === "n" ? count(value) : plain(value)]);
    }
    return pairs;
  };
  const blocks = data.runs.map(rows);
  find("silence").hidden = !blocks.some((pairs) => pairs.length);
  find("silence-facts").replaceChildren(...blocks.map((pairs, run) => el("div", { class: "run" }, several ? el("h3", {}, runDot(run), LETTERS[run]) : null, facts(pairs))));
}

function update(focus) {
  choices();
  headline();
  abilities();
  list.view({ block: view.block, metric: view.metric, k: cutOff(view.metric) });
  if (focus) find(focus).focus();
}

head();
find("main").hidden = false;
depthControls();
const list = new Questions(data);
find("questions-how").textContent = `Every question with its evidence, the first ${data.shown} places of its ranking, what was missed, and why it was not scored. Choose one for the details; arrow keys move along the list.`;
update();
depth();
prompt();
others();
