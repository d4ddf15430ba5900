"""What would not be shown on a stage: what is cut off at the right, and words a letter a line."""

from __future__ import annotations

from typing import Any

# A place that scrolls sideways on purpose is not cut off; on a wide page there is no reason for it.
_CUT = """() => {
  const width = document.documentElement.clientWidth;
  const held = ["auto", "scroll", "hidden"];
  const scrolls = one =>
    one && (held.includes(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  const said = one =>
    `${one.tagName}#${one.id}.${one.getAttribute("class")}: ${one.textContent.slice(0, 60)}`;
  const found = document.documentElement.scrollWidth > width ? ["the page scrolls sideways"] : [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    const out = box.width > 1 && box.right > width + 1;
    if (out && !scrolls(one.parentElement)) found.push(said(one));
    const wide = one.classList.contains("wide") && one.scrollWidth > one.clientWidth + 1;
    if (width >= 1400 && wide) found.push(`scrolls sideways: ${said(one)}`);
  }
  return found;
}"""

_NARROW = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const words = text.data.trim();
    const aside = text.parentElement.closest("script, style, svg, option, .unseen");
    if (words.length < 8 || aside) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const lines = new Set([...range.getClientRects()].map(one => Math.round(one.top))).size;
    if (lines > 2 && words.length / lines < 5) found.push(`${lines} lines: ${words.slice(0, 60)}`);
  }
  return found;
}"""


def amiss(page: Any) -> list[str]:
    """What stands wrong on a page in a browser, at the width that it has."""
    return [*page.evaluate(_CUT), *page.evaluate(_NARROW)]
