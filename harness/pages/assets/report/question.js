// One question: what was asked, where its evidence is, what each run returned.

/** The panel of a question; `at` is its place in the columns, `view` what the page shows now. */
function questionPanel(data, at, view, close) {
  const { columns, evidence, documents, texts, runs, rankings } = data.queries;
  const text = (number) => (number >= 0 ? texts[number] : null);
  const several = runs.length > 1;
  const name = (run) =>
    several ? `${LETTERS[run]}: ${data.runs[run].system}` : data.runs[run].system;

  const about = (document) =>
    [
      documents.id[document],
      documents.session?.[document],
      documents.date?.[document],
      documents.speaker?.[document],
    ]
      .filter((part, place, all) => part && all.indexOf(part) === place)
      .join(" · ");
  const body = (document) => (documents.text ? text(documents.text[document]) : null);

  const answers = (columns.answers?.[at] ?? []).map(text).filter(Boolean);
  const parts = [
    el("button", { type: "button", class: "close", on: { click: close } }, "Close"),
    el("h3", { id: "question-title" }, text(columns.text?.[at] ?? -1) ?? columns.id[at]),
    el(
      "p",
      { class: "note" },
      [
        columns.id[at],
        columns.ability[at],
        columns.category[at],
        columns.haystack[at],
        columns.date?.[at],
      ]
        .filter((part, place, all) => part && all.indexOf(part) === place)
        .join(" · "),
    ),
  ];
  if (answers.length)
    parts.push(
      el("h4", {}, answers.length > 1 ? "Reference answers" : "Reference answer"),
      el("p", { class: "said" }, answers.join(" / ")),
    );

  const block = data.queries.blocks[view.block];
  runs.forEach((run, place) => {
    const reason = block.left_out[place][at];
    if (reason >= 0)
      parts.push(
        el(
          "p",
          {},
          el("span", { class: "tag" }, "not scored"),
          ` ${several ? `${LETTERS[place]}: ` : ""}${block.reasons[place][reason]}`,
        ),
      );
    const trace = run.failed[at] ? text(run.errors[at] ?? -1) : null;
    if (run.failed[at])
      parts.push(
        el(
          "p",
          {},
          el("span", { class: "tag bad" }, "failed"),
          ` ${several ? LETTERS[place] : ""}`,
        ),
        trace ? el("pre", { class: "trace" }, trace) : null,
      );
    if (run.abstained[at])
      parts.push(
        el(
          "p",
          {},
          el("span", { class: "tag" }, "abstained"),
          ` ${several ? LETTERS[place] : "the system said that there is no answer"}`,
        ),
      );
  });
  parts.push(el("h4", {}, "Values"), valuesOf(data, at, view));
  parts.push(el("h4", {}, "Evidence, and where it was ranked"), evidenceList());
  rankings.forEach((ranking, run) => {
    const from = ranking.start[at],
      to = ranking.start[at + 1];
    parts.push(
      el(
        "h4",
        {},
        several ? el("span", { class: `dot run-${"ab"[run]}` }) : null,
        `Ranking of ${name(run)}: ${from === to ? "nothing was returned" : `the first ${to - from} of ${runs[run].returned[at]}`}`,
      ),
    );
    parts.push(
      el(
        "ol",
        {},
        Array.from({ length: to - from }, (_, step) => rankedItem(ranking, from + step, step + 1)),
      ),
    );
    if (runs[run].hits[at]?.length)
      parts.push(
        el("h4", {}, "What the system returned, as its own texts"),
        el("ol", {}, runs[run].hits[at].map(hitItem)),
      );
  });
  return parts;

  function evidenceList() {
    const items = [];
    for (let row = evidence.start[at]; row < evidence.start[at + 1]; row += 1) {
      const document = evidence.document[row];
      const said = evidence.missing[row]
        ? [el("span", { class: "missed" }, "is not in the corpus")]
        : evidence.rank.map((ranks, run) => rankSaid(ranks[row], run));
      items.push(
        el(
          "li",
          { class: "gold" },
          el("span", { class: "place", "aria-hidden": "true" }, "★"),
          el(
            "div",
            {},
            el("div", {}, said.map((part, place) => (place ? [" · ", part] : [part])).flat()),
            el("div", { class: "about" }, about(document)),
            said_(body(document)),
          ),
        ),
      );
    }
    return items.length
      ? el("ul", {}, items)
      : el("p", { class: "note" }, "The answer key names none.");
  }

  function rankSaid(rank, run) {
    const who = several ? `${LETTERS[run]}: ` : "";
    if (!rank)
      return el(
        "span",
        { class: "missed" },
        `${who}missed, not among ${runs[run].returned[at]} returned`,
      );
    const k = view.k;
    return k && rank > k
      ? el("span", { class: "missed" }, `${who}missed at ${k}: rank ${rank}`)
      : el("span", {}, `${who}rank ${rank}`);
  }

  function rankedItem(ranking, row, place) {
    const document = ranking.document[row],
      gold = ranking.gold[row] > 0;
    return el(
      "li",
      { class: gold ? "gold" : null },
      el("span", { class: "place" }, `${place}${gold ? " ★" : ""}`),
      el(
        "div",
        {},
        el(
          "div",
          { class: "about" },
          gold ? el("span", { class: "tag gold" }, "evidence") : null,
          gold ? " " : null,
          document < 0 ? "not a document of the corpus" : about(document),
        ),
        document < 0 ? null : said_(body(document)),
      ),
    );
  }

  function hitItem([number, way, ids], place) {
    return el(
      "li",
      {},
      el("span", { class: "place" }, place + 1),
      el(
        "div",
        {},
        el(
          "div",
          { class: "about" },
          ids.length ? `${way}: ${ids.join(", ")}` : "no document was found for it",
        ),
        said_(text(number)),
      ),
    );
  }

  function said_(words) {
    return words ? el("div", { class: "said" }, words) : null;
  }
}

/** The values of a question under the chosen protocol, at the chosen cut-off and without one. */
function valuesOf(data, at, view) {
  const block = data.queries.blocks[view.block],
    several = data.runs.length > 1;
  const cut = view.metric.includes("@") ? `@${view.metric.split("@")[1]}` : "";
  const names = data.blocks[view.block].metrics.filter(
    (name) => name === view.metric || (cut ? name.endsWith(cut) : !name.includes("@")),
  );
  return el(
    "table",
    { class: "values" },
    el(
      "tbody",
      {},
      names.map((name) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, name),
          block.values.map((values, run) =>
            el(
              "td",
              { class: "number" },
              `${several ? `${LETTERS[run]} ` : ""}${plain(values[name][at])}`,
            ),
          ),
          several
            ? el("td", { class: "number" }, `B − A ${signed(block.difference[name][at])}`)
            : null,
        ),
      ),
    ),
  );
}
