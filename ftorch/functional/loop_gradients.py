"""The reverse-mode derivative of a loop whose number of steps is known only when it has run.

XLA's ``while`` keeps no history. The forward pass is run once more with a table of checkpoints of fixed
size: the carried values of every ``stride``-th step, where ``stride`` doubles (and every other entry
is dropped) whenever the table is full. The backward pass goes through the steps from the last to the
first and recomputes each from the checkpoint before it: memory is constant, and a loop of ``n`` steps
costs at most ``n * n / (2 * CHECKPOINTS)`` more.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

CHECKPOINTS = 32


def _is_inexact(x):
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _history(condition, body, carry):
    """(number of steps, stride, the table of checkpoints) of a loop."""
    table = [jnp.zeros((CHECKPOINTS, *x.shape), x.dtype) for x in carry]

    def halved(table):
        half = CHECKPOINTS // 2
        return [jnp.concatenate([t[::2], jnp.zeros_like(t[:half])]) for t in table]

    def step(state):
        i, stride, carry, table = state
        full = i == stride * CHECKPOINTS
        table = jax.lax.cond(full, halved, lambda t: t, table)
        stride = jnp.where(full, 2 * stride, stride)
        slot = i // stride
        table = jax.lax.cond(
            i % stride == 0,
            lambda t: [
                jax.lax.dynamic_update_index_in_dim(old, x, slot, 0) for old, x in zip(t, carry)
            ],
            lambda t: t,
            table,
        )
        return i + 1, stride, list(body(carry)), table

    start = (jnp.zeros((), jnp.int64), jnp.ones((), jnp.int64), list(carry), table)
    count, stride, _, table = jax.lax.while_loop(lambda s: condition(s[2]), step, start)
    return count, stride, table


def gradients(condition, body, captured, carry, cotangents):
    """Gradients of ``while_loop`` with respect to what ``body`` captures and the first carried values.

    Args:
        condition, body: functions ``condition(carry)`` and ``body(captured, carry)``.
        captured, carry: lists of arrays.
        cotangents: for each carried value; those of integers are not read.

    Returns:
        (for each captured array, for each carried value) a gradient, None for integers.
    """
    count, stride, table = _history(condition, lambda c: body(captured, c), carry)
    moving = [i for i, x in enumerate(carry) if _is_inexact(x)]
    held = [i for i, x in enumerate(captured) if _is_inexact(x)]

    def at(k):
        """The carried values before step ``k``."""
        start = k // stride
        return jax.lax.fori_loop(
            start * stride, k, lambda _, c: list(body(captured, c)), [t[start] for t in table]
        )

    def back(state):
        k, grads, totals = state
        k = k - 1
        values = at(k)

        def one(chosen_captured, chosen):
            full_captured, full = list(captured), list(values)
            for i, x in zip(held, chosen_captured):
                full_captured[i] = x
            for i, x in zip(moving, chosen):
                full[i] = x
            out = body(full_captured, full)
            return [out[i] for i in moving]

        _, pull = jax.vjp(one, [captured[i] for i in held], [values[i] for i in moving])
        more, grads = pull(grads)
        return k, grads, [a + b for a, b in zip(totals, more)]

    start = (count, [cotangents[i] for i in moving], [jnp.zeros_like(captured[i]) for i in held])
    _, grads, totals = jax.lax.while_loop(lambda s: s[0] > 0, back, start)
    by_captured, by_carry = dict(zip(held, totals)), dict(zip(moving, grads))
    return (
        [by_captured.get(i) for i in range(len(captured))],
        [by_carry.get(i) for i in range(len(carry))],
    )
