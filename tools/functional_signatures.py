"""Writes ``ftorch/nn/_functional_signatures.py``: the signatures of PyTorch's functions in ``torch.nn.functional``.

    python tools/functional_signatures.py > ftorch/nn/_functional_signatures.py

Signatures only, as ``inspect.signature`` gives them; functions that have none in PyTorch (those made in C++, and
those that choose between two by a flag) are left out.
"""

from __future__ import annotations

import inspect
import re

import torch

HEADER = '''"""Signatures of functions in ``torch.nn.functional``, as ``inspect.signature`` gives them there.

Made by ``tools/functional_signatures.py``. Annotations are what tracers and schema tools read.
"""

SIGNATURES = {'''


def main():
    print(HEADER)
    functional = torch.nn.functional
    for name, function in sorted(vars(functional).items()):
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if function.__module__ not in ("torch.nn.functional", "torch._jit_internal"):
            continue
        signature = inspect.signature(function)
        if [p.kind.name for p in signature.parameters.values()] == ["VAR_POSITIONAL", "VAR_KEYWORD"]:
            continue
        text = str(signature)
        text = re.sub(r"collections\.abc\.", "", text)
        text = re.sub(r"\b(typing|torch)\.(?=[A-Z])", "", text)
        if "<" in text or "torch" in text:
            continue
        print(f"    {name!r}: {text!r},")
    print("}")


main()
