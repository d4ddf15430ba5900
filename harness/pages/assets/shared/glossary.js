// One sentence for each number, for who has never seen it. Heads of tables take theirs from here.

import { distinct, el } from "./page.js";

const METRICS = {
  recall:
    "of the evidence of a question, the share that is among the first k documents; the mean over questions",
  hit: "the share of questions with at least one piece of evidence among the first k documents",
  recall_all: "the share of questions with all of their evidence among the first k documents",
  precision:
    "of the first k documents, the share that is evidence; where there is one piece, it cannot exceed 1 / k",
  precision_returned:
    "as precision, over the documents that were returned where those are fewer than k",
  f1: "the harmonic mean of precision and recall at k",
  mrr: "1 / rank of the first piece of evidence, 0 where it is below k; the mean over questions",
  map: "precision at the rank of each piece of evidence, as a mean over the pieces, then over questions",
  ndcg: "how far up the evidence stands, against the best order of the same documents: 1 is the best, and low ranks count less",
  ndcg_exp: "as nDCG, with higher grades counting more steeply",
  ndcg_b2: "as nDCG, with ranks 1 and 2 counting the same; LongMemEval's own form",
  rprec:
    "of the first n documents, the share that is evidence, where n is how many pieces there are",
  judged: "of the first k documents, the share that somebody has judged",
};

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
  "false positive rate":
    "of the questions that have no answer, the share for which documents were returned all the same",
  auroc:
    "how often the system is surer of a question with an answer than of one without; 0.5 is a guess",
  aurc: "the share of wrong answers among the surest questions, as a mean over all shares; lower is better",
  "update recall":
    "of the questions on facts that changed, the share with the newest fact among the first documents",
  "stale only rate":
    "of the questions on facts that changed, the share with an older fact alone among the first documents",
  "update ranked first":
    "of the questions on facts that changed, the share in which the newest stands above every older one",
  "outdated returned":
    "of the questions asked after a fact was corrected, the share with what no longer holds among the first documents; lower is better",
  "outdated above":
    "of the questions asked after a fact was corrected, the share with what no longer holds among the first documents, and above what does; lower is better",
  "forgotten returned":
    "of the questions asked after something was to be forgotten, the share with it among the first documents; lower is better",
  "future returned":
    "of the questions asked before the last document was said, the share with a later one among the first documents; lower is better",
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
