"""Random programs of a family in both libraries: ``python -m tests.differential FAMILY --count N --seed S``.

Prints each program that differs, and how; ``all`` runs every family.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys

from .families import FAMILIES
from .observing import compare


def main(arguments=None) -> int:
    """Runs programs; gives 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("family", choices=[*FAMILIES, "all"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ignore", default="", help="kinds of differences to pass over, by commas")
    options = parser.parse_args(arguments)
    ignored = set(options.ignore.split(","))
    differing = 0
    for name in FAMILIES if options.family == "all" else [options.family]:
        kinds: collections.Counter = collections.Counter()
        wrong = 0
        for seed in range(options.seed, options.seed + options.count):
            program = FAMILIES[name](random.Random(seed))
            found = [d for d in compare(program, seed=seed) if d[0] not in ignored]
            if found:
                wrong += 1
                kinds.update({kind for kind, _ in found})
                print(f"--- {name} {seed}\n{program}")
                for kind, text in found[:4]:
                    print(f"[{kind}] {text[:600]}")
                sys.stdout.flush()
        print(f"{name}: {options.count} programs, {wrong} differ {dict(kinds)}")
        differing += wrong
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
