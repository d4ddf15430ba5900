// One sentence for each number, for who has never seen it. Heads of tables take theirs from here.

import { distinct, el, find } from "./page.js";

/** What each metric means, by name: from the registry of metrics, written when the page is made. */
const METRICS = JSON.parse(find("glossary").textContent);

const TERMS = {
  n: "how many questions the mean is over",
  "95% interval":
    "made so that it holds the true mean in 95% of all samples of questions like this one; the more questions, the shorter it is",
  random: "what a random order of the same documents would score: a number near it shows nothing",
  max: "the best that any order of the documents could score here; mostly 1",
  p: "if the two were equal, how often luck alone would make a difference as large as this one, corrected for the number of tests; a star marks what is shown",
  "B − A": "the difference of the two runs over the same questions",
  detectable: "the smallest true difference that these questions would show four times out of five",
  "won / lost / tied": "questions in which B has more than A, less, and the same",
  "rankings that ended":
    "questions of which the whole ranking fits into so many tokens, so that more would change nothing",
  tokens: "words and signs of the texts that were retrieved: what a prompt with them costs",
  rank: "the places that a system may truly hold: one alone where it is told apart from all others",
  lost: "questions on which the system failed, which count 0, and those in no mean, as the answer could not be resolved",
  p50: "the median time of a query: half were answered within it",
  p95: "95 of 100 queries were answered within it",
  p99: "99 of 100 queries were answered within it",
  time: "how long the system took for this query, where it ran",
  "first found": "the rank of the first piece of evidence",
  ability: "what a question asks of a memory, as its dataset or its annotators say",
  slice: "a part of the questions",
};

/** What a term or a metric means; undefined for others. "A recall@10" is recall at 10. */
export function meaning(text) {
  const name = String(text).replace(/^[AB] (?=\w)/, "");
  const [family, k] = name.split("@");
  const metric = METRICS[family.toLowerCase().replace(/ /g, "_")];
  if (metric) return k ? metric.replace(/\bk\b/g, k) : metric;
  return TERMS[name] ?? TERMS[family.toLowerCase()];
}

/** Words that are a term, with a button that says what it means. */
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

/** Show words under a button, or above it where there is no room. */
function say(button, words) {
  box.textContent = words;
  box.showPopover();
  const { left, top, bottom } = button.getBoundingClientRect();
  const under = bottom + 6 + box.offsetHeight <= innerHeight;
  box.style.left = `${Math.max(8, Math.min(left - 12, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${under ? bottom + 6 : top - box.offsetHeight - 6}px`;
  addEventListener("scroll", () => box.hidePopover(), { once: true });
}

/** All of these that are terms or metrics, with what they mean. */
export const explained = (names) =>
  el(
    "dl",
    { class: "meanings" },
    distinct(names)
      .filter(meaning)
      .map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning(name)))),
  );
