"""A plugin of pytest that writes one line for each test into the file that ``LIBRARY_OUTCOMES`` names.

A line is ``[test, outcome, seconds, reason]``. Lines are written as tests end: what a run that was killed had found
out stays. With ``LIBRARY_SAMPLE``, a number, no more tests of a file than that are run: those whose names have the
smallest checksums, the same in both libraries.
"""

import collections
import json
import os
import zlib

import pytest

_FILE = os.environ.get("LIBRARY_OUTCOMES")
_SAMPLE = int(os.environ.get("LIBRARY_SAMPLE") or 0)
_parts = {}


def _write(test, outcome, seconds, reason):
    with open(_FILE, "a") as file:
        file.write(json.dumps([test, outcome, round(seconds, 2), reason]) + "\n")


def _reason(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:3])[:300]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keeps a sample of each file's tests."""
    if not _SAMPLE:
        return
    files = collections.defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    kept = set()
    for tests in files.values():
        kept.update(sorted(tests, key=lambda item: zlib.crc32(item.nodeid.encode()))[:_SAMPLE])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_runtest_logstart(nodeid, location):
    """Says that a test began: one that kills the process is known by it."""
    if _FILE:
        _write(nodeid, "began", 0, "")


def pytest_runtest_logreport(report):
    """Writes a test's outcome: the first part (set-up, call, tear-down) that did not pass decides."""
    if not _FILE:
        return
    outcome, seconds, reason = _parts.pop(report.nodeid, ("passed", 0.0, ""))
    seconds += report.duration
    if outcome == "passed" and report.outcome != "passed":
        outcome, reason = report.outcome, _reason(report)
    if report.when == "teardown":
        _write(report.nodeid, outcome, seconds, reason)
    else:
        _parts[report.nodeid] = (outcome, seconds, reason)


@pytest.hookimpl
def pytest_collectreport(report):
    """Writes why a file could not be collected."""
    if _FILE and report.failed:
        _write(report.nodeid, "failed", 0, _reason(report))
