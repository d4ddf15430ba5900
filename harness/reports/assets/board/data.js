// The boards, and what of them is shown.

import { choices } from "../shared/address.js";
import { count } from "../shared/numbers.js";
import { distinct, fetched, find, load } from "../shared/page.js";

export let data = await load();

const parts = new Map();

/** Ask the server that the page came from for the boards of now. */
export async function renew() {
  data = await fetched("board.json");
  parts.clear();
}

/**
 * A further part of the data, by its name: at once where it was had before, else a promise. It
 * stands in the page, or its server has it.
 */
export function part(name) {
  if (!parts.has(name)) {
    const asked = find(name) ? load(name) : fetched(`parts/${name}.json`);
    const had = (value) => {
      if (parts.get(name) === kept) parts.set(name, value);
      return value;
    };
    const kept = asked.then(had, (error) => {
      parts.delete(name); // to be asked for again
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
  open: [],
  compare: [],
  away: [],
});

const cutOff = ({ k }) => String(k ?? "all");

const OVER_ALL = ["all", "answerable"];

const known = (wanted, all, first = all[0]) => (all.includes(wanted) ? wanted : first);

/** The board that is chosen, as far as there is such a one, and what could be instead. */
export function place() {
  const { boards } = data;
  const datasets = distinct(boards.map((one) => one.dataset.name));
  const dataset = known(chosen.dataset, datasets);
  const ofDataset = boards.filter((one) => one.dataset.name === dataset);
  const granularities = distinct(ofDataset.map((one) => one.dataset.granularity));
  const granularity = known(chosen.granularity, granularities);
  const alike = ofDataset.filter((one) => one.dataset.granularity === granularity);
  const variants = alike.map((one) => apartFrom(one, alike));
  const variant = known(chosen.variant, variants);
  const board = alike[variants.indexOf(variant)];
  return { datasets, dataset, granularities, granularity, variants, variant, board };
}

/** What is shown of a board, with all that is known of it, and what could be instead. */
export function view(at, board) {
  const protocols = board.protocols.map(({ name }) => name);
  const protocol = known(chosen.protocol, protocols);
  const { slices, metrics, key, bounds, official } = board.protocols[protocols.indexOf(protocol)];
  const slice = known(chosen.questions, slices);
  const several = slices.filter((name) => !OVER_ALL.includes(name));
  const abilities = several.length > 1 ? several : []; // of one they are the same questions again
  const ks = distinct(metrics.map(cutOff));
  const k = known(chosen.k, ks, known("10", ks, ks.at(-1)));
  const shown = metrics.filter((one) => cutOff(one) === k);
  const names = shown.map(({ name }) => name);
  const family = chosen.metric.split("@")[0];
  const lead = key.protocol.startsWith("trec") ? "ndcg" : "recall";
  const metric =
    known(chosen.metric, names, null) ??
    shown.find((one) => one.family === family)?.name ??
    names.find((name) => name.startsWith(lead)) ??
    names[0];
  return {
    ...{ ...at, board },
    ...{ protocols, protocol, official, key, slices, slice, ks, k },
    ...{ bounds: bounds[slice] ?? {}, bySlice: bounds },
    ...{ shown, names, metric, abilities },
    columns: abilities.length ? known(chosen.columns, ["abilities", "metrics"]) : "metrics",
  };
}

/** What tells a board from others on the same dataset. */
function apartFrom(one, others) {
  const parts = [
    [`${one.dataset.text} text`, (b) => b.dataset.text],
    [one.dataset.split, (b) => b.dataset.split],
    [`data ${one.dataset.fingerprint.slice(0, 8)}`, (b) => b.dataset.fingerprint],
    [`at most ${one.depth} deep`, (b) => b.depth],
    [`${count(one.queries.n)} queries #${one.queries.digest.slice(0, 6)}`, (b) => b.queries.digest],
    [`harness ${one.scoring.harness}`, (b) => b.scoring.harness],
  ];
  return parts
    .filter(([, of]) => distinct(others.map(of)).length > 1)
    .map(([words]) => words)
    .join(", ");
}
