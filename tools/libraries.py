"""Runs programs of published libraries with ftorch in PyTorch's place, in an environment without PyTorch.

    python tools/libraries.py install ENVIRONMENT [LIBRARY ...]    # makes it: ftorch, the alias, the libraries
    python tools/libraries.py run ENVIRONMENT [LIBRARY ...]        # runs the programs; writes docs/libraries.md
    python tools/libraries.py names                                # what there is
    python tools/libraries.py suites ENVIRONMENT REFERENCE SOURCES RESULTS [LIBRARY[:PATH] ...]    # their own tests
    python tools/libraries.py compare RESULTS [LIBRARY ...]        # what of them passes on PyTorch and not here
    python tools/libraries.py table ENVIRONMENT RESULTS            # writes that into docs/libraries.md
    python tools/libraries.py walk ENVIRONMENT REFERENCE [PACKAGE ...]    # imports every module of what is installed

The last one is described in ``library_walk.py``, the three before in ``library_suites.py``. Each program is a file of
``tools/library_programs/``, which says in its first line what to install, prints what it finds out, and raises where
something is wrong. No library is patched, nothing is stubbed: ``import torch`` is all they do.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tools" / "library_programs"
TABLE = ROOT / "docs" / "libraries.md"
OWN_TESTS = "## Their own tests"  # what follows in that file is of `table`
MEASURED = "<!-- measured -->"  # in it: what is before is written by hand
# Of what is installed without dependencies: a wheel that insists on PyTorch's own libraries.
ALONE = {"torchvision": "torchvision==0.28.0", "torchaudio": "torchaudio==2.11.0"}


def programs(chosen=()) -> dict[str, pathlib.Path]:
    """The programs by library."""
    found = {path.stem: path for path in sorted(PROGRAMS.glob("*.py"))}
    return {name: found[name] for name in chosen} if chosen else found


def requirements(path: pathlib.Path) -> list[str]:
    """What a program's first line says is to be installed."""
    first = path.read_text().splitlines()[0]
    return first.removeprefix("# needs:").split()


def _python(environment) -> str:
    return str(pathlib.Path(environment) / "bin" / "python")


def install(environment, chosen=()) -> None:
    """Makes an environment: the package, the alias, then the libraries, for which torch is there."""
    if not pathlib.Path(_python(environment)).exists():
        venv.create(environment, with_pip=True)
    python = _python(environment)
    pip = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "-e", str(ROOT)], check=True)
    subprocess.run([python, "-m", "ftorch", "alias", "install"], check=True)
    # A library that wants another torch must fail to install, and not replace this one.
    constraints = pathlib.Path(environment) / "constraints.txt"
    constraints.write_text(f"torch=={versions(environment, ['torch'])['torch']}\n")
    pip += ["-c", str(constraints)]
    needed = sorted({need for path in programs(chosen).values() for need in requirements(path)})
    subprocess.run([*pip, *(n for n in needed if n not in ALONE)], check=True)
    alone = [ALONE[n] for n in needed if n in ALONE]
    if alone:
        subprocess.run([*pip, "--no-deps", *alone], check=True)
    if importlib.util.find_spec("ftorch") is None:
        raise SystemExit("the package was not installed")


_ABOUT = """
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        found[name] = ""
print(json.dumps(found))
"""


def versions(environment, names) -> dict[str, str]:
    """The installed versions of distributions."""
    done = subprocess.run([_python(environment), "-c", _ABOUT, *names], capture_output=True, text=True)
    return json.loads(done.stdout)


def run(environment, chosen=(), limit: int = 600) -> list[tuple[str, str, str, float]]:
    """Runs programs; gives (library, version, why it failed or "", seconds) of each."""
    known = versions(environment, list(programs(chosen)))
    rows = []
    for name, path in programs(chosen).items():
        began = time.time()
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        try:
            done = subprocess.run(
                [_python(environment), "-P", "-W", "ignore", str(path)], capture_output=True, text=True,
                timeout=limit, env=environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
                cwd=os.environ.get("TMPDIR", "/tmp"),
            )
            last = (done.stderr.strip().splitlines() or ["?"])[-1]
            reason = "" if done.returncode == 0 else last.replace(f"{ROOT}/", "")
        except subprocess.TimeoutExpired:
            reason = f"no end within {limit} s"
        rows.append((name, known[name], reason, time.time() - began))
        print(f"{name:20} {'passed' if not reason else reason} ({rows[-1][3]:.0f} s)", flush=True)
    return rows


def write(rows) -> None:
    """Writes the page."""
    passed = sum(not reason for _, _, reason, _ in rows)
    lines = [
        "# Libraries", "",
        "Written by `tools/libraries.py`: programs of published libraries in an environment in which PyTorch was",
        "never installed and `torch` is ftorch (`python -m ftorch alias install`). Each program is in",
        "`tools/library_programs/`; nothing is stubbed or patched.", "",
        f"{passed} of {len(rows)} pass.", "",
        "| library | version | outcome |", "|---|---|---|",
    ]
    for name, version, reason, _ in rows:
        reason = reason.replace("|", "/")[:160]
        lines.append(f"| {name} | {version} | {'passes' if not reason else 'fails: ' + reason} |")
    # What is measured otherwise stays.
    _, mark, own = TABLE.read_text().partition(OWN_TESTS) if TABLE.exists() else ("", "", "")
    TABLE.write_text("\n".join(lines) + "\n" + (f"\n{mark}{own}" if mark else ""))


def own_tests(command: str, arguments: list[str]) -> None:
    """Libraries' own tests: runs them, prints what differs, or writes their table."""
    import library_suites as suites

    if command == "suites":
        environment, reference, sources, results, *chosen = arguments
        suites.run(environment, reference, sources, results, chosen, versions(environment, list(suites.SUITES)))
    elif command == "compare":
        suites.compare(arguments[0], arguments[1:])
    else:
        environment, results = arguments
        text, mark, before = TABLE.read_text().partition(MEASURED)
        if not mark:
            raise SystemExit(f"{TABLE} has no line {MEASURED}")
        known = versions(environment, list(suites.SUITES))
        TABLE.write_text(f"{text}{mark}\n\n{suites.table(results, known, before)}\n")


def main(arguments: list[str]) -> int:
    """Runs the command; the status is that of the programs."""
    if arguments[:1] and arguments[0] in ("suites", "compare", "table") and len(arguments) > 1:
        own_tests(arguments[0], arguments[1:])
        return 0
    if arguments[:1] == ["walk"] and len(arguments) > 2:
        import library_walk

        return int(library_walk.walk(arguments[1], arguments[2], arguments[3:]) > 0)
    if arguments[:1] == ["names"]:
        print("\n".join(programs()))
        return 0
    if len(arguments) < 2 or arguments[0] not in ("install", "run"):
        print(__doc__)
        return 2
    if arguments[0] == "install":
        install(arguments[1], arguments[2:])
        return 0
    rows = run(arguments[1], arguments[2:])
    if not arguments[2:]:
        write(rows)
    return int(any(reason for _, _, reason, _ in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
