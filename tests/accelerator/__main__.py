"""``python -m tests.accelerator FILE [NAME ...]``: programs on a GPU, or on the emulated one, results to a file."""

import os
import pickle
import sys
import traceback
import warnings

from . import emulated
from .programs import PROGRAMS
from .results import plain


def main(path, *names):
    # Before JAX looks for devices: a second CPU, for the emulated GPU.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {emulated.FLAG}"

    import jax

    if all(d.platform == "cpu" for d in jax.devices()):
        emulated.install()

    import ftorch

    found = {}
    for name in names or PROGRAMS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = plain(PROGRAMS[name](ftorch, "cuda"))
        except Exception:
            found[name] = traceback.format_exc()
        print(name, "raised" if isinstance(found[name], str) else "", flush=True)
    with open(path, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
