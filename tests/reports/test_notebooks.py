"""Results render as tables in notebooks."""

from __future__ import annotations

from pathlib import Path

from harness import compare, score_run
from harness.analysis.board.leaderboard import build
from harness.datasets.reader import Dataset
from harness.io.html_table import html_table


def cells(table: str) -> list[list[str]]:
    """Returns the cells of the body, by row."""
    body = table.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [cell.removeprefix("<td>") for cell in row.removeprefix("<tr>").split("</td>")[:-1]]
        for row in body.split("</tr>")[:-1]
    ]


def test_scores_render_as_a_table_of_abilities(bm25: Path, sample: Dataset) -> None:
    rows = cells(score_run(bm25, sample)._repr_html_() or "")
    assert [row[0] for row in rows[:2]] == ["all", "lookup"]
    assert rows[0][1:3] == ["261", "0.549 [0.494, 0.604]"]
    assert rows[-1][:3] == ["random", "", "0.099"]


def test_a_comparison_renders_as_a_table_of_differences(bm25: Path, tfidf: Path) -> None:
    rows = cells(compare([bm25, tfidf])._repr_html_())
    assert rows[0][:3] == [f"{tfidf.name} - {bm25.name}", "recall@10", "-0.031 [-0.064, 0.002]"]
    assert rows[-1][-1].endswith(" *")


def test_a_board_renders_as_a_table_of_runs_by_rank(bm25: Path, tfidf: Path) -> None:
    boards, _ = build(bm25.parent)
    (board,) = (one for one in boards if bm25.name in one.runs)
    rows = [row for row in cells(board._repr_html_()) if row[1] in (bm25.name, tfidf.name)]
    assert [row[1:3] for row in rows] == [
        [bm25.name, "0.549 [0.494, 0.604]"],
        [tfidf.name, "0.518 [0.468, 0.568]"],
    ]


def test_texts_in_a_table_of_a_notebook_are_escaped() -> None:
    assert html_table("<b>", ["<i>"], [["<script>"]]) == (
        "<table><caption>&lt;b&gt;</caption><thead><tr><th>&lt;i&gt;</th></tr></thead>"
        "<tbody><tr><td>&lt;script&gt;</td></tr></tbody></table>"
    )
