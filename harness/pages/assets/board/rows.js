// The rows of a board, and the intervals in them.

function entryRows({ entry, slices, now }, others, level, columns, end) {
  const cell = now[state.metric] ?? {},
    open = state.open.has(entry.run),
    id = `details-${entry.run}`;
  const toggle = () => {
    if (open) state.open.delete(entry.run);
    else state.open.add(entry.run);
    render();
    find(`open-${entry.run}`)?.focus();
  };
  const value = (one, kind) =>
    el(
      "td",
      {
        class: kind,
        title: one?.interval ? `95% interval ${span(one.interval.low, one.interval.high)}` : null,
      },
      plain(one?.value),
    );
  const fewer = ofFewer({ entry, now });
  const first = el(
    "tr",
    { class: `entry${entry.sees_answer_key || fewer ? " outside" : ""}` },
    el(
      "td",
      { class: "rank", title: cell.rank_note ?? null },
      rankSaid(cell.rank, entry.sees_answer_key || fewer),
    ),
    el(
      "th",
      { scope: "row", class: "system" },
      el(
        "button",
        {
          type: "button",
          class: "plain",
          id: `open-${entry.run}`,
          "aria-expanded": String(open),
          "aria-controls": open ? id : null,
          on: { click: toggle },
        },
        entry.system,
      ),
      el("span", { class: "params" }, parameters(entry.params)),
      entry.sees_answer_key ? el("span", { class: "tag" }, "saw the answer key") : null,
      fewer ? el("span", { class: "tag bad" }, cell.rank_note) : null,
    ),
    el(
      "td",
      { class: "number" },
      el("span", { class: "value" }, plain(cell.value)),
      cell.interval
        ? el("span", { class: "small" }, span(cell.interval.low, cell.interval.high))
        : null,
    ),
    el("td", { class: "interval" }, intervalDrawing(cell, level, end)),
    ...others.map(({ name, kind }) => value(now[name], kind)),
    el("td", { class: "number extra" }, count(cell.n)),
    el("td", { class: "number extra" }, lost(entry.queries)),
    el("td", { class: "number extra" }, duration(entry.cost.search_ms?.p50)),
    el(
      "td",
      { class: "number extra" },
      count(Math.round(entry.tokens?.retrieved_a_query_top_10?.mean ?? NaN) || null),
    ),
  );
  return open
    ? [
        first,
        el(
          "tr",
          { class: "details", id },
          el(
            "td",
            { colspan: columns },
            entryDetails(entry, slices, { metric: state.metric }, live),
          ),
        ),
      ]
    : [first];
}

/** It lacks queries that others were measured on, so that its mean does not rank. */
function ofFewer({ entry, now }) {
  const cell = now[state.metric];
  return Boolean(cell?.interval && !cell.rank && !entry.sees_answer_key);
}

/** Queries that are in no mean. */
function lost({ failed, not_measurable: unresolved }) {
  const said = [
    failed ? `${count(failed)} failed` : null,
    unresolved ? `${count(unresolved)} unresolved` : null,
  ].filter(Boolean);
  return said.length ? said.map((words) => el("span", { class: "lost" }, words)) : NONE;
}

function rankSaid(rank, outside) {
  if (outside)
    return el(
      "span",
      {},
      el("span", { "aria-hidden": "true" }, NONE),
      el("span", { class: "unseen" }, "not ranked"),
    );
  return rank ? (rank[0] === rank[1] ? String(rank[0]) : `${rank[0]}–${rank[1]}`) : NONE;
}

/** Where the scale of the intervals ends: it begins at 0, and holds all that are ranked. */
function scaleEnd(rows) {
  const highest = Math.max(
    ...rows
      .filter(({ entry }) => !entry.sees_answer_key)
      .map(({ now }) => now[state.metric]?.interval?.high ?? now[state.metric]?.value ?? 0),
    0,
  );
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].find((one) => one >= highest) ?? 1;
}

/** A mean with its interval on a scale from 0 to `end`; chance is dashed, the ceiling solid. */
function intervalDrawing({ value, interval }, { chance, ceiling }, end) {
  const svg = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, one] of Object.entries(attributes)) node.setAttribute(name, one);
    return node;
  };
  const at = (one) => `${(100 * Math.min(one, end)) / end}%`;
  const upright = (name, one, high, width) =>
    svg("line", {
      class: name,
      x1: at(one),
      x2: at(one),
      y1: 14 - high,
      y2: 14 + high,
      "stroke-width": width,
    });
  const drawing = svg("svg", { "aria-hidden": "true" });
  drawing.append(svg("line", { class: "track", x1: 0, x2: "100%", y1: 14, y2: 14 }));
  for (const [name, level] of Object.entries({ chance, ceiling }))
    for (const one of distinct(level ?? []))
      if (one <= end) drawing.append(upright(name, one, 12, 2));
  if (interval && interval.low <= end)
    drawing.append(
      svg("line", {
        class: "reach",
        x1: at(interval.low),
        x2: at(interval.high),
        y1: 14,
        y2: 14,
        "stroke-width": 12,
      }),
    );
  if (value !== null && value !== undefined) {
    if (value <= end) drawing.append(upright("mean", value, 10, 3));
    else
      drawing.append(
        Object.assign(svg("text", { class: "beyond", x: "100%", y: 19, "text-anchor": "end" }), {
          textContent: "beyond ›",
        }),
      );
  }
  return drawing;
}

function levelRow(name, levels, others) {
  const value = (metric) => {
    const level = levels[metric]?.[name];
    const bound = levels[metric]?.[`${name}_is`] ? "≤ " : "";
    return level
      ? distinct(level)
          .map((one) => bound + plain(one))
          .join(" to ")
      : NONE;
  };
  return el(
    "tr",
    {},
    el("td"),
    el("th", { scope: "row" }, name),
    el("td", { class: "number" }, value(state.metric)),
    el("td"),
    ...others.map((one) => el("td", { class: one.kind }, value(one.name))),
    ...Array.from({ length: 4 }, () => el("td", { class: "extra" })),
  );
}
