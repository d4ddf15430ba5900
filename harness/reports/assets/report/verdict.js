// The result of a report in a sentence, and what it depends on in a second one.

import { lowerIsBetter } from "../shared/glossary.js";
import { count, many, percent, pInWords, plain, signed, span } from "../shared/numbers.js";
import { find, replace } from "../shared/page.js";
import { data, LETTERS, onlySlice, runDot, several, view } from "./data.js";

/** What the mean of a metric at k says, for metrics that are a share of something. */
const SENTENCES = {
  recall: (who, share, k) => `${who} finds ${share} of the evidence in the top ${k}`,
  hit: (who, share, k) => `${who} finds evidence in the top ${k} for ${share} of the questions`,
  recall_all: (who, share, k) =>
    `${who} finds all evidence in the top ${k} for ${share} of the questions`,
  precision: (who, share, k) => `${share} of the top ${k} documents of ${who} are evidence`,
};

/** The slice of the verdict: all questions. */
export const overall = (block) => onlySlice(block.slices.map(({ name }) => name));

export function verdict() {
  const { block, metric } = view();
  const slice = overall(block);
  const [one, more] =
    slice && metric
      ? several
        ? ofTwo(block, metric, slice)
        : ofOne(block, metric, slice)
      : [["No question can be scored under this protocol."], []];
  replace(find("verdict"), ...one);
  replace(find("verdict-more"), more.filter(Boolean).join(" "));
}

function ofOne(block, metric, slice) {
  const { value, interval, random_baseline: random } = block.results[0][slice][metric];
  const [family, k] = metric.split("@");
  const { system, failed } = data.runs[0];
  const sentence = k && SENTENCES[family];
  const digits = interval && interval.high - interval.low < 0.02 ? 1 : 0;
  const show = sentence ? (share) => percent(share, digits) : (mean) => plain(mean);
  const range = ({ low, high }) =>
    sentence
      ? `${(100 * low).toFixed(digits)}–${percent(high, digits)}`
      : `${plain(low)} to ${plain(high)}`;
  const weakest = weakestOf(block, metric);
  return [
    [
      sentence ? sentence(system, show(value), k) : `${system} has ${metric} ${show(value)}`,
      interval ? ` (95% interval ${range(interval)})` : "",
      lowerIsBetter(metric) ? "; lower is better" : "",
      random === null ? "." : `; random: ${show(random)}.`,
      weakest ? ` Weakest: ${weakest.name}, ${show(weakest.value)}.` : "",
    ],
    [failed ? `${many(failed, "question")} failed and count as 0.` : ""],
  ];
}

/** The ability with the worst mean; null for fewer than two. */
function weakestOf({ slices, results }, metric) {
  const abilities = slices
    .filter(({ name }) => name !== "all" && name !== "answerable")
    .map(({ name }) => ({ name, value: results[0][name][metric].value }))
    .filter(({ value }) => value !== null);
  return abilities.length < 2
    ? null
    : abilities.reduce((worst, one) =>
        one.value < worst.value === !lowerIsBetter(metric) ? one : worst,
      );
}

function ofTwo(block, metric, slice) {
  const pair = block.pairs[slice]?.[metric];
  const named = (at) => [runDot(at), `${data.runs[at].system} (${LETTERS[at]})`];
  const mean = (at) => plain(block.results[at][slice][metric].value);
  if (!pair) return [["These runs were not compared in this metric."], []];
  const { difference, low, high, p, shown, detectable, wins, losses, ties, tests } = pair;
  const sentence = shown
    ? [...named(1), ` scores ${difference > 0 ? "higher" : "lower"} than `, ...named(0)]
    : ["No significant difference overall between ", ...named(0), " and ", ...named(1)];
  const means = `: ${metric} ${shown ? `${mean(1)} vs ${mean(0)}` : `${mean(0)} vs ${mean(1)}`}`;
  const about = `, B − A ${signed(difference)} (95% interval ${span(low, high, signed)}, ${pInWords(p)}).`;
  const others = block.slices
    .map(({ name }) => name)
    .filter((name) => name !== slice && block.pairs[name]?.[metric]?.shown);
  return [
    [...sentence, means, about],
    [
      others.length && `Significant for: ${others.join(", ")}.`,
      `${LETTERS[1]} wins ${count(wins)}, loses ${count(losses)} and ties ${many(ties, "question")}.`,
      detectable === null
        ? "The minimum detectable difference cannot be estimated."
        : `Minimum detectable difference at 80% power: ${plain(detectable)}.`,
      tests > 1 && `p is corrected for ${count(tests)} tests; intervals are not.`,
      ...data.runs.map(
        ({ failed }, at) =>
          failed && `${many(failed, "question")} of ${LETTERS[at]} failed and count as 0.`,
      ),
      ...block.dropped.map(
        (n, at) =>
          n && `${many(n, "question")} of ${LETTERS[at]} excluded: no value in the other run.`,
      ),
    ],
  ];
}
