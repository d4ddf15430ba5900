// What is chosen stands in the address: a link can be sent, and Back and Forward keep the choice.

const KEPT = "from"; // where the page was opened from is no choice of its own, and stays
const WAIT = 250; // milliseconds; browsers refuse pages that write their address too often

/**
 * The choices of a page. `start` holds each by its name with what holds where the address says
 * nothing: a string, a number, or a list of strings.
 *
 *     const chosen = choices({ metric: "recall@10", k: 10, systems: [] });
 *     chosen.watch((names) => names.has("k") && draw());   called after every change, also by Back
 *     chosen.set({ metric: "mrr" });                       a step to come back to
 *     chosen.move({ k: 11 });                              part of a movement: a slider, typing
 */
export function choices(start) {
  const chosen = Object.create({ set, move, watch });
  let waiting = null;
  let watching = () => {};
  Object.assign(chosen, given());
  addEventListener("popstate", () => {
    clearTimeout(waiting);
    waiting = null;
    take(given());
  });
  addEventListener("pagehide", write);
  return chosen;

  /** What the address says, and what holds where it says nothing. */
  function given() {
    const said = new URLSearchParams(location.search);
    const one = ([name, value]) => [name, said.has(name) ? asIn(value, said.getAll(name)) : value];
    return Object.fromEntries(Object.entries(start).map(one));
  }

  function asIn(value, texts) {
    if (Array.isArray(value)) return texts;
    if (typeof value !== "number") return texts[0];
    return Number.isFinite(Number(texts[0])) ? Number(texts[0]) : value;
  }

  function address() {
    const said = Object.entries(start).flatMap(([name, value]) =>
      String(chosen[name]) === String(value) ? [] : [chosen[name]].flat().map((one) => [name, one]),
    );
    const from = new URLSearchParams(location.search).get(KEPT);
    if (from) said.push([KEPT, from]);
    // These need no escape, and are what names of metrics and protocols hold.
    const query = `${new URLSearchParams(said)}`.replace(/%(?:40|2F|2C|3A)/g, decodeURIComponent);
    return `${location.pathname}${query && `?${query}`}${location.hash}`;
  }

  function watch(call) {
    watching = call;
  }

  /** Take changes over and tell of them; `keep` writes the address in between. */
  function take(changes, keep = () => {}) {
    const other = Object.entries(changes).filter(
      ([name, now]) => String(chosen[name]) !== String(now),
    );
    if (!other.length) return;
    Object.assign(chosen, changes);
    keep();
    watching(new Set(other.map(([name]) => name)));
  }

  function set(changes) {
    write(); // the end of a movement before it is a step of its own
    take(changes, () => history.pushState(null, "", address()));
  }

  function move(changes) {
    take(changes, () => {
      waiting ??= setTimeout(write, WAIT);
    });
  }

  function write() {
    if (waiting === null) return;
    clearTimeout(waiting);
    waiting = null;
    history.replaceState(null, "", address());
  }
}
