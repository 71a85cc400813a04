"""Which names of ``torch`` do published libraries use, and which of them are missing here?

    python tools/torch_names.py scan DIRECTORY [...] > tests/names/torch_names.csv    # of site-packages
    python tools/torch_names.py missing [tests/names/torch_names.csv]

`scan` reads the sources below the directories without importing them: imports of ``torch`` and of its modules,
and dotted names that start at one. Each name comes with the number of packages that use it. Names that the
installed PyTorch itself lacks (of other versions, mistaken ones) are left out when it is there to be asked.
`missing` prints the names that ftorch lacks.
"""

from __future__ import annotations

import ast
import collections
import csv
import importlib
import importlib.util
import pathlib
import sys
import warnings

OWN = {"torch", "ftorch", "functorch", "torchgen", "triton", "jax", "jaxlib"}  # not users of torch


def names_in(source: str) -> set[str]:
    """The full names below ``torch`` that a module's source uses."""
    tree = ast.parse(source)
    bound: dict[str, str] = {}  # what a local name stands for
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    found.add(alias.name)
                    bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module.partition(".")[0] == "torch":
                found.add(node.module)
                for alias in node.names:
                    if alias.name != "*":
                        found.add(f"{node.module}.{alias.name}")
                        bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _dotted(node, bound)):
            found.add(name)
    return found


def _dotted(node, bound):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in bound:
        return ".".join([bound[node.id], *reversed(parts)])
    return None


def scan(directories) -> collections.Counter[str]:
    """How many packages below the directories use each name."""
    users: dict[str, set[str]] = collections.defaultdict(set)
    for directory in map(pathlib.Path, directories):
        for path in directory.rglob("*.py"):
            package = path.relative_to(directory).parts[0]
            if package in OWN:
                continue
            try:
                text = path.read_text()
                if "torch" not in text:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    names = names_in(text)
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue
            for name in names:
                users[name].add(package)
    return collections.Counter({name: len(packages) for name, packages in users.items()})


def resolves(name: str, root: str = "ftorch") -> bool:
    """Whether a name below ``torch`` can be imported, or reached as an attribute."""
    parts = name.split(".")[1:]
    value = importlib.import_module(root)
    path = root
    for part in parts:
        path = f"{path}.{part}"
        try:
            value = getattr(value, part)
        except Exception as error:
            if isinstance(error, RuntimeError):
                return True  # it is there, and says why it cannot be used
            try:
                value = importlib.import_module(path)
            except Exception:
                return False
    return True


def read(path) -> dict[str, int]:
    """The names and numbers of packages of a file that `scan` wrote."""
    with open(path, newline="") as file:
        return {row["name"]: int(row["packages"]) for row in csv.DictReader(file)}


def main(arguments: list[str]) -> None:
    """Runs the command."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["scan"]:
        names = scan(arguments[1:])
        try:
            has = importlib.util.find_spec("torch") is not None
        except ValueError:
            has = True
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["name", "packages"])
        for name, count in sorted(names.items()):
            if not has or resolves(name, "torch"):
                writer.writerow([name, count])
    elif arguments[:1] == ["missing"]:
        path = arguments[1] if arguments[1:] else "tests/names/torch_names.csv"
        rows = [(count, name) for name, count in read(path).items() if not resolves(name)]
        for count, name in sorted(rows, key=lambda row: (-row[0], row[1])):
            print(f"{count:4} {name}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
