// The board: switches, a table that sorts, intervals, and details on click.

let data = await load();
const live = document.body.dataset.live === "yes";
const state = {
  board: 0,
  view: 0,
  slice: "all",
  k: "10",
  metric: "",
  sort: "metric",
  direction: -1,
  open: new Set(),
};
const distinct = (values) => [...new Set(values)];
const board = () => data.boards[state.board];
const view = () => board().views[state.view];

/** Metrics at the chosen cut-off. */
function shown() {
  return view().metrics.filter(({ k }) => String(k ?? "all") === state.k);
}

/** Show another board, by what it is best shown by. */
function turnTo(at) {
  Object.assign(state, { board: at, view: 0, metric: "", sort: "metric", direction: -1 });
  state.open.clear();
}

/** Keep every choice to something that there is. */
function settle() {
  state.board = Math.min(state.board, data.boards.length - 1);
  state.view = Math.min(state.view, board().views.length - 1);
  const { slices, metrics } = view();
  if (!slices.includes(state.slice)) state.slice = slices[0];
  const ks = distinct(metrics.map(({ k }) => String(k ?? "all")));
  if (!ks.includes(state.k)) state.k = ks.includes("10") ? "10" : ks.at(-1);
  const names = shown().map(({ name }) => name),
    family = state.metric.split("@")[0];
  if (!names.includes(state.metric))
    state.metric = shown().find((one) => one.family === family)?.name ?? lead(names);
}

function lead(names) {
  const wanted = view().key[0].startsWith("trec") ? "ndcg" : "recall";
  return names.find((name) => name.startsWith(wanted)) ?? names[0];
}

function choices() {
  const { boards } = data,
    { dataset } = board();
  const sets = distinct(boards.map((one) => one.dataset.name));
  const grains = distinct(
    boards.filter((one) => one.dataset.name === dataset.name).map((one) => one.dataset.granularity),
  );
  const alike = boards
    .map((one, at) => [at, one])
    .filter(
      ([, one]) =>
        one.dataset.name === dataset.name && one.dataset.granularity === dataset.granularity,
    );
  const go = (test) => turnTo(boards.findIndex(test));
  const then = (change) => (value) => {
    change(value);
    render();
  };
  const { slices, views = board().views, metrics } = view();
  const ks = distinct(metrics.map(({ k }) => String(k ?? "all")));
  keepFocus(find("choices"), [
    select(
      "Dataset",
      sets.map((name) => [name, name]),
      dataset.name,
      then((name) => go((one) => one.dataset.name === name)),
      { id: "dataset" },
    ),
    select(
      "Granularity",
      grains.map((name) => [name, name]),
      dataset.granularity,
      then((name) =>
        go((one) => one.dataset.name === dataset.name && one.dataset.granularity === name),
      ),
      { id: "granularity" },
    ),
    ...(alike.length > 1
      ? [
          select(
            "Runs that compare",
            alike.map(([at, one]) => [
              at,
              apartFrom(
                one,
                alike.map(([, other]) => other),
              ),
            ]),
            state.board,
            then((at) => turnTo(Number(at))),
            { id: "variant" },
          ),
        ]
      : []),
    select(
      "Protocol",
      views.map(({ name }, at) => [at, name]),
      state.view,
      then((at) => {
        state.view = Number(at);
      }),
      { id: "protocol" },
    ),
    select(
      "Questions",
      slices.map((name) => [name, name]),
      state.slice,
      then((name) => {
        state.slice = name;
      }),
      { id: "slice" },
    ),
    select(
      "k",
      ks.map((k) => [k, k === "all" ? "whole ranking" : k]),
      state.k,
      then((k) => {
        state.k = k;
      }),
      { id: "k" },
    ),
    select(
      "Ranked by",
      shown().map(({ name }) => [name, name]),
      state.metric,
      then((name) => {
        state.metric = name;
        state.sort = "metric";
        state.direction = -1;
      }),
      { id: "metric" },
    ),
  ]);
}

/** What tells a board from others on the same dataset. */
function apartFrom(one, others) {
  const parts = [
    [`${one.dataset.text} text`, (b) => b.dataset.text],
    [one.dataset.split, (b) => b.dataset.split],
    [`data ${one.dataset.fingerprint.slice(0, 8)}`, (b) => b.dataset.fingerprint],
    [`${one.depth} deep`, (b) => b.depth],
    [
      `${count(one.queries.asked)} queries #${one.queries.digest.slice(0, 6)}`,
      (b) => b.queries.digest,
    ],
    [`harness ${one.scoring.harness}`, (b) => b.scoring.harness],
  ];
  return parts
    .filter(([, of]) => distinct(others.map(of)).length > 1)
    .map(([words]) => words)
    .join(", ");
}

/** Replace what stands in a place, and give the focus back to the control that had it. */
function keepFocus(place, nodes) {
  const id = place.contains(document.activeElement) ? document.activeElement.id : "";
  place.replaceChildren(...nodes);
  if (id) find(id)?.focus();
}

function cellsOf(entry) {
  const block = entry.protocols.find((one) =>
    [one.protocol, one.unit, one.ties, String(one.missing)].every(
      (part, at) => part === view().key[at],
    ),
  );
  return { slices: block?.slices ?? {}, now: block?.slices[state.slice] ?? {} };
}

