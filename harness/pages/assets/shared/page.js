// What both pages share: elements, data, numbers in words, the switch of light and dark.

/** An element; strings become text, never markup. `on` holds event listeners. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on")
      for (const [kind, call] of Object.entries(value)) node.addEventListener(kind, call);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

const find = (id) => document.getElementById(id);

/** The object that the page draws. */
async function load() {
  const bytes = Uint8Array.from(atob(find("data").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

const NONE = "–";
const plain = (value, digits = 3) =>
  value === null || value === undefined ? NONE : value.toFixed(digits);
const signed = (value) =>
  value === null || value === undefined
    ? NONE
    : (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(3);
const count = (value) =>
  value === null || value === undefined ? NONE : value.toLocaleString("en");
const besideChance = (value, chance) =>
  chance === null || chance === undefined ? plain(value) : `${plain(value)} (chance ${plain(chance)})`;
const span = (low, high, show = plain) => `${show(low)} to ${show(high)}`;

/** Milliseconds as people say them. */
function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms >= 1000) return `${Number((ms / 1000).toPrecision(3))} s`;
  return ms >= 1 ? `${Number(ms.toPrecision(3))} ms` : `${Number((ms * 1000).toPrecision(2))} µs`;
}

const parameters = (params) =>
  Object.entries(params)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");

/** How the interval of a cell was made. */
function intervalSaid(interval) {
  if (!interval) return "";
  const names = {
    "korn-graubard": "Korn-Graubard",
    "clopper-pearson": "Clopper-Pearson",
    t: "t",
    bootstrap: "bootstrap",
    wilson: "Wilson's score",
  };
  const rough = interval.rough ? `; rough: ${interval.rough}` : "";
  return `95% intervals: ${names[interval.method]} over ${count(interval.units)} ${interval.over}${rough}`;
}

/** A labelled select; `options` are [value, text]. */
function select(label, options, value, change, attributes = {}) {
  const box = el(
    "select",
    { ...attributes, on: { change: () => change(box.value) } },
    options.map(([name, text]) =>
      el("option", { value: name, selected: String(name) === String(value) }, text),
    ),
  );
  return el("label", { class: "field" }, label, box);
}

/** Terms and what they are, without those of which nothing is known. */
function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** The button that changes between light and dark; at first the system's choice holds. */
function themeSwitch(changed = () => {}) {
  const dark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = el("button", { type: "button", id: "theme" });
  const say = () => {
    button.textContent = dark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    say();
    changed();
  });
  say();
  return button;
}

/** A header cell that sorts; `sorted` is "ascending", "descending" or "none". */
function sortHeader(text, sorted, click, attributes = {}) {
  return el(
    "th",
    { scope: "col", "aria-sort": sorted, ...attributes },
    el("button", { type: "button", class: "sort", on: { click } }, text),
  );
}
