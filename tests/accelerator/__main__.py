"""``python -m tests.accelerator LIBRARY FILE [NAME ...]``: what programs give, to a file. With ftorch they run on a GPU, or
on the emulated one, with torch on the CPU.
"""

import importlib
import os
import pickle
import sys
import traceback
import warnings

from . import emulated
from .programs import PROGRAMS
from .results import plain


def main(library, path, *names):
    if library == "ftorch":
        # Before JAX looks for devices: a second CPU, for the emulated GPU.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {emulated.FLAG}"

        import jax

        if all(d.platform == "cpu" for d in jax.devices()):
            emulated.install()
    t, device = importlib.import_module(library), "cuda" if library == "ftorch" else "cpu"
    t.backends.cudnn.allow_tf32 = False  # else a GPU's convolutions agree with the CPU's to three digits
    found = {}
    for name in names or PROGRAMS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = plain(PROGRAMS[name](t, device))
        except Exception:
            found[name] = traceback.format_exc()
        print(name, "raised" if isinstance(found[name], str) else "", flush=True)
    with open(path, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
