// Puts the report together from the data; every number on it stands there.

const data = await load();
const several = data.runs.length > 1;
const first = data.runs[0];
const view = {
  block: data.main,
  metric: data.blocks[data.main]?.lead ?? "",
  slice: "all",
  other: "precision",
  k: 10,
};
const onlySlice = (names) => (names.includes("all") ? "all" : names[0]);
const runDot = (run) => el("span", { class: `dot run-${"ab"[run]}`, "aria-hidden": "true" });

/** The cut-off of a metric's name, null for none. */
function cutOff(metric) {
  return metric.includes("@") ? Number(metric.split("@")[1]) : null;
}

function head() {
  const { dataset } = data;
  find("eyebrow").textContent =
    `Retrieval report${data.share ? " · without the texts of the dataset" : ""} · harness ${data.harness}`;
  const title = several
    ? `${first.system} and ${data.runs[1].system} on ${dataset.name}`
    : `${first.system} on ${dataset.name}`;
  find("title").textContent = title;
  document.title = title;
  find("theme-place").append(themeSwitch());
  find("lede").textContent =
    `${count(data.asked)} questions${data.asked === data.in_dataset ? "" : ` of ${count(data.in_dataset)}`} over ${dataset.granularity}s, ${dataset.text} text, ${dataset.split}; rankings ${count(data.depth)} deep; data ${dataset.fingerprint.slice(0, 8)}.`;
  if (dataset.published_files === false)
    find("lede").append(" ", el("span", { class: "tag bad" }, "not the published files"));
  find("runs").replaceChildren(
    ...(several
      ? data.runs.map((run, at) =>
          el(
            "div",
            { class: "run" },
            el("h3", {}, runDot(at), `${LETTERS[at]}: ${run.system}`),
            facts(runFacts(run)),
          ),
        )
      : [facts(runFacts(first))]),
  );
  const notes = data.runs.flatMap((run, at) =>
    [
      ...(run.sees_answer_key ? ["was shown the answer key: no competitor"] : []),
      ...run.warnings,
    ].map((words) => (several ? `${LETTERS[at]}: ${words}` : words)),
  );
  const differs = data.settings.map(({ what, values }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, what),
      values.map((value) => el("td", {}, value)),
    ),
  );
  find("notes").replaceChildren(
    differs.length
      ? el(
          "div",
          { class: "differs wide" },
          el("h3", {}, "What differs between the runs"),
          el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                el("th", { scope: "col" }, "Setting"),
                LETTERS.map((letter) => el("th", { scope: "col" }, letter)),
              ),
            ),
            el("tbody", {}, differs),
          ),
        )
      : "",
    notes.length
      ? el(
          "ul",
          { class: "note-list" },
          [...new Set(notes)].map((words) => el("li", {}, words)),
        )
      : "",
  );
  find("footer").textContent =
    `Made by harness ${data.harness} from ${data.runs.map((run) => run.name).join(" and ")}; data ${data.dataset.fingerprint}; queries ${data.digest}. Numbers are computed there; this page draws them and loads nothing from a network.`;
}

function runFacts(run) {
  return [
    ["Version", run.version],
    ["Revision", run.revision],
    ["Parameters", parameters(run.params)],
    ["Failed", count(run.failed)],
    ["Without a ranking", run.without_ranking ? count(run.without_ranking) : null],
    ["Finished", run.finished.slice(0, 16).replace("T", " ")],
    ["By", run.by],
  ];
}

function choices() {
  const blocks = data.blocks.map((block, at) => [at, `${block.protocol}, ${block.unit}`]);
  const block = data.blocks[view.block];
  find("choices").replaceChildren(
    select(
      "Protocol",
      blocks,
      view.block,
      (value) => {
        view.block = Number(value);
        view.metric = data.blocks[view.block].lead;
        update("protocol");
      },
      { id: "protocol" },
    ),
    select(
      "Metric",
      block.metrics.map((name) => [name, name]),
      view.metric,
      (value) => {
        view.metric = value;
        update("metric");
      },
      { id: "metric" },
    ),
  );
}

