"""Runs PyTorch's own test files over ftorch and over PyTorch, and says what passes there and not here.

    python tools/pytorch_suites.py convert SOURCE FOLDER            # tests adapted to a device, back to the CPU
    python tools/pytorch_suites.py run FOLDER torch FILE [PYTEST OPTIONS]
    python tools/pytorch_suites.py run FOLDER ftorch FILE [PYTEST OPTIONS]
    python tools/pytorch_suites.py compare FOLDER FILE ...
    python tools/pytorch_suites.py record FOLDER FILE ...           # the same, into the table of counts, which may only grow

SOURCE is the ``test`` folder of PyTorch's repository, or of one that has the same files for another device and is small:
https://github.com/Ascend/pytorch has most, ``test/xpu`` of https://github.com/intel/torch-xpu-ops the largest in newer
versions (``functorch/test_vmap_xpu``), ``test/torch_ops`` of https://github.com/Cambricon/torch_mlu distributions. FILE
is a path in it without ``.py``, such as ``nn/test_embedding``. The names that ftorch lacks are added to
``FOLDER/missing.txt``; see ``pytorch_suite_names.py``. Files of another version of PyTorch fail in part on PyTorch, too:
only what passes there counts. With ``SUITE_SAMPLE=7`` in the environment a test that comes with more than ten
parameters runs with every seventh of them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree
from collections import Counter
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
COUNTS = (
    TOOLS / "pytorch_suites.json"
)  # {file: how many of its tests pass on PyTorch, and how many of these here}
CONFTEST = """import os, re, sys, zlib
from collections import Counter

sys.path[:0] = [{tests!r}, {functorch!r}, {tools!r}]
from pytorch_suite_names import adapt, install

if os.environ["SUITE"] == "ftorch":
    install({reference!r}, {listing!r})
adapt()


def pytest_collection_modifyitems(items):
    every = int(os.environ.get("SUITE_SAMPLE", "1"))
    family = lambda item: re.sub(r"(::test_[a-z0-9]+_[a-z0-9]+).*", r"\\1", item.nodeid)
    members = Counter(map(family, items))
    items[:] = [i for i in items if members[family(i)] <= 10 or zlib.crc32(i.nodeid.encode()) % every == 0]
"""
# Processes that tests start import the test's file, too, but no conftest.
START = '''import os, sys

if "multiprocessing.spawn" in " ".join(sys.orig_argv) and "SUITE" in os.environ:
    sys.path.append({tools!r})
    from pytorch_suite_names import adapt, install

    if os.environ["SUITE"] == "ftorch":
        install({reference!r}, {listing!r})
    adapt()
'''
# What a device's adaptation of the files says, and what they said before.
RULES = [
    (r"torch\._C\._get_privateuse1_backend_name\(\)", "'cuda'"),
    (r"^(\s*)import torch_npu(\.\w+)*( as \w+)?\s*$", r"\1pass"),
    (r"from torch_npu\.testing\.testcase import", "from torch.testing._internal.common_utils import"),
    (r"torch_npu\.testing\.(common_utils|common_distributed)", r"torch.testing._internal.\1"),
    (r"torch_npu\.testing\._internal\.", "torch.testing._internal."),
    (r"torch_npu\.npu|torch\.npu", "torch.cuda"),
    (r"torch_npu", "torch"),
    (r"^(\s*)from \.?xpu_test_utils import .*$", r"\1pass"),
    (r"with XPU(PatchForImport|ImportCtx)\(False\):", "if True:"),
    (r"torch\.xpu", "torch.cuda"),
    (r"""(?<!cuda["'], )(?<!cpu["'], )(["'])xpu\1""", r"\1cpu\1"),
    (r"^(\s*)import torch_mlu\s*$", r"\1pass"),
    (r"""(["'])mlu\1""", r"\1cpu\1"),
    (r"(?<![A-Za-z])npu(?!t)", "cuda"),
    (r"(?<![A-Za-z])NPU", "CUDA"),
    (r"""device=(["'])cuda(:0)?\1""", r"device=\1cpu\1"),
    (r"(?<=[\w)\]]\.)cuda\(\)", "cpu()"),
    (r"""\.to\((["'])cuda(:0)?\1\)""", r".to(\1cpu\1)"),
    (r"TEST_MULTINPU", "TEST_MULTIGPU"),
    (r"PRIVATEUSE1", "CUDA"),
    (r"privateuse1", "cpu"),
    (r"""only_for=\(?(["'])cuda["'],?\)?""", r"only_for=\1cpu\1"),
    (r"torch\.cuda\.get_device_name\(0\)", "'none'"),
    (r"^(torch\.cuda\.\w+\(.*\))$", r"# \1"),
    (r"^from jit\.(\w+) import (.*)$", r"try:\n    from jit.\1 import \2\nexcept ImportError:\n    pass"),
]
# And in `distributed`, whose tests run in processes of the CPU.
DISTRIBUTED = [
    (r"\b(h|n)ccl\b", "gloo"),
    (r"""(["'])cuda(:\{?\w*\}?)?\1""", r"\1cpu\1"),
    (r"\btorch\.cuda\.set_device\(.*\)$", "pass"),
    (r"\btorch\.cuda\.device_count\(\)", "4"),
    (r"\btorch\.cuda\.current_device\(\)", "'cpu'"),
    (r"(?<=[\w)\]]\.)cuda\(\w*\)", "cpu()"),
    (r"torch\.testing\._internal\.common_dtensor", "torch.testing._internal.distributed._tensor.common_dtensor"),
    (r"CUDADTensorTestBase", "DTensorTestBase"),
    (r"FSDPNPUTest", "FSDPTest"),
    (r"test\.distributed\.|test\.common_", lambda found: {"d": "distributed.", "c": "common_"}[found[0][5]]),
]


