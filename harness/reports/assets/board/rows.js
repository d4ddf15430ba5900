// The rows of the table: one per run; runs with the same results are folded into one.

import { chosen } from "./data.js";

/** The runs of a board with their results under the protocol and slice that are shown. */
export function rowsOf({ board, key, slice }) {
  return board.entries.map((entry) => {
    const found = entry.protocols.find((one) =>
      Object.entries(key).every(([name, value]) => one[name] === value),
    );
    return { entry, slices: found?.slices ?? {}, now: found?.slices[slice] ?? {} };
  });
}

/**
 * Rows in the same order, those with equal results in every metric and slice as one: the one that is
 * chosen to be compared or open, else the first. Its `same` are the others. Unfolded, all follow
 * the first.
 */
export function folded(rows) {
  const groups = new Map();
  for (const row of rows) {
    const results = JSON.stringify(row.slices);
    const key = results === "{}" ? row.entry.run : results;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const inUse = ({ entry }) => [...chosen.compare, ...chosen.open].includes(entry.run);
  return [...groups.values()].flatMap((group) => {
    const unfolded = group.some(({ entry }) => chosen.unfold.includes(entry.run));
    const used = group.filter(inUse);
    const shown = unfolded ? group : used.length ? used : group.slice(0, 1);
    const [first, ...more] = shown;
    const same = group.filter((row) => row !== first);
    return [{ ...first, same, unfolded }, ...more];
  });
}

/** Fold a group of runs, or show each of them. */
export function unfold({ entry, same, unfolded }) {
  const runs = [entry, ...same.map((row) => row.entry)].map(({ run }) => run);
  const others = chosen.unfold.filter((run) => !runs.includes(run));
  chosen.set({ unfold: unfolded ? others : [...others, entry.run] });
}