function ordered() {
  const rows = board().entries.map((entry) => ({ entry, ...cellsOf(entry) }));
  const keys = {
    metric: ({ now }) => now[state.metric]?.value,
    system: ({ entry }) => entry.system,
    n: ({ now }) => now[state.metric]?.n,
    failed: ({ entry }) => entry.queries.failed,
    time: ({ entry }) => entry.cost.search_ms?.p50,
    tokens: ({ entry }) => entry.tokens?.retrieved_a_query_top_10?.mean,
    rank: ({ now }) => now[state.metric]?.rank?.[0],
  };
  const key = keys[state.sort] ?? (({ now }) => now[state.sort]?.value);
  return rows.sort((a, b) => {
    const one = key(a) ?? null,
      other = key(b) ?? null;
    const apart = state.sort === "metric" ? ofFewer(a) - ofFewer(b) : 0;
    if (apart) return apart; // who fails on the hard ones must not rise by it
    if (one === null || other === null) return (one === null) - (other === null);
    return (
      state.direction * (typeof one === "string" ? one.localeCompare(other) : one - other) ||
      a.entry.run.localeCompare(b.entry.run)
    );
  });
}

function render() {
  settle();
  choices();
  const { dataset } = board(),
    rows = ordered();
  find("eyebrow").textContent =
    `harness ${data.harness}${live ? " · follows the folder of runs" : ""}`;
  find("lede").textContent = `${board().title}.`;
  // Beyond three, the others are for wide screens.
  const others = shown()
    .filter(({ name }) => name !== state.metric)
    .map((one, at) => ({ ...one, kind: `number extra${at > 2 ? " spare" : ""}` }));
  const sorted = (name) =>
    state.sort === name ? (state.direction > 0 ? "ascending" : "descending") : "none";
  const by = (name, first) => () => {
    state.direction = state.sort === name ? -state.direction : first;
    state.sort = name;
    render();
    find("table").querySelector('th:not([aria-sort="none"]) button.sort')?.focus();
  };
  const end = scaleEnd(rows);
  const header = el(
    "tr",
    {},
    sortHeader("Rank", sorted("rank"), by("rank", 1)),
    sortHeader("System", sorted("system"), by("system", 1)),
    sortHeader(state.metric, sorted("metric"), by("metric", -1), { class: "number" }),
    el(
      "th",
      { scope: "col", class: "interval" },
      "95% interval",
      el(
        "div",
        { class: "scale", "aria-hidden": "true" },
        [0, end / 2, end].map((tick) => el("span", {}, String(tick))),
      ),
    ),
    ...others.map(({ name, family, kind }) =>
      sortHeader(family, sorted(name), by(name, -1), { class: kind, title: name }),
    ),
    sortHeader("n", sorted("n"), by("n", -1), { class: "number extra" }),
    sortHeader("Lost", sorted("failed"), by("failed", 1), { class: "number extra" }),
    sortHeader("p50", sorted("time"), by("time", 1), { class: "number extra" }),
    sortHeader("Tokens", sorted("tokens"), by("tokens", 1), { class: "number extra" }),
  );
  const levels = view().levels[state.slice] ?? {};
  const columns = header.children.length;
  const body = rows.flatMap((row) =>
    entryRows(row, others, levels[state.metric] ?? {}, columns, end),
  );
  const table = el(
    "table",
    { class: "board" },
    el(
      "caption",
      { class: "unseen" },
      `${board().title}, ${view().name}, ${state.slice}, ranked by ${state.metric}`,
    ),
    el("thead", {}, header),
    el("tbody", {}, body),
    el("tfoot", {}, levelRow("chance", levels, others), levelRow("ceiling", levels, others)),
  );
  find("table").replaceChildren(table);
  said(rows);
  const altered = dataset.published_files === false ? " These are not the published files." : "";
  find("footer").textContent =
    `Data ${dataset.fingerprint}.${altered} Scores version ${board().scoring.score_version}. Made from leaderboard.json; the page draws what stands there and loads nothing from ${live ? "elsewhere" : "a network"}.`;
}

function said(rows) {
  const ranked = rows.filter(({ entry }) => !entry.sees_answer_key);
  const cell = (ranked.length ? ranked : rows)
    .map(({ now }) => now[state.metric])
    .find((one) => one?.interval);
  const few = ranked.map(({ now }) => now[state.metric]).find((one) => one?.rank)?.rank_note;
  find("said").textContent = cell
    ? `${intervalSaid(cell.interval)}. A rank is a range: those of this table hold the true rank of every system at once in 95% of cases, by paired differences${few ? `; ${few}` : ""}. For several metrics or kinds of questions together nothing is promised.`
    : "";
  find("legend").textContent =
    "Thick line: mean. Bar: 95% interval. Dashed: what a random order would score. p50: median time of a query, where it ran. Tokens: mean of the top 10. Lost: queries that are in no mean.";
}

find("choices").addEventListener("submit", (event) => event.preventDefault());
find("theme-place").append(themeSwitch());
find("main").hidden = false;
if (data.boards.length) render();
else find("lede").textContent = "No scored run is here yet.";
