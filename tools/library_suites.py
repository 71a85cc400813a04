"""Runs libraries' own tests twice, with ftorch and with PyTorch in front of it, and compares what passes.

    python tools/libraries.py suites ENVIRONMENT REFERENCE SOURCES RESULTS [LIBRARY[:PATH] ...]    # runs them
    python tools/libraries.py compare RESULTS [LIBRARY ...]                            # what differs, by reason
    python tools/libraries.py table ENVIRONMENT RESULTS            # writes "Their own tests" of docs/libraries.md

ENVIRONMENT is one that ``install`` made, with the libraries in it; REFERENCE one with PyTorch, whose packages are put
in front for the second run. SOURCES holds a checkout of each library by its name, made where it is missing. A process
runs ``FTORCH_SUITE_FILES`` files of tests (8), each with a limit of time (``FTORCH_SUITE_LIMIT``, seconds);
``FTORCH_SUITE_JOBS`` of them run at a time; ``FTORCH_SUITE_SAMPLE`` is the most tests of a file and
``FTORCH_SUITE_SAMPLE_FILES`` the most files of a library. RESULTS keeps a file for each library; runs of a part are
added to it.
"""

from __future__ import annotations

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

TOOLS = pathlib.Path(__file__).resolve().parent
SUITES = json.loads((TOOLS / "library_suites.json").read_text())
PATTERNS = ("test_*.py", "*_test.py", "*_tests.py")
BOTH = ("ftorch", "PyTorch")


def _limit() -> int:
    return int(os.environ.get("FTORCH_SUITE_LIMIT", "240"))


def checkout(library: str, sources: pathlib.Path, version: str = "") -> pathlib.Path:
    """The folder of a library's source at its installed version (else the newest); cloned where it is missing."""
    folder = sources / library
    if not folder.exists():
        clone = ["git", "clone", "-q", "--depth", "1", SUITES[library]["source"], str(folder)]
        tagged = [[*clone, "--branch", tag] for tag in (f"v{version}", version)] if version else []
        if not any(subprocess.run(c, capture_output=True).returncode == 0 for c in [*tagged, clone]):
            raise SystemExit(f"{SUITES[library]['source']} cannot be cloned: put a checkout into {folder}")
    return folder / SUITES[library].get("from", ".")


def test_files(folder: pathlib.Path, paths) -> list[str]:
    """The files of tests below paths."""
    found = []
    for path in paths:
        at = folder / path
        files = [at] if at.is_file() else sorted({f for p in PATTERNS for f in at.rglob(p)})
        found += [str(file.relative_to(folder)) for file in files]
    most = int(os.environ.get("FTORCH_SUITE_SAMPLE_FILES", "0")) or len(found)
    return sorted(sorted(found, key=lambda name: zlib.crc32(name.encode()))[:most])


def _environment(library: str, reference, folder: pathlib.Path, outcomes: str) -> dict[str, str]:
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    front = [str(TOOLS), *(str(folder / part) for part in SUITES[library].get("path", ()))]
    if reference is not None:
        (packages,) = pathlib.Path(reference).glob("lib/python*/site-packages")
        front.insert(0, str(packages))
    return environ | SUITES[library].get("environment", {}) | {
        "PYTHONPATH": os.pathsep.join(front), "LIBRARY_OUTCOMES": outcomes,
        "LIBRARY_SAMPLE": os.environ.get("FTORCH_SUITE_SAMPLE", ""), "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
    }