function headline() {
  const block = data.blocks[view.block],
    slice = onlySlice(block.slices.map(({ name }) => name)),
    metric = view.metric;
  if (!slice || !metric)
    return find("figure").replaceChildren(
      el("p", {}, "No question could be scored under this protocol."),
    );
  const cells = block.cells.map((cells) => cells[slice][metric]);
  const blockOf = (cell, at) =>
    el(
      "div",
      {},
      el(
        "div",
        { class: "what" },
        several
          ? [runDot(at), `${LETTERS[at]}: ${data.runs[at].system}`]
          : `${metric}, ${slice === "all" ? "all questions" : slice}`,
      ),
      el("div", { class: `value run-${"ab"[at]}` }, plain(cell.value)),
      el(
        "div",
        { class: "what" },
        cell.interval
          ? `95% interval ${span(cell.interval.low, cell.interval.high)}`
          : "no interval",
      ),
    );
  const level = (name, value) =>
    value === null || value === undefined
      ? null
      : el(
          "div",
          {},
          el("div", { class: "what" }, name),
          el("div", { class: "number" }, plain(value)),
        );
  const leftOut = block.left_out.map((reasons) =>
    Object.entries(reasons)
      .map(([reason, n]) => `${count(n)} ${reason}`)
      .join("; "),
  );
  const alike = new Set(leftOut).size === 1;
  const left = alike
    ? leftOut[0]
    : leftOut.map((words, at) => `${LETTERS[at]}: ${words || "none"}`).join("; ");
  const ns = [...new Set(cells.map((cell) => count(cell.n)))].join(" | ");
  find("figure").replaceChildren(
    el(
      "div",
      { class: "big" },
      cells.map(blockOf),
      level(`chance${cells[0].chance_is ? `, ${cells[0].chance_is}` : ""}`, cells[0].chance),
      level(`ceiling${cells[0].ceiling_is ? `, ${cells[0].ceiling_is}` : ""}`, cells[0].ceiling),
      el("div", {}, el("div", { class: "what" }, "n"), el("div", { class: "number" }, ns)),
    ),
    several ? verdict(block.pairs[slice]?.[metric], metric, block.dropped) : "",
    el(
      "p",
      { class: "how" },
      `${block.protocol}: ${block.about}.${left ? ` Not scored: ${left}.` : ""} ${intervalSaid(cells[0].interval)}.`,
    ),
  );
}

/** What a paired comparison says, in a sentence. */
function verdict(pair, metric, dropped) {
  if (!pair) return el("p", { class: "verdict" }, "These two were not compared in this metric.");
  const end = pair.shown
    ? `A difference is shown (p = ${pair.p.toFixed(4)}, corrected).`
    : `No difference is shown (p = ${pair.p === null ? NONE : pair.p.toFixed(4)}, corrected), which is not the same as none.`;
  const could =
    pair.detectable === null
      ? "With so few that differ, beside so many tests, none could have been shown."
      : `The smallest that these questions could have shown at 80% power: ${plain(pair.detectable)}.`;
  const alone = dropped
    .map((n, at) =>
      n ? ` ${count(n)} questions of ${LETTERS[at]} have no value in the other.` : "",
    )
    .join("");
  return el(
    "p",
    { class: "verdict" },
    `${metric}, B − A: `,
    el("strong", { class: "number" }, signed(pair.difference)),
    ` (95% interval ${span(pair.low, pair.high, signed)}). ${end} ${could} B won ${count(pair.won)}, lost ${count(pair.lost)}, tied ${count(pair.tied)}.${alone}`,
  );
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
find("questions-how").textContent =
  `Every question with its evidence, the first ${data.shown} places of its ranking, what was missed, and why it was not scored. Choose one for the details; arrow keys move along the list.`;
update();
depth();
prompt();
others();
