"""A page in a real, headless Chromium, watched while it is looked at.

The browser is the system's own (`apt-get install chromium`); HARNESS_CHROMIUM names another.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Page = Any
"""playwright's, which is imported by those tests alone that have a browser."""


@contextmanager
def opened(address: str | Path, width: int = 1280, **context: Any) -> Iterator[Page]:
    """The page at `address`, a file or a server on loopback, once it is drawn.

    At the end there must have been no error, no word on the console, and no request but to the file
    itself or that server.
    """
    from playwright.sync_api import sync_playwright

    url = address.resolve().as_uri() if isinstance(address, Path) else address
    program = os.environ.get("HARNESS_CHROMIUM") or shutil.which("chromium")
    assert program, "no chromium: apt-get install chromium, or name one with HARNESS_CHROMIUM"
    asked: list[str] = []
    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900}, **context)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        page.locator("main:not([hidden])").wait_for()
        yield page
        browser.close()
    assert said == []
    mine = url if url.startswith("file:") else url.split("/", 3)[2]
    assert [one for one in asked if not (one == mine or one.split("/", 3)[2] == mine)] == []
    assert asked
