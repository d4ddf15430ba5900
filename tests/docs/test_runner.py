"""The runner itself: a page that does not do what it says is found out, and is told where."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from docs_blocks import PageFormError, read
from docs_checks import PageError
from docs_running import PageRun


def run(tmp_path: Path, text: str) -> PageRun:
    page = tmp_path / "page.md"
    page.write_text(text)
    with PageRun(read(page), tmp_path) as one:
        one.run()
    return one


def test_a_page_is_one_folder_one_shell_and_one_python_session(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
```sh
NAME=there
mkdir below
cd below
```

```sh
echo "$NAME in $(basename "$PWD")"
```

```text
there in below
```

```python title="mine.py"
def twice(x):
    return 2 * x
```

```python
from mine import twice
n = twice(21)
```

=== "indented, as in a tab"

    ```python
    print(n)
    ```

    ```text
    42
    ```
""",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nfalse\n```", "status 1, not 0"),
        ("<!-- status 1 -->\n```sh\ntrue\n```", "status 0, not 1"),
        ("```sh\nfalse | true\n```", "status 1, not 0"),
        ("```sh\necho a\n```\n\n```text\nb\n```", "line 5: is not what was printed"),
        ("```sh\nprintf 'a\\nb\\n'\n```\n\n```text\na\n```", "is not what was printed"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "is not what was printed"),
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ('```python title="a.py"\n1\n```', "used by no later block: a.py"),
        ('```toml title="a.toml"\na = \n```', "Invalid value"),
        ('```text title="../../a.txt"\na\n```', "not below the page's folder"),
        ("```json\n{a: 1}\n```", "line 1"),
        ("```sh\nharness run --dataset sample --retreiver bm25\n```", "--retreiver"),
        ("```sh\ntrue || python -m harness run --nothing\n```", "--nothing"),
        ("<!-- not run: a key -->\n```sh\nA=1 harness run --nothing\n```", "--nothing"),
        ("<!-- not run: a key -->\n```sh\nharness run \\\n  --nothing | cat\n```", "--nothing"),
        ("<!-- not run: a key -->\n```python\nprint(\n```", "never closed"),
        ("```sh\npip install '.[nothing]'\n```", "no extra [nothing]"),
        ("```sh\nsleep 0.1; exit 3 &\n```", "status 3"),
        ("<!-- not run: slow -->\n```sh\na\n```\n\n```text\n1\n```", "not run: say where"),
        ("<!-- output in: LICENSE -->\n```text\nno such line\n```", "not in LICENSE"),
        ("<!-- needs: nothing -->\n```sh\ntrue\n```", "needs 'nothing'"),
    ],
)
def test_a_page_that_does_not_hold_fails(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PageError) as error:
        run(tmp_path, text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ntrue",
        "<!-- status 1 -->\n\nwords\n\n```sh\nfalse\n```",
        "<!-- not run: -->\n```sh\ntrue\n```",
        "<!-- do not run: a key -->\n```sh\ntrue\n```",
    ],
)
def test_a_page_that_cannot_be_understood_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PageFormError):
        run(tmp_path, text)


def test_output_may_leave_lines_and_words_out_and_nothing_else(tmp_path: Path) -> None:
    printed = "```sh\nprintf 'one 1\\ntwo 2\\nthree 3\\n'\n```\n\n"
    for said in ("one ...\n...\nthree 3", "...", "one 1\ntwo 2\n...\nthree 3\n..."):
        folder = tmp_path / str(len(said))
        folder.mkdir()
        run(folder, f"{printed}```text\n{said}\n```")
    for said in ("one ...", "two 2\n...", "one 1\n...\ntwo 2\n...\none 1"):
        folder = tmp_path / str(len(said) + 100)
        folder.mkdir()
        with pytest.raises(PageError):
            run(folder, f"{printed}```text\n{said}\n```")


def test_what_is_not_run_is_told_with_its_reason(tmp_path: Path) -> None:
    text = "<!-- not run: needs a key -->\n```sh\nharness run --config a.toml && exit 1\n```"
    assert run(tmp_path, text).not_run == ["page.md, line 2: needs a key"]


def test_a_server_answers_before_the_next_block_and_ends_with_the_page(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
```sh
python -m http.server 18231 --bind 127.0.0.1 &
```

```python
from urllib.request import urlopen
print(urlopen("http://127.0.0.1:18231/").status)
```

```text
200
```
""",
    )
    with socket.socket() as tried:
        assert tried.connect_ex(("127.0.0.1", 18231)) != 0


def test_a_command_that_goes_on_is_stopped_as_by_ctrl_c(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
```sh
mkdir results
harness serve --port 18232
```

```text
http://127.0.0.1:18232/ (Ctrl-C ends it)
```
""",
    )


def test_hidden_commands_stand_in_for_what_a_reader_does_by_hand(tmp_path: Path) -> None:
    run(
        tmp_path,
        "<!-- by hand:\necho done > by_hand\n-->\n\n```sh\ncat by_hand\n```\n\n```text\ndone\n```",
    )
