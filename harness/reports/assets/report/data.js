// The data of a report, and the choices of the reader.

import { choices } from "../shared/address.js";
import { el, load } from "../shared/page.js";

export const data = await load();
export const several = data.runs.length > 1;
export const LETTERS = ["A", "B"];
/** The letter of a run before a text, if there are two. */
export const who = (run) => (several ? `${LETTERS[run]}: ` : "");
/** A text with the letter of its run, if there are two. */
export const of = (run, words) => (several ? `${LETTERS[run]} ${words}` : words);
export const runDot = (run) => el("span", { class: `dot run-${"ab"[run]}`, "aria-hidden": "true" });
export const onlySlice = (names) => (names.includes("all") ? "all" : names[0]);
export const protocolOf = (block) => `${block.protocol}, ${block.level}`;
export const FAMILY = {
  recall: "recall",
  precision: "precision",
  f1: "F1",
  hit: "hit",
  recall_all: "recall_all",
  ndcg: "nDCG",
};

/** The data of a section that an entry point adds and a module of this page draws. */
export const added = (name) => data.sections.find((section) => section.name === name)?.data;

const main = data.protocols[data.main];
export const chosen = choices({
  protocol: main ? protocolOf(main) : "",
  metric: main?.lead ?? "",
  questions: "all",
  beside: "precision",
  k: 10,
  search: "",
  ability: "all",
  result: "any",
  against: "any",
  cause: "any",
  sort: "",
  open: "",
});

/** The chosen protocol and metric; defaults if the address names unknown ones. */
export function view() {
  const named = data.protocols.findIndex((block) => protocolOf(block) === chosen.protocol);
  const at = named < 0 ? data.main : named;
  const block = data.protocols[at];
  const metric = block.metrics.includes(chosen.metric) ? chosen.metric : block.lead;
  const k = metric.includes("@") ? Number(metric.split("@")[1]) : null;
  return { at, block, metric, k };
}