def convert(source: Path, folder: Path) -> None:
    """Copies a folder of tests, each file as PyTorch has it for the CPU."""
    tests = folder / "test"
    for file in (f for f in source.rglob("*") if f.is_file()):
        if (
            file.name == "conftest.py"
            or file.relative_to(source).as_posix() == "functorch/__init__.py"
        ):
            continue  # these are for its own pytest, and would hide the package functorch
        to = tests / file.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".py":
            shutil.copy(file, to)
            continue
        text = file.read_text(errors="replace")
        rules = [*RULES, *DISTRIBUTED] if file.relative_to(source).parts[0] == "distributed" else RULES
        for pattern, replacement in rules:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        to.write_text(text)
    found = importlib.util.find_spec("torch")
    assert found and found.origin, "PyTorch is not installed here"
    places = {"tools": str(TOOLS), "listing": str(folder / "missing.txt"), "reference": str(Path(found.origin).parents[1])}
    (folder / "conftest.py").write_text(CONFTEST.format(tests=str(tests), functorch=str(tests / "functorch"), **places))
    (folder / "start").mkdir(exist_ok=True)
    (folder / "start" / "sitecustomize.py").write_text(START.format(**places))


def run(folder: Path, library: str, file: str, options) -> int:
    """Runs one file; its outcomes go to ``FOLDER/LIBRARY/FILE.xml``."""
    outcome = folder / library / f"{file}.xml"
    outcome.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(p for p in (str(folder / "start"), str(TOOLS.parent), os.environ.get("PYTHONPATH")) if p)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder),
         "--confcutdir", str(folder), "-p", "no:warnings", "--timeout", "60", "--tb", "short", "--junitxml", str(outcome),
         f"{file}.py", *options],
        cwd=folder / "test", env={**os.environ, "SUITE": library, "PYTHONPATH": path}, check=False,
    ).returncode


def outcomes(path: Path) -> dict[str, tuple[str, str]]:
    """By test: "pass", "fail" or "skip", and the message."""
    found = {}
    for case in tree.parse(path).getroot().iter("testcase"):
        said = {child.tag: child.get("message") or "" for child in case}
        kind = "fail" if {"failure", "error"} & set(said) else "skip" if "skipped" in said else "pass"
        found[f"{case.get('classname')}::{case.get('name')}"] = kind, next(iter(said.values()), "")
    return found


def record(file: str, theirs: int, here: int) -> None:
    """Writes a file's counts down.

    Raises:
        SystemExit: fewer pass here than were written down before.
    """
    table = json.loads(COUNTS.read_text())
    before = table.get(file, {"here": 0})
    if here < before["here"]:
        raise SystemExit(f"{file}: {here} pass here, {before['here']} did before")
    table[file] = {"PyTorch": theirs, "here": here}
    COUNTS.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")


def compare(folder: Path, files, write: bool = False) -> None:
    """Prints, for each file, how many pass, and one of each family of those that pass on PyTorch only.

    Args:
        write: whether to write the counts into the table, too.
    """
    for file in files:
        theirs, ours = (outcomes(folder / library / f"{file}.xml") for library in ("torch", "ftorch"))
        wanted = [test for test, (kind, _) in theirs.items() if kind == "pass"]
        here = {test: ours.get(test, ("not collected", "")) for test in wanted}
        passed = sum(kind == "pass" for kind, _ in here.values())
        print(f"{file}: {len(wanted)} of {len(theirs)} pass on PyTorch, {passed} of them here")
        if write:
            record(file, len(wanted), passed)
        seen: Counter = Counter()
        for test, (kind, message) in here.items():
            stem = re.sub(r"(_cpu.*|_(float|int|uint|complex|bfloat)\d+.*)$", "", test)
            seen[stem] += kind != "pass"
            if kind != "pass" and seen[stem] == 1:
                print(f"    {test}: {kind}: {message.splitlines()[0][:200] if message else ''}")


def main(arguments) -> int:
    if len(arguments) < 3 or arguments[0] not in ("convert", "run", "compare", "record"):
        print(__doc__)
        return 2
    command, *rest = arguments
    if command == "convert":
        convert(Path(rest[0]).resolve(), Path(rest[1]).resolve())
    elif command == "run":
        return run(Path(rest[0]).resolve(), rest[1], rest[2], rest[3:])
    else:
        compare(Path(rest[0]).resolve(), rest[1:], command == "record")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
