// A definition of each term and metric. Table headings show it as a tooltip.

import { distinct, el, find } from "./page.js";

/** Definitions of metrics by name, written into the page from the registry of metrics. */
const METRICS = JSON.parse(find("glossary").textContent);

const TERMS = {
  n: "number of questions in the mean",
  "95% interval":
    "confidence interval of the mean: contains the true mean in 95% of samples of questions like this one",
  random:
    "expected value of a random ranking of the same documents; a system near it is no better than chance",
  max: "upper bound: the highest value that any ranking can reach; usually 1",
  best: "the lowest value that any ranking can reach, of a metric that counts errors; usually 0",
  p: "p value: the probability of a difference at least this large if the runs are equal, corrected for the number of tests; * significant (p ≤ 0.05)",
  "B − A": "mean of B minus mean of A over the same questions; above 0, B is higher",
  detectable:
    "minimum detectable difference: the smallest true difference that is significant with 80% power",
  "wins / losses / ties": "questions with a higher, a lower and an equal value of B",
  "exhausted rankings":
    "share of questions whose whole ranking fits into the budget, so that a larger one changes nothing",
  tokens: "length of the retrieved texts in a prompt",
  rank: "the places that a system may truly hold: one alone where it is told apart from all others",
  lost: "questions on which the system failed, which count 0, and those in no mean, as the answer could not be resolved",
  p50: "median latency",
  p95: "95th percentile of latencies",
  p99: "99th percentile of latencies",
  time: "latency of this question on the machine of the run",
  ability: "what a question requires, as labelled by its dataset or annotators",
  slice: "a subset of the questions",
};

/** The definition of a term or a metric; undefined for others. "A recall@10" is recall at 10. */
export function meaning(text) {
  const name = String(text).replace(/^[AB] (?=\w)/, "");
  const [family, k] = name.split("@");
  const metric = METRICS[family.toLowerCase().replace(/ /g, "_")];
  if (metric) return k ? metric.replace(/\bk\b/g, k) : metric;
  return TERMS[name] ?? TERMS[family.toLowerCase()];
}

/** Whether a metric counts errors, by its definition. */
export const lowerIsBetter = (metric) => Boolean(meaning(metric)?.includes("lower is better"));

/** The name of the bound of a metric. */
export const boundOf = (metric) => (lowerIsBetter(metric) ? "best" : "max");

/** A term with a button that shows its definition. */
export function term(name, text = name) {
  const said = meaning(name);
  if (!said) return text;
  const ask = el("button", { type: "button", class: "ask", "aria-label": `What is ${name}?` });
  ask.title = said;
  ask.addEventListener("click", () => say(ask, said));
  return el("span", { class: "term" }, text, ask);
}

const box = el("div", { class: "explanation", popover: "auto" });
document.body.append(box);

/** Shows a text below a button, or above it if there is no room. */
function say(button, words) {
  box.textContent = words;
  box.showPopover();
  const { left, top, bottom } = button.getBoundingClientRect();
  const under = bottom + 6 + box.offsetHeight <= innerHeight;
  box.style.left = `${Math.max(8, Math.min(left - 12, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${under ? bottom + 6 : top - box.offsetHeight - 6}px`;
  addEventListener("scroll", () => box.hidePopover(), { once: true });
}

/** Definitions of the names that are terms or metrics. */
export const explained = (names) =>
  el(
    "dl",
    { class: "meanings" },
    distinct(names)
      .filter(meaning)
      .map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning(name)))),
  );
