"""Outputs on pages are rewritten so that they hold, and hide what they hid."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_blocks import Block, read
from docs_running import PageRun
from rewrite import main, merged

TABLE = """run  n   time
---  --  ------
a    20  0.31 s
b    20  0.29 s
mean 0.7500 of 20, in 0.60 s
files in out/run-1f9c33a0: x.json
done"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run  n  time\n...\nb    5  ... s\n...", "run  n   time\n...\nb    20  ... s\n..."),
        ("...\nmean 0.5 of 5, in ... s\n...", "...\nmean 0.7500 of 20, in ... s\n..."),
        ("...\nmean ... of 20, in ... s\n...", "...\nmean ... of 20, in ... s\n..."),
        ("...\nfiles in out/run-...: x.json\ndone", "...\nfiles in out/run-...: x.json\ndone"),
        ("...\nworst 0.1\n...\ndone", "...\ndone"),
        ("a    5  0.1 s\n...", "run  n   time\n---  --  ------\na    20  0.31 s\n..."),
        ("nothing like it", TABLE),
    ],
)
def test_dots_stay_where_they_fit_and_what_is_shown_is_what_is_printed(old: str, new: str) -> None:
    assert merged(Block(Path("page.md"), 1, "text", old), TABLE + "\n") == new


def test_of_two_lines_that_fit_as_well_the_first_is_shown() -> None:
    printed = "all 0.52 *\nsome 0.3\n\nall 0.94 -\nsome 0.9"
    assert (
        merged(Block(Path("page.md"), 1, "text", "all 0.61 -\n..."), printed) == "all 0.52 *\n..."
    )


def test_a_rewritten_page_holds_and_nothing_else_of_it_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    text = """Five words, 17 letters, took 0.25 s.

```sh
printf 'one 1\\nsecret 7\\ntook 0.31 s\\n'
```

```text
one 17
...
took ... s
```

=== "tab"

    <!-- by hand: true -->
    ```python
    print("a\\n\\n  b")
    ```

    ```text
    a

      c
    ```

<!-- not output: an illustration -->
```text
one 17
```
"""
    page.write_text(text)
    assert main([str(page)]) == 0
    assert page.read_text() == text.replace("one 17\n...", "one 1\n...").replace("  c\n", "  b\n")
    assert "line 1 still says 17" in capsys.readouterr().out
    (tmp_path / "run").mkdir()
    with PageRun(read(page), tmp_path / "run") as run:
        run.run()


def test_a_page_that_stops_is_named_and_written_as_far_as_it_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho 2\n```\n\n```text\n1\n```\n\n```sh\nfalse\n```\n")
    assert main([str(page)]) == 1
    assert "```text\n2\n```" in page.read_text()
    assert "line 9: ended with status 1, not 0" in capsys.readouterr().out
