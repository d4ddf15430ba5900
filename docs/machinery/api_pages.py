"""The Python reference: public names, each with a directive that mkdocstrings replaces."""

from __future__ import annotations

_OPTIONS = """\
    options:
      heading: "{heading}"
      toc_label: "{label}"
"""


def api(*names: str) -> str:
    """Directives for names such as `harness.run` or `harness.testing.evaluate`."""
    return "\n".join(f"::: {name}\n" for name in names)
