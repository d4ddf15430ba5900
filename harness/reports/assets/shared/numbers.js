// Numbers in words. Columns have three digits after the point, and more where three would say 0, 1
// or the same number twice of what is not.

export const NONE = "–";
const MOST = 6; // digits after the point
const none = (value) => value === null || value === undefined || Number.isNaN(value);

/** 0.549, with as many more digits as it takes not to call whole what is not. */
export function plain(value, digits = 3) {
  if (none(value)) return NONE;
  const tries = Array.from({ length: MOST - digits + 1 }, (_, more) =>
    value.toFixed(digits + more),
  );
  return tries.find((text) => !Number.isInteger(Number(text))) ?? tries[0];
}

/** A plain number with its sign, as a difference has one. */
export function signed(value, digits = 3) {
  if (none(value)) return NONE;
  const text = plain(Math.abs(value), digits);
  return (Number(text) === 0 ? "±" : value > 0 ? "+" : "−") + text;
}

/** A number with its sign and so many digits, never more: of what is read roughly. */
export function fixed(value, digits) {
  if (none(value)) return NONE;
  const text = Math.abs(value).toFixed(digits);
  return (Number(text) === 0 ? "±" : value > 0 ? "+" : "−") + text;
}

/** Both ends of an interval: three digits, or as many more as tell them apart. */
export function span(low, high, show = plain) {
  if (none(low) || none(high)) return NONE;
  const ends = show === signed ? fixed : (value, digits) => value.toFixed(digits);
  const width = high - low;
  const digits = width > 0 ? Math.min(MOST, Math.max(3, Math.ceil(-Math.log10(width)))) : 3;
  const [from, to] = [ends(low, digits), ends(high, digits)];
  return from === to ? show(low) : `${from} to ${to}`;
}

/** What stands at an axis or was set: 0.5, not 0.50. */
export const short = (value) => (none(value) ? NONE : String(Number(value.toPrecision(6))));
export const percent = (share, digits = 0) =>
  none(share) ? NONE : `${(100 * share).toFixed(digits)}%`;
export const count = (value) => (none(value) ? NONE : value.toLocaleString("en"));
/** US dollars, small sums with more digits. */
export const dollars = (value) =>
  none(value) ? NONE : value >= 10 ? value.toFixed(2) : String(Number(value.toPrecision(3)));
export const withRandom = (value, random) =>
  none(random) ? plain(value) : `${plain(value)} (random ${plain(random)})`;
/** The mean without the queries that failed, and their number; null where none failed. */
export const answeredOnly = (answered) =>
  answered ? `answered only ${plain(answered.value)} (${count(answered.n)})` : null;
/** 1 night, 2 nights. */
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const pValue = (p) => (none(p) ? NONE : p < 0.0001 ? "<0.0001" : p.toFixed(4));

/** A p value in a sentence, with two digits. */
export const pInWords = (p) =>
  none(p)
    ? "no p value"
    : p < 0.001
      ? "p\u00a0<\u00a00.001"
      : `p\u00a0=\u00a0${Number(p.toPrecision(2))}`;

/** Milliseconds as people say them. */
export function duration(ms) {
  if (none(ms)) return NONE;
  if (ms >= 1000) return `${Number((ms / 1000).toPrecision(3))} s`;
  return ms >= 1 ? `${Number(ms.toPrecision(3))} ms` : `${Number((ms * 1000).toPrecision(2))} µs`;
}

/** A time, also as milliseconds since 1970, by a clock of 24 hours in UTC: 2026-01-09 02:30. */
export function moment(time, last = "minute") {
  const date = new Date(time ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return NONE; // nobody knows, or no calendar has it
  const length = { day: 10, minute: 16, second: 19 }[last];
  return date.toISOString().slice(0, length).replace("T", " ");
}

export const parameters = (params) =>
  Object.entries(params)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");

/** How the interval of a cell was made. */
export function intervalSaid(interval) {
  if (!interval) return "";
  const names = {
    "korn-graubard": "Korn-Graubard",
    "clopper-pearson": "Clopper-Pearson",
    wilson: "Wilson's score",
  };
  const approximate = interval.approximate ? `; approximate: ${interval.approximate}` : "";
  return `95% intervals: ${names[interval.method] ?? interval.method} over ${count(interval.clusters)} ${interval.cluster_by}${approximate}`;
}
