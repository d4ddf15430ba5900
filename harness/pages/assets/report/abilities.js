// Means by ability, drawn and as a table.

function abilities() {
  const block = data.blocks[view.block],
    metric = view.metric;
  find("abilities").hidden = !block.slices.length;
  if (!block.slices.length) return;
  chart(
    find("abilities-figure"),
    `${metric} by ability with 95% intervals; the table below has the numbers`,
    (width) => abilityChart(width, block.slices, block.cells, metric),
  );
  const number = (value) => el("td", { class: "number" }, value);
  const titles = [
    "Slice",
    "n",
    ...data.runs.flatMap((_, run) => [
      `${several ? `${LETTERS[run]} ` : ""}${metric}`,
      "95% interval",
    ]),
    ...(several ? ["B − A", "95% interval", "p", "detectable", "won / lost / tied"] : []),
    "chance",
    "ceiling",
  ];
  find("abilities-table").replaceChildren(
    table(
      titles,
      block.slices.map(({ name, n }) => {
        const cells = block.cells.map((cells) => cells[name][metric]),
          pair = block.pairs[name]?.[metric];
        return [
          el("th", { scope: "row" }, name),
          number(count(n)),
          ...cells.flatMap((cell) => [
            number(plain(cell.value)),
            number(cell.interval ? span(cell.interval.low, cell.interval.high) : NONE),
          ]),
          ...(several
            ? pair
              ? [
                  number(signed(pair.difference)),
                  number(span(pair.low, pair.high, signed)),
                  number(`${plain(pair.p, 4)}${pair.shown ? " *" : ""}`),
                  number(plain(pair.detectable)),
                  number(`${pair.won} / ${pair.lost} / ${pair.tied}`),
                ]
              : Array.from({ length: 5 }, () => number(NONE))
            : []),
          number(plain(cells[0].chance)),
          number(`${cells[0].ceiling_is ? "≤ " : ""}${plain(cells[0].ceiling)}`),
        ];
      }),
    ),
  );
}

function table(titles, rows) {
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        titles.map((title, at) => el("th", { scope: "col", class: at ? "number" : null }, title)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) => el("tr", {}, row)),
    ),
  );
}
