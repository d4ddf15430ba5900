"""Checks as JUnit XML, which CI services show beside tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from harness.files import disk_errors, write_bytes
from harness.verdicts.gate import Check


def write_junit(checks: Sequence[Check], run: str, path: Path) -> None:
    """Write a test case a check. Raises UsageError where it cannot be written."""
    failures = str(sum(not check.passed for check in checks))
    counts = {"tests": str(len(checks)), "failures": failures, "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "harness gate", **counts})
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", {"classname": run, "name": check.rule})
        if not check.passed:
            failure = ElementTree.SubElement(case, "failure", {"message": check.said})
            failure.text = check.signature or check.said
        else:
            ElementTree.SubElement(case, "system-out").text = check.said
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    with disk_errors(path.parent, "name another file with --junit"):
        write_bytes(path, text + b"\n")
