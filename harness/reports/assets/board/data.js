// The boards, and what is shown of them.

import { choices } from "../shared/address.js";
import { count, parameters } from "../shared/numbers.js";
import { distinct, fetched, find, load } from "../shared/page.js";

export let data = await load();

const parts = new Map();

/** Fetch the boards from the server of the page again. */
export async function renew() {
  data = await fetched("board.json");
  parts.clear();
}

/**
 * A further part of the data by its name, from the page or its server: a promise, or the part itself
 * once it was loaded.
 */
export function part(name) {
  if (!parts.has(name)) {
    const asked = find(name) ? load(name) : fetched(`parts/${name}.json`);
    const had = (value) => {
      if (parts.get(name) === kept) parts.set(name, value);
      return value;
    };
    const kept = asked.then(had, (error) => {
      parts.delete(name); // to be fetched again
      throw error;
    });
    parts.set(name, kept);
  }
  return parts.get(name);
}

export const chosen = choices({
  dataset: "",
  granularity: "",
  variant: "",
  protocol: "",
  questions: "all",
  k: "10",
  metric: "",
  columns: "abilities",
  sort: "-metric",
  search: "",
  across: "",
  open: [],
  compare: [],
  unfold: [],
  away: [],
});

/** The name of a board among the others: its dataset and granularity. */
export const boardName = ({ dataset }) => `${dataset.name}, ${dataset.granularity}`;

const LONGEST = 30; // characters of a name

/** The name of a run: its label, and the parameters that tell it from others of its system. */
export function nameOf({ label, sole, distinct_params: params }) {
  const more = sole ? "" : parameters(params);
  const name = more ? `${label} ${more}` : label;
  return name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
}

const cutOff = ({ k }) => String(k ?? "all");

const OVER_ALL = ["all", "answerable"];

const known = (wanted, all, first = all[0]) => (all.includes(wanted) ? wanted : first);

/** The chosen board, or the first one, and the names of those that could be chosen. */
export function place() {
  const { boards } = data;
  const names = distinct(boards.map(boardName));
  const dataset = known(
    chosen.dataset,
    boards.map((one) => one.dataset.name),
  );
  const ofDataset = boards.filter((one) => one.dataset.name === dataset);
  const like =
    ofDataset.find((one) => one.dataset.granularity === chosen.granularity) ?? ofDataset[0];
  const name = boardName(like);
  const alike = boards.filter((one) => boardName(one) === name);
  const variants = alike.map((one) => apartFrom(one, alike));
  const variant = known(chosen.variant, variants);
  return { names, name, variants, variant, board: alike[variants.indexOf(variant)] };
}

/** What is shown of a board, and what could be chosen. */
export function view(at, board) {
  const protocols = board.protocols.map(({ name }) => name);
  const protocol = known(chosen.protocol, protocols);
  const {
    slices,
    metrics: every,
    key,
    bounds,
    official,
  } = board.protocols[protocols.indexOf(protocol)];
  const slice = known(chosen.questions, slices);
  const several = slices.filter((name) => !OVER_ALL.includes(name));
  const abilities = several.length > 1 ? several : []; // a single one has the same queries
  const ks = distinct(every.map(cutOff));
  const k = known(chosen.k, ks, known("10", ks, ks.at(-1)));
  const shown = every.filter((one) => cutOff(one) === k);
  const metrics = shown.map(({ name }) => name);
  const family = chosen.metric.split("@")[0];
  const lead = key.protocol.startsWith("trec") ? "ndcg" : "recall";
  const metric =
    known(chosen.metric, metrics, null) ??
    shown.find((one) => one.family === family)?.name ??
    metrics.find((name) => name.startsWith(lead)) ??
    metrics[0];
  return {
    ...{ ...at, board, title: at.board.title },
    ...{ protocols, protocol, official, key, slices, slice, ks, k },
    ...{ bounds: bounds[slice] ?? {}, bySlice: bounds },
    ...{ shown, metrics, metric, abilities },
    columns: abilities.length ? known(chosen.columns, ["abilities", "metrics"]) : "metrics",
  };
}

/** How a board differs from others on the same dataset. */
function apartFrom(one, others) {
  const parts = [
    [`text=${one.dataset.text}`, (b) => b.dataset.text],
    [`split=${one.dataset.split}`, (b) => b.dataset.split],
    [`data=${one.dataset.fingerprint.slice(0, 8)}`, (b) => b.dataset.fingerprint],
    [`k=${count(one.depth)}`, (b) => b.depth],
    [`${count(one.queries.n)} queries #${one.queries.digest.slice(0, 6)}`, (b) => b.queries.digest],
    [`harness ${one.scoring.harness}`, (b) => b.scoring.harness],
  ];
  return parts
    .filter(([, of]) => distinct(others.map(of)).length > 1)
    .map(([words]) => words)
    .join(", ");
}
