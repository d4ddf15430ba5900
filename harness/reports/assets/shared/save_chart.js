// Buttons below a chart that save it as a file of its own: SVG, or PNG at twice its size.

import { el, svg } from "./page.js";

/** What a drawing takes from the page's style sheets and has to keep in a file of its own. */
const STYLES = [
  "color",
  "display",
  "dominant-baseline",
  "fill",
  "fill-opacity",
  "font-family",
  "font-size",
  "font-style",
  "font-variant-numeric",
  "font-weight",
  "opacity",
  "overflow",
  "paint-order",
  "shape-rendering",
  "stroke",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "stroke-opacity",
  "stroke-width",
  "text-anchor",
  "visibility",
  "white-space",
];
const HEADING = 52; // pixels above the chart
const MARGIN = 16;
const SCALE = 2; // of PNG

/** What the heading of a file says of the colours: [name, variable of the style sheet]. */
export const legend = [];

/** Buttons that save the chart which `drawn` returns: an element svg with its label. */
export function saveButtons(drawn) {
  const button = (kind, save) => {
    const click = () => save(standAlone(drawn()), fileName(drawn()));
    const about = { type: "button", "aria-label": `Save this chart as ${kind}`, on: { click } };
    return el("button", about, kind);
  };
  const saveSvg = (whole, name) => download(urlOf(whole), `${name}.svg`);
  return el("p", { class: "save" }, button("SVG", saveSvg), button("PNG", savePng));
}

/** What a chart shows, without where on the page its numbers stand. */
const captionOf = (drawing) => drawing.getAttribute("aria-label").split(";")[0];

const fileName = (drawing) =>
  `${document.title} ${captionOf(drawing)}`.replaceAll(/[^\p{L}\p{N}@.]+/gu, "-");

/** A copy of a chart with its colours and type in itself, below a heading, on the page's ground. */
function standAlone(drawing) {
  const { width, height } = drawing.getBoundingClientRect();
  const copy = drawing.cloneNode(true);
  const inner = [copy, ...copy.querySelectorAll("*")];
  for (const [at, node] of [drawing, ...drawing.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(node);
    for (const name of STYLES) inner[at].removeAttribute(name);
    const own = STYLES.map(
      (name) => `${name}:${style.getPropertyValue(name).replaceAll('"', "'")}`,
    );
    inner[at].setAttribute("style", own.join(";"));
  }
  for (const sheet of copy.querySelectorAll("style")) sheet.remove();
  for (const [name, value] of Object.entries({ x: MARGIN, y: HEADING, width, height }))
    copy.setAttribute(name, value);
  const whole = svg("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width: Math.ceil(width + 2 * MARGIN),
    height: Math.ceil(height + HEADING + MARGIN),
  });
  const root = getComputedStyle(document.documentElement);
  const colour = (name) => root.getPropertyValue(name).trim();
  const words = (text, y, more) => {
    const node = svg("text", { x: MARGIN, y, "font-family": root.fontFamily, ...more });
    node.textContent = text;
    return node;
  };
  whole.append(
    svg("rect", { width: "100%", height: "100%", fill: colour("--raised") }),
    words(document.title, 24, { fill: colour("--ink"), "font-size": 15 }),
    words(captionOf(drawing), 42, { fill: colour("--muted"), "font-size": 12 }),
    copy,
  );
  for (const [name, variable] of legend) {
    const part = svg("tspan", { dx: 18, fill: colour(variable), "font-weight": 600 });
    part.textContent = name;
    whole.querySelector("text:nth-of-type(2)").append(part);
  }
  return whole;
}

const urlOf = (whole) =>
  `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;

async function savePng(whole, name) {
  const picture = new Image();
  picture.src = urlOf(whole);
  await picture.decode();
  const canvas = el("canvas", {
    width: SCALE * whole.getAttribute("width"),
    height: SCALE * whole.getAttribute("height"),
  });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  download(canvas.toDataURL("image/png"), `${name}.png`);
}

/** Save what is in a URL under this name. */
const download = (href, name) => el("a", { href, download: name }).click();
