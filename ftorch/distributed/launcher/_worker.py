"""A worker of `elastic_launch` that calls a function: its result is left in a file."""

from __future__ import annotations

import os
import pickle
import sys

from ..elastic.multiprocessing.errors import record

if __name__ == "__main__":
    path = sys.argv[1]
    with open(path, "rb") as file:  # written by the launcher, this process' parent
        function, args = pickle.load(file)
    result = record(function)(*args)
    with open(os.path.join(os.path.dirname(path), "result.pickle"), "wb") as file:
        pickle.dump(result, file)
