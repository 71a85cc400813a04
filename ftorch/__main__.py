"""``python -m ftorch script.py ...``: runs a script, or ``-m module``, written for ``import torch``.

``torch`` and its submodules are ftorch's own modules then; nothing is imported before the script does.
``python -m ftorch alias install`` makes that so for all programs of an environment (see `_alias`).
"""

from __future__ import annotations

import os
import runpy
import sys

_USAGE = """\
usage: python -m ftorch (script.py | -m module | -c code) [arguments ...]
       python -m ftorch alias (install | status | remove)"""


def main(arguments: list[str]) -> int | None:
    """Runs a script with arguments; gives an exit status for wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    from . import _alias

    if arguments[0] == "alias":
        return _alias.main(arguments[1:])
    _alias.install_as_torch()
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
        exec(compile(target, "<string>", "exec", dont_inherit=True), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
