// Follows the server that the page came from: unfinished runs, and boards that changed.

const EVERY = 2000; // milliseconds
let version = null;

async function follow() {
  try {
    const now = await (await fetch("state.json", { cache: "no-store" })).json();
    running(now.running);
    linkHistory(now.history);
    // The first time too: a run may have come since the page was made.
    if (now.version !== version) {
      data = await (await fetch("board.json", { cache: "no-store" })).json();
      const focus = document.activeElement?.id;
      if (data.boards.length) render();
      if (focus) find(focus)?.focus();
    }
    version = now.version;
  } catch {
    find("running").replaceChildren(
      el("p", { class: "progress" }, "The server does not answer. What is shown may be old."),
    );
  }
  setTimeout(follow, EVERY);
}

/** A link to the lines over time, once there is a history in the folder. */
function linkHistory(there) {
  if (!there || find("history-link")) return;
  const link = el("a", { id: "history-link", href: "history/" }, "Nightly history");
  find("lede").after(el("p", {}, link));
}

function running(runs) {
  find("running").replaceChildren(
    ...(runs.length
      ? [
          el(
            "div",
            { class: "progress" },
            el("h2", {}, "Unfinished runs"),
            el(
              "ul",
              {},
              runs.map((run) =>
                el(
                  "li",
                  {},
                  el("span", { class: "name" }, run.name),
                  el("progress", {
                    max: run.queries,
                    value: run.done,
                    "aria-label": `queries of ${run.name}`,
                  }),
                  el(
                    "span",
                    { class: "number" },
                    `${count(run.done)} of ${count(run.queries)}${run.failed ? `, ${count(run.failed)} failed` : ""}${run.idle_seconds > 60 ? `, last answer ${Math.round(run.idle_seconds / 60)} min ago` : ""}`,
                  ),
                ),
              ),
            ),
          ),
        ]
      : []),
  );
}

follow();
