"""Every module of the engine and of captured programs in a line: ``python tools/modules.py`` prints it as a page.

The line is the first of the module's docstring, so the page is what the code says of itself. The site has it as "Modules".
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ftorch"
ROOMS = ("eager", "jit", "_dynamo", "_dispatch", "_serialization", "_toplevel")
CPP = PACKAGE / "eager/native/src"


def first_line(path):
    """The first sentence of a module's docstring, or of a C++ file's first comment; "" where there is none."""
    text = path.read_text()
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    else:
        found = re.match(r"((?://.*\n)+)", text)
        text = "" if found is None else re.sub(r"^// ?", "", found[1], flags=re.MULTILINE)
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])", paragraph)[0].replace("|", "\\|")


def modules():
    """{folder below the package: {file: its line}}"""
    found: dict[str, dict[str, str]] = {}
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            if path.name != "__init__.py" or path.stat().st_size:
                found.setdefault(path.parent.relative_to(PACKAGE).as_posix(), {})[path.name] = first_line(path)
    for path in sorted(CPP.rglob("*.*")):
        if path.suffix in (".cpp", ".h") and (line := first_line(path)):
            found.setdefault(path.parent.relative_to(PACKAGE).as_posix(), {})[path.name] = line
    return found


def page():
    """The page, in Markdown."""
    intro = "What each file is for, in its own words; [architecture](architecture.md) says how they fit together."
    lines = ["# Modules", "", intro, ""]
    for folder, files in sorted(modules().items()):
        lines += [f"## `ftorch/{folder}/`", "", "| file | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {line} |" for name, line in files.items()] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
