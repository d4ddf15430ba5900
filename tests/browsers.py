"""A page in a real, headless browser, watched while it is looked at: Chromium and Firefox.

Both are the system's own (`apt-get install chromium firefox-esr`); HARNESS_CHROMIUM and
HARNESS_FIREFOX name others. Every test marked `browser` runs in both, and `CHOSEN` says in which.
Playwright's protocol for Firefox needs a Firefox of Playwright's own; Debian's speaks WebDriver
BiDi, which Playwright speaks under the channel `moz-firefox`.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

Page = Any
"""playwright's, which is imported by those tests alone that have a browser."""

PROGRAMS = {"chromium": "chromium", "firefox": "firefox-esr"}
"""Each browser, and its package and command in Debian."""

CHOSEN = "chromium"
"""The browser of the test that runs."""


@contextmanager
def launched(scheme: str = "light") -> Iterator[Any]:
    """The chosen browser, with these colours as those of its system; its pages are closed again."""
    browser = _running(CHOSEN, scheme)
    yield browser
    for context in browser.contexts:
        context.close()


@cache
def _playwright() -> Any:
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright


@cache
def _running(name: str, scheme: str) -> Any:
    """A browser that runs to the end of the tests: to start one takes longer than most of them."""
    variable = f"HARNESS_{name.upper()}"
    program = os.environ.get(variable) or shutil.which(PROGRAMS[name])
    assert program, f"no {name}: apt-get install {PROGRAMS[name]}, or name one with {variable}"
    if name == "firefox":
        # BiDi has no command for a page's colours yet, but the system's are a setting.
        colours = {"layout.css.prefers-color-scheme.content-override": int(scheme == "light")}
        return _playwright().firefox.launch(
            executable_path=program, channel="moz-firefox", firefox_user_prefs=colours
        )
    return _playwright().chromium.launch(executable_path=program, args=["--no-sandbox"])


@contextmanager
def opened(
    address: str | Path, width: int = 1280, *, color_scheme: str = "light", **context: Any
) -> Iterator[Page]:
    """The page at `address`, a file or a server on loopback, once it is drawn.

    At the end there must have been no error, no word on the console, and no request but to the file
    itself or that server.
    """
    url = address.resolve().as_uri() if isinstance(address, Path) else address
    mine = url.split("?")[0] if url.startswith("file:") else url.split("/", 3)[2]
    asked: list[str] = []
    said: list[str] = []
    with launched(color_scheme) as browser:
        # Not every version of Firefox takes orders on colours: there they are the system's.
        colours = "null" if CHOSEN == "firefox" else color_scheme
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=colours, **context
        )
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        page.locator("main:not([hidden])").wait_for()
        yield page
    assert said == []
    others = [one for one in asked if one.split("?")[0] != mine and one.split("/", 3)[2] != mine]
    assert others == []
