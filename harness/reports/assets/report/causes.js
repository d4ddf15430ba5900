// Causes of missed evidence by ability, as a chart and as a table.

import { COLOURS, chart, plot, QUIET } from "../shared/charts.js";
import { count, many, percent } from "../shared/numbers.js";
import { el, find } from "../shared/page.js";
import { table } from "../shared/tables.js";
import { chosen, data, several, who } from "./data.js";

const found = data.causes;

export function causes() {
  find("causes").hidden = !found?.names.length;
  if (find("causes").hidden) return;
  const { k, names, runs } = found;
  find("causes-how").textContent =
    `Each evidence item outside the top ${k} is assigned the first rule that matches it. The rules look at its words and at the documents ranked above it; they show where to look, not what is at fault.`;
  const abilities = Object.keys(runs[0].evidence);
  const inAll = (run, cause) =>
    abilities.reduce((sum, ability) => sum + (runs[run].counts[ability]?.[cause] ?? 0), 0);
  chart(
    find("causes-figure"),
    "causes of missed evidence; the table below has the numbers",
    (width) => causeChart(width, names, (cause) => runs.map((_, run) => inAll(run, cause))),
  );
  find("causes-summary").replaceChildren(
    ...runs.map((run, at) => el("p", {}, who(at), summary(run, k))),
  );
  const show = (cause) => {
    chosen.set({ cause });
    find("questions").scrollIntoView();
  };
  const number = (head, of, title) => ({
    head,
    title,
    number: true,
    cell: (cause) => runs.map((run, at) => of(run, at, cause)).join(" | "),
  });
  find("causes-table").replaceChildren(
    table(
      [
        {
          head: several ? "Cause (A | B)" : "Cause",
          cell: (cause) => [
            el(
              "button",
              { type: "button", class: "link", on: { click: () => show(cause) } },
              cause,
            ),
            el("span", { class: "small" }, found.rules[names.indexOf(cause)]),
          ],
        },
        ...abilities.map((ability) =>
          number(
            ability,
            (_, at, cause) => count(runs[at].counts[ability]?.[cause] ?? 0),
            `missed evidence items, of ${runs.map((run) => count(run.evidence[ability])).join(" | ")}`,
          ),
        ),
        number("all", (_, at, cause) => count(inAll(at, cause)), "missed evidence items"),
        number(
          "share",
          (run, at, cause) => percent(inAll(at, cause) / run.missed),
          "of all missed items",
        ),
      ],
      names,
    ),
  );
}

/** How much was missed, at which ranks, and what near it was found. */
function summary(run, k) {
  const total = Object.values(run.evidence).reduce((sum, n) => sum + n, 0);
  const places = {
    "beyond the depth": `below rank ${count(data.depth)}, the depth of the run`,
    "not returned": `not returned in rankings shorter than ${count(data.depth)}`,
    "not ingested": "not in the haystack",
  };
  const ranks = [
    ...run.rank_bands.map(([low, high, n]) => n && `${count(n)} at ranks ${low} to ${high}`),
    ...Object.entries(places).map(
      ([place, words]) => run.not_ranked[place] && `${count(run.not_ranked[place])} ${words}`,
    ),
  ].filter(Boolean);
  const near = run.same_session
    ? ` For ${count(run.same_session)}, another document of the same session is in the top ${k}; for ${count(run.adjacent)}, the document right before or after.`
    : "";
  return `${count(run.missed)} of ${many(total, "evidence item")} are not in the top ${k}, in ${many(run.queries, "question")}: ${ranks.join(", ")}.${near}`;
}

/** Missed evidence items by cause; two runs below each other. */
function causeChart(width, names, counts) {
  const small = width < 560;
  const rows = names.flatMap((cause) => counts(cause).map((n, run) => ({ cause, run, n })));
  const bar = several ? 12 : 20;
  const at = (run) => (several ? (run === 0 ? -8 : 8) : 0);
  const ofRun = (_, run) => {
    const mine = rows.filter((row) => row.run === run);
    return [
      Plot.ruleY(mine, {
        x1: 0,
        x2: "n",
        y: "cause",
        dy: at(run),
        stroke: COLOURS[run],
        strokeWidth: bar,
        strokeOpacity: 0.75,
      }),
      Plot.text(mine, {
        x: "n",
        y: "cause",
        dx: 8,
        dy: at(run),
        textAnchor: "start",
        fill: COLOURS[run],
        fontWeight: 600,
        fontSize: 13,
        text: ({ n }) => count(n),
      }),
    ];
  };
  return plot(width, {
    height: names.length * (several ? 48 : 36) + 54,
    marginLeft: small ? 172 : 212,
    marginRight: 56,
    marginTop: 6,
    x: {
      label: "missed evidence items",
      labelAnchor: "center",
      labelArrow: "none",
      grid: true,
      ticks: small ? 3 : 6,
      tickFormat: count,
    },
    y: {
      domain: names,
      label: null,
      tickSize: 0,
      padding: 0.2,
      tickFormat: (name) => (small ? name.replace("outranked by", "behind") : name),
    },
    marks: [Plot.ruleX([0], { stroke: QUIET }), counts(names[0]).map(ofRun)],
  });
}
