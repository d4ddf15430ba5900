// The parts of a report on confidence, time, and questions without an answer.

function others() {
  const risks = data.risk.filter(Boolean);
  find("risk").hidden = !risks.length;
  if (risks.length) {
    const area = data.risk
      .map((one, run) =>
        one
          ? `${several ? `${LETTERS[run]}: ` : ""}AURC ${plain(one.aurc)}, by ${one.confidence_is}`
          : null,
      )
      .filter(Boolean)
      .join("; ");
    find("risk-how").textContent =
      `Share of wrong answers (${risks[0].wrong_is}) when only the surest are given. ${area}; n ${count(risks[0].n)}. Lower is better. Thin: the best order; dotted: a guess.`;
    chart(find("risk-figure"), "risk against coverage", (width) => riskChart(width, data.risk));
  }
  find("latency").hidden = !data.latency;
  if (data.latency) {
    find("latency-how").textContent =
      data.latency.runs
        .map((one, run) =>
          one
            ? `${several ? `${LETTERS[run]}: ` : ""}half within ${duration(one.p50)}, 95% within ${duration(one.p95)}, 99% within ${duration(one.p99)}; n ${count(one.n)}`
            : `${LETTERS[run]}: not measured`,
        )
        .join(". ")
        .replace(/^h/, "H") + ". Measured where it ran; machines differ.";
    chart(find("latency-figure"), "distribution of the time of a query", (width) =>
      latencyChart(width, data.latency),
    );
  }
  const rows = (run) => {
    const pairs = [];
    if (run.abstention) {
      const { confidence } = run.abstention;
      pairs.push(
        ["Questions without an answer", count(run.abstention.n_unanswerable)],
        ["False evidence", plain(run.abstention.false_evidence_rate)],
      );
      if (confidence)
        pairs.push(
          ["AUROC", plain(confidence.auroc)],
          ["F1 of abstaining, cross-validated", plain(confidence.at_threshold.f1)],
        );
    }
    for (const [name, value] of Object.entries(run.knowledge_update ?? {})) {
      if (name !== "signatures" && name !== "chance")
        pairs.push([
          name === "n" ? "Questions on updated facts" : name.replaceAll("_", " "),
          name === "n" ? count(value) : besideChance(value, run.knowledge_update.chance?.[name]),
        ]);
    }
    return pairs;
  };
  const blocks = data.runs.map(rows);
  find("silence").hidden = !blocks.some((pairs) => pairs.length);
  find("silence-facts").replaceChildren(
    ...blocks.map((pairs, run) =>
      el(
        "div",
        { class: "card" },
        several ? el("h3", {}, runDot(run), LETTERS[run]) : null,
        facts(pairs),
      ),
    ),
  );
}
