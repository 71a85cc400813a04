"""Rules of primitives that hold functions: loops, branches, solvers.

Their ``run`` is given the functions as its last size, ``bodies``: for each of the jaxprs that `rules.jaxprs_of` lists one of
arrays that gives a list or tuple of arrays.
"""

from __future__ import annotations

import numpy as np

from ..core.jax_internals import scan_counts
from .rules import rule, rule_of_bodies


@rule_of_bodies("while")
def _(params, inputs, outputs):
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def loop(*operands):
        keep_on, step = operands[-1]
        asked, given, carried = operands[:first], operands[first:second], operands[second:-1]
        going = keep_on(*asked, *carried)[0]
        if going.ndim:
            return examples(keep_on, step, asked, given, carried, going)
        while going:
            carried = step(*given, *carried)
            going = keep_on(*asked, *carried)[0]
        return tuple(carried)

    def examples(keep_on, step, asked, given, carried, going):
        """A loop per example: those that have ended stay as they are."""
        while going.any():
            carried = [
                np.where(going.reshape(going.shape + (1,) * (old.ndim - going.ndim)), new, old)
                for new, old in zip(step(*given, *carried), carried)
            ]
            going = keep_on(*asked, *carried)[0]
        return tuple(carried)

    return loop


@rule_of_bodies("scan", sizes=("length", "out_shapes"))
def _(params, inputs, outputs):
    reverse, (constants, carries) = params["reverse"], scan_counts(params)
    dtypes = [o.dtype for o in outputs[carries:]]

    def scan(*operands):
        *operands, length, shapes, (step,) = operands
        given = operands[:constants]
        carried, lines = operands[constants : constants + carries], operands[constants + carries :]
        stacks = [np.empty(shape, dtype) for shape, dtype in zip(shapes[carries:], dtypes)]
        for i in range(length - 1, -1, -1) if reverse else range(length):
            results = step(*given, *carried, *[x[i, ...] for x in lines])
            carried = results[:carries]
            for stack, part in zip(stacks, results[carries:]):
                stack[i] = part
        return (*carried, *stacks)

    return scan


@rule_of_bodies("cond")
def _(params, inputs, outputs):
    def branch(which, *operands):
        branches = operands[-1]
        return tuple(branches[min(max(int(which), 0), len(branches) - 1)](*operands[:-1]))

    return branch


@rule("platform_index")
def _(params, inputs, outputs):
    platforms = params["platforms"]
    own = next((i for i, names in enumerate(platforms) if names is None or "cpu" in names), 0)
    found = np.asarray(own, outputs[0].dtype)
    return lambda: found


@rule_of_bodies("custom_linear_solve")
def _(params, inputs, outputs):
    lengths = params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    end = start + lengths.solve
    total = end + lengths.transpose_solve

    def solve(*operands):
        (solver,) = operands[-1]
        return tuple(solver(*operands[start:end], *operands[total:-1]))

    return solve
