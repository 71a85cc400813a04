"""``python -m ftorch script.py ...``: runs a script, or ``-m module``, written for ``import torch``.

``torch`` and its submodules are ftorch's own modules then; nothing is imported before the script does.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import runpy
import sys

_USAGE = "usage: python -m ftorch (script.py | -m module | -c code) [arguments ...]"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch`` and ``torch.x`` as the modules ``ftorch`` and ``ftorch.x``."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != "torch":
            return None
        if fullname != "torch" and importlib.util.find_spec(_own_name(fullname)) is None:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec):
        module = importlib.import_module(_own_name(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._spec  # the import system has put the alias's there


def _own_name(fullname):
    return "ftorch" + fullname.removeprefix("torch")


def install() -> None:
    """Makes ``import torch`` import ftorch, from now on."""
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias())


def main(arguments: list[str]) -> int | None:
    """Runs a script with arguments; gives an exit status for wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    install()
    kind = arguments.pop(0) if arguments[0] in ("-m", "-c") else None
    if not arguments:
        print(_USAGE, file=sys.stderr)
        return 2
    sys.argv = arguments
    target = arguments[0]
    if kind == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv[0] = "-c"
        exec(compile(target, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