def run_files(library: str, environment, reference, folder: pathlib.Path, files) -> dict[str, dict[str, list]]:
    """The tests of files in one process, by file: (outcome, seconds, reason) by test.

    Where the process ends early, what is left of the files is run file by file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = os.path.join(scratch, "outcomes")
        command = [
            "timeout", "-k", "5", str(_limit() * len(files)), str(pathlib.Path(environment) / "bin" / "python"), "-m",
            "pytest", "-q", "-p", "library_outcomes", "-p", "no:cacheprovider", "-W", "ignore", "--timeout", "120",
            *SUITES[library].get("arguments", ()), *files,
        ]
        done = subprocess.run(
            command, cwd=folder, env=_environment(library, reference, folder, outcomes), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        found: dict[str, dict[str, list]] = {file: {} for file in files}
        if os.path.exists(outcomes):
            for line in pathlib.Path(outcomes).read_text().splitlines():
                test, outcome, seconds, reason = json.loads(line)
                found.setdefault(test.partition("::")[0], {})[test] = [outcome, seconds, reason]
    is_late, has_died = done.returncode in (124, 137), done.returncode not in (0, 1, 5)
    if len(files) > 1 and (has_died or not all(found.values())):
        # A file whose collection fails stops pytest; one that kills the process takes the others with it.
        ended = [file for file in files if found[file] and all(row[0] != "began" for row in found[file].values())]
        ended = ended[:-1] if has_died else ended  # the last one may not have been at its end
        for file in files:
            if file not in ended:
                found |= run_files(library, environment, reference, folder, [file])
        return found
    for tests in found.values():
        for test, row in tests.items():
            if row[0] == "began":
                why = "time was up" if is_late else f"the process ended ({done.returncode})"
                tests[test] = ["cut" if is_late else "failed", 0, why]
    for file in files:
        if is_late:  # that there is more in the file
            found[file][f"{file}::*"] = ["cut", _limit(), "time was up"]
        if not found[file] and done.returncode not in (0, 5):
            found[file][file] = ["failed", 0, (done.stdout.strip().splitlines() or ["?"])[-1][:300]]
    return found


def run(environment, reference, sources, results, chosen, versions=None) -> None:
    """Runs suites (or parts: ``library:path``) in both libraries; adds to the files of results."""
    results = pathlib.Path(results)
    results.mkdir(parents=True, exist_ok=True)
    # Tests run in the checkout.
    environment, reference, sources = (
        pathlib.Path(path).absolute() for path in (environment, reference, sources)
    )
    for choice in chosen or SUITES:
        library, _, part = choice.partition(":")
        folder = checkout(library, pathlib.Path(sources), (versions or {}).get(library, ""))
        files = test_files(folder, [part] if part else SUITES[library]["tests"])
        kept = results / f"{library}.json"
        found = json.loads(kept.read_text()) if kept.exists() else {name: {} for name in BOTH}
        sides = BOTH if not os.environ.get("FTORCH_SUITE_SIDE") else (os.environ["FTORCH_SUITE_SIDE"],)
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("FTORCH_SUITE_JOBS", "1"))) as pool:
            size = int(os.environ.get("FTORCH_SUITE_FILES", "8"))
            groups = [files[at:at + size] for at in range(0, len(files), size)]
            waiting = {
                pool.submit(run_files, library, environment, None if side == "ftorch" else reference, folder, group): side
                for group in groups for side in sides
            }
            for done in concurrent.futures.as_completed(waiting):
                side = waiting[done]
                for file, tests in done.result().items():
                    found[side] = {k: v for k, v in found[side].items() if k.partition("::")[0] != file}
                    found[side] |= tests
                    count = collections.Counter(row[0] for row in tests.values())
                    print(f"{library} {file} {side}: {dict(count)}", flush=True)
                kept.write_text(json.dumps(found))


def differences(found) -> tuple[list[str], dict[str, list]]:
    """The tests that pass on PyTorch and ended here, and those of them that do not pass here, with their rows."""
    ours, theirs = (found[name] for name in BOTH)
    passed = [test for test, row in theirs.items() if row[0] == "passed"]
    broken = {row: ours[row] for row in ours if "::" not in row and ours[row][0] == "failed"}  # not collected
    ended, failed = [], {}
    for test in passed:
        file = test.partition("::")[0]
        row = ours.get(test) or broken.get(file)
        if row is None and f"{file}::*" not in ours:
            row = ["failed", 0, "not there"]
        if row is None or row[0] == "cut":
            continue
        ended.append(test)
        if row[0] != "passed":
            failed[test] = row
    return ended, failed


def _kind(reason: str) -> str:
    """A reason without the numbers and addresses that differ from test to test."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", reason)[:120]


def compare(results, chosen=()) -> None:
    """Prints, for each library, what passes on PyTorch and not here, by reason, and what takes far longer."""
    for kept in sorted(pathlib.Path(results).glob("*.json")):
        if chosen and kept.stem not in chosen:
            continue
        found = json.loads(kept.read_text())
        ended, failed = differences(found)
        print(f"== {kept.stem}: {len(ended) - len(failed)} of {len(ended)}")
        groups = collections.defaultdict(list)
        for test, row in failed.items():
            groups[_kind(row[2])].append((test, row))
        for tests in sorted(groups.values(), key=len, reverse=True):
            print(f"  {len(tests)}: {tests[0][1][2]}")
            for test, _ in tests[:4]:
                print(f"       {test}")
        slow = [(found["ftorch"][t][1], found["PyTorch"][t][1], t) for t in ended if t in found["ftorch"]]
        for ours, theirs, test in sorted(slow, reverse=True)[:5]:
            if ours > 10 * theirs and ours > 5:
                print(f"  slow: {ours} s, PyTorch {theirs} s: {test}")


def table(results, versions, before: str = "") -> str:
    """The rows of the page; those of libraries that have no results now are kept from what was there before."""
    rows = {line.split()[1]: line for line in before.splitlines() if line.startswith("| ") and line.split()[1] in SUITES}
    for kept in sorted(pathlib.Path(results).glob("*.json")):
        found = json.loads(kept.read_text())
        ended, failed = differences(found)
        if not ended:
            continue
        passed = sum(row[0] == "passed" for row in found["PyTorch"].values())
        files = len({test.partition("::")[0] for test in ended})
        share = 100 * (len(ended) - len(failed)) / len(ended)
        reasons = collections.Counter(_kind(row[2]) for row in failed.values()).most_common(2)
        most = "; ".join(f"{n}: {why.replace('|', '/')[:80]}" for why, n in reasons)
        rows[kept.stem] = (
            f"| {kept.stem} {versions.get(kept.stem, '')} | {files} files | {passed:,} | "
            f"{len(ended) - len(failed):,} of {len(ended):,} ({share:.1f} %) | {most} |"
        )
    head = ["| library | tests | pass on PyTorch | of those that ended pass here | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(rows[library] for library in sorted(rows))])


if __name__ == "__main__":
    sys.exit("run tools/libraries.py")
