// What every page is made of: elements, its data, controls, news from its server.

const put = (node, attributes) => {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  return node;
};

/** An element; strings become text, never markup. `on` holds event listeners. */
export function el(tag, { on = {}, ...attributes } = {}, ...children) {
  const node = put(document.createElement(tag), attributes);
  for (const [kind, call] of Object.entries(on)) node.addEventListener(kind, call);
  node.append(
    ...children
      .flat(Number.POSITIVE_INFINITY)
      .filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** An element of a drawing. */
export const svg = (tag, attributes) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);

export const find = (id) => document.getElementById(id);
export const distinct = (values) => [...new Set(values)];

/** The object that the page draws, or a further part of its data. */
export async function load(id = "data") {
  const bytes = Uint8Array.from(atob(find(id).textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

/** Replace what stands in a place, and give the focus back to the control that had it. */
export function replace(place, ...nodes) {
  const held = document.activeElement;
  const id = place.contains(held) ? held.id : "";
  place.replaceChildren(...nodes.flat().filter(Boolean));
  if (id) find(id)?.focus({ preventScroll: true });
}

/**
 * A labelled select; `options` are [value, text], or values that are their own text; [name, [...]]
 * is a group of those.
 */
export function select(label, options, value, change, attributes = {}) {
  const item = (option) => {
    const [name, text] = Array.isArray(option) ? option : [option, option];
    if (Array.isArray(text)) return el("optgroup", { label: name }, text.map(item));
    return el("option", { value: name, selected: String(name) === String(value) }, text);
  };
  const box = el(
    "select",
    { ...attributes, on: { change: () => change(box.value) } },
    options.map(item),
  );
  return el("label", { class: "field" }, label, box);
}

/** Terms and what they are, without those of which nothing is known. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** Show the page and draw it, then go to the part that its address names. */
export function reveal(draw) {
  find("theme-place").append(themeSwitch());
  const home = cameFrom() ?? document.body.dataset.home; // of a page that is served beside a board
  if (home)
    document
      .querySelector(".top > div")
      .append(el("p", {}, el("a", { id: "home", href: home }, "The board")));
  find("main").hidden = false; // drawings need a width
  draw();
  if (location.hash) find(location.hash.slice(1))?.scrollIntoView();
}

/**
 * The board that the page was opened from, as it was then. Only a way up from here is one: what
 * somebody writes into a link leads to no other site, and runs nothing.
 */
function cameFrom() {
  const from = new URLSearchParams(location.search).get("from");
  return from && /^(?:\.\.\/)+[^/:?#]*(?:\?[^#]*)?$/.test(from) ? from : null;
}

/** A link down to a page, by its address from here, that leads back to what is shown now. */
export function downTo(href) {
  const [path, query = ""] = href.split("?");
  if (path.startsWith("..") || path.startsWith("/")) return href; // not below: no way is known
  const up = "../".repeat(path.split("/").length - 1);
  if (!up) return href;
  const said = new URLSearchParams(query);
  said.set("from", up + location.pathname.split("/").pop() + location.search);
  return `${path}?${said}`;
}

/**
 * A list of links to the visible sections of the page, in a <details> that is always open where the
 * window is wide. The link to the section that is being read is marked. Each section gets a link to
 * itself.
 */
export function contents(place) {
  const parts = [...document.querySelectorAll("main section[id]")].filter(
    (part) => !part.hidden && part.querySelector("h2"),
  );
  const box = place.closest("details");
  const wide = matchMedia("(min-width: 1200px)");
  const fold = () => {
    box.open = wide.matches;
  };
  const links = parts.map((part) => {
    const head = part.querySelector("h2");
    const href = `#${part.id}`;
    const text = part.dataset.short ?? head.firstChild.textContent;
    if (!head.querySelector("a"))
      head.append(el("a", { class: "anchor", href, "aria-label": `Link to: ${text}` }, "#"));
    return el("a", { href, on: { click: fold } }, text);
  });
  const mark = () => {
    const read = parts.findLastIndex((part) => part.getBoundingClientRect().top < innerHeight / 3);
    for (const [at, link] of links.entries())
      link.toggleAttribute("aria-current", at === Math.max(0, read));
  };
  place.replaceChildren(...links.map((link) => el("li", {}, link)));
  wide.addEventListener("change", fold);
  addEventListener("scroll", mark, { passive: true });
  fold();
  mark();
}

/** The button that changes between light and dark; at first the system's choice holds. */
export function themeSwitch() {
  const root = document.documentElement;
  const dark = () =>
    (root.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = el("button", { type: "button", id: "theme" });
  const say = () => {
    button.textContent = dark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    say();
  });
  say();
  return button;
}

/** Whether the page came from a server that it may ask for news. */
export const live = document.body.dataset.live === "yes";

/** Whether parts of its data lie beside the page, to be fetched once they are looked at. */
export const fetches = document.body.dataset.fetches === "yes";

/** JSON from that server. */
export const fetched = async (address) => (await fetch(address, { cache: "no-store" })).json();

/** Send JSON there; what it answers, or `refused` with its words. */
export async function posted(address, value) {
  const headers = { "Content-Type": "application/json" };
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(value) });
    return answer.ok ? await answer.json() : { refused: (await answer.text()).trim() };
  } catch {
    return { refused: "The server does not answer; nothing was done." };
  }
}

/** Ask for state.json every two seconds; `silent` is called where there was no answer. */
export function follow(news, silent) {
  const once = async () => {
    let state = null;
    try {
      state = await fetched("state.json");
    } catch {
      silent();
    }
    try {
      if (state) await news(state);
    } finally {
      setTimeout(once, 2000);
    }
  };
  return once();
}
