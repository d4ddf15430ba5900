"""What a person is told of the log behind a run."""

from __future__ import annotations

from typing import Any


def log_lines(record: dict[str, Any], feedback: dict[str, Any] | None) -> list[str]:
    """What a person is told of the log behind a run, in sentences."""
    about = record["retriever"]["rankings_from"]
    joined, asked, labelled = about["joined"], about["asked"], about["labelled"]
    lines = [
        f"log: {about['lines']['recalls']} recalls; {joined['by_id']} joined to labels by id, "
        f"{joined['by_text']} by their exact text, {joined['unlabelled']} are of no labelled query",
        f"coverage: {asked} of {labelled} labelled queries were asked ({asked / labelled:.1%}); "
        "scores are over "
        + ("all, the others count 0" if record["queries"]["asked"] > asked else "those"),
    ]
    if joined["repeated"]:
        lines.append(
            f"repeats: {joined['repeated']} recalls of queries asked more than once do not count; "
            f"the {about['repeats']} of each does"
        )
    if feedback is not None:
        lines += feedback_lines(feedback)
    return lines


def feedback_lines(feedback: dict[str, Any]) -> list[str]:
    """Clicks and ratings with what they cannot tell."""
    parts = []
    for key, what in (
        ("click_rate", "recalls with a click"),
        ("first_click_mrr", "reciprocal rank of the first click"),
        ("rating", "mean rating"),
    ):
        cell = feedback[key]
        if cell["value"] is not None:
            parts.append(f"{what} {cell['value']:.3f} (n {cell['n']})")
    return [f"feedback: {', '.join(parts)}", *(f"  {one}" for one in feedback["caveats"])]
