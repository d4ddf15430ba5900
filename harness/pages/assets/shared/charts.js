// The drawings, by Observable Plot. Colour tells runs apart, dashes tell metrics apart.

const COLOURS = ["var(--a)", "var(--b)"];
const QUIET = "var(--muted)";
const LETTERS = ["A", "B"];
const STYLE = { fontSize: "13px", background: "none", overflow: "visible" };

/** Put a drawing into its figure, as wide as that is, and again whenever that changes. */
function chart(figure, label, draw) {
  const box = figure.querySelector(".chart");
  const redraw = () => {
    const width = Math.floor(box.clientWidth);
    if (!width) return;
    const svg = draw(width);
    const inner = svg.tagName === "svg" ? svg : svg.querySelector("svg");
    inner.setAttribute("role", "img");
    inner.setAttribute("aria-label", label);
    box.replaceChildren(svg);
  };
  box.redraw = redraw;
  if (!box.watched) {
    box.watched = true;
    let width = box.clientWidth;
    new ResizeObserver(() => {
      if (box.clientWidth === width) return;
      width = box.clientWidth;
      box.redraw();
    }).observe(box);
  }
  redraw();
}

/** Series of one run as points: [{x, value, low, high, chance, ceiling}]. */
function points(xs, series) {
  return xs.map((x, at) => ({
    x,
    value: series.value[at],
    low: series.low?.[at],
    high: series.high?.[at],
    chance: series.chance?.[at],
    ceiling: series.ceiling?.[at],
  }));
}

/** A horizontal axis with exactly these ticks: on a log scale the library would leave labels out. */
function xAxis(ticks, format, label) {
  return Plot.axisX(ticks, {
    text: format,
    label,
    labelAnchor: "center",
    labelArrow: "none",
    tickSize: 5,
  });
}

/** Labels moved as little as it takes not to lie on each other; gives each its `at`. */
function apart(labels, gap) {
  const sorted = labels.map((label) => ({ ...label, at: label.y })).sort((a, b) => a.y - b.y);
  for (let i = 1; i < sorted.length; i += 1)
    sorted[i].at = Math.max(sorted[i].at, sorted[i - 1].at + gap);
  const over = (sorted.at(-1)?.at ?? 0) - 1;
  if (over > 0)
    for (const label of sorted) label.at -= Math.min(over, Math.max(0, label.at - gap * 0.5));
  return sorted;
}
