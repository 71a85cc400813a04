"""Imports every module of every installed library that uses PyTorch, and says which cannot be imported.

    python tools/libraries.py walk ENVIRONMENT REFERENCE [PACKAGE ...]

ENVIRONMENT is one that ``install`` made; REFERENCE one with PyTorch, whose packages are put in front for a second look:
a module that cannot be imported there either (its own dependencies are missing) is not printed. A process imports the
modules of one package, in order; where one ends the process or takes longer than ``FTORCH_WALK_LIMIT`` seconds (60), the
next process goes on behind it. PACKAGE is an importable package's name; else all whose sources import ``torch`` are taken.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parent
IMPORTS = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
NOT_USERS = {"torch", "ftorch", "functorch", "torchgen", "triton", "jax", "jaxlib", "pip", "setuptools"}
# Modules that are programs: importing them runs something.
PROGRAMS = re.compile(r"(^|\.)(__main__|setup|conftest|tests?|testing|benchmarks?|examples?|test_\w+|\w+_test)(\.|$)")


def packages(site: pathlib.Path) -> list[str]:
    """The importable packages below a folder of packages whose sources import ``torch``."""
    found = []
    for folder in sorted(site.iterdir()):
        if folder.name in NOT_USERS or not (folder / "__init__.py").exists():
            continue
        if any(IMPORTS.search(file.read_text(errors="replace")) for file in folder.rglob("*.py")):
            found.append(folder.name)
    return found


def modules(site: pathlib.Path, package: str) -> list[str]:
    """The names of a package's modules, a package before what is in it."""
    files = sorted((site / package).rglob("*.py"))
    names = [".".join(file.relative_to(site).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return sorted(name for name in names if not PROGRAMS.search(name) and all(map(str.isidentifier, name.split("."))))


def _site(environment) -> pathlib.Path:
    (site,) = pathlib.Path(environment).glob("lib/python*/site-packages")
    return site


def failures(environment, reference, names: list[str]) -> dict[str, str]:
    """Why modules cannot be imported, by name; with PyTorch in front where a reference is given."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    if reference is not None:
        environ["PYTHONPATH"] = str(_site(reference))
    limit = os.environ.get("FTORCH_WALK_LIMIT", "60")
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = pathlib.Path(scratch, "outcomes")
        while names:
            outcomes.write_text("")
            command = [str(pathlib.Path(environment) / "bin" / "python"), "-W", "ignore", __file__, str(outcomes), limit]
            subprocess.run(
                command, input="\n".join(names), text=True, cwd=scratch, env=environ, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            rows = dict(map(json.loads, outcomes.read_text().splitlines()))
            if not rows:
                return found | dict.fromkeys(names, "the process did not start")
            for name, why in rows.items():
                if why != "":
                    found[name] = why
            names = names[names.index(list(rows)[-1]) + 1:]
    return found


def walk(environment, reference, chosen) -> int:
    """Prints the modules that cannot be imported here and can with PyTorch; gives their number."""
    site, count, total = _site(environment), 0, 0
    for package in chosen or packages(site):
        names = modules(site, package)
        ours = failures(environment, None, names)
        theirs = failures(environment, reference, sorted(ours)) if ours else {}
        mine = {name: why for name, why in ours.items() if name not in theirs}
        print(f"{package}: {len(names) - len(ours)} of {len(names) - len(theirs)} modules", flush=True)
        for name, why in mine.items():
            print(f"  {name}: {why}", flush=True)
        count, total = count + len(mine), total + len(names) - len(theirs)
    print(f"{total - count} of {total} modules that PyTorch can import")
    return count


def _child(outcomes: str, limit: int) -> None:
    """Imports the modules that standard input names, and writes a line before and after each."""
    import importlib
    import signal

    def is_late(*_):
        raise TimeoutError(f"no end within {limit} s")

    signal.signal(signal.SIGALRM, is_late)
    names = sys.stdin.read().split()
    sys.argv = [""]
    with open(outcomes, "a") as file:
        for name in names:
            file.write(json.dumps([name, "the process ended"]) + "\n")
            file.flush()
            signal.alarm(limit)
            try:
                importlib.import_module(name)
                why = ""
            except BaseException as error:  # SystemExit, too: a module that is a program
                why = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            signal.alarm(0)
            file.write(json.dumps([name, why]) + "\n")
            file.flush()


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]))
