"""Random programs in both libraries: ops, views, in-place writes, backward calls.

A program is a list of Python statements on numbered tensors, made from a seed. Each statement runs in
PyTorch and in ftorch; after it both must have raised the same type of exception, or agree in every
live tensor's values, dtype, shape, strides, version, ``requires_grad``, leafness and in which tensors
alias which. After a backward call the gradients must agree as well.

``FTORCH_DIFFERENTIAL=5000`` runs so many programs, ``FTORCH_DIFFERENTIAL_SEED`` chooses the first. A
failure prints the program: paste it behind ``import torch`` and ``import ftorch as torch``.
"""

from __future__ import annotations

import os
import random
import re

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from tests.oracle import TOLERANCE, array, assert_same_outcome, name_of, outcome

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("FTORCH_DIFFERENTIAL", "300"))
FIRST = int(os.environ.get("FTORCH_DIFFERENTIAL_SEED", "0"))
PER_TEST = 25
STATEMENTS = 14

UNARY = ["exp", "sin", "tanh", "sigmoid", "relu", "neg", "abs", "square", "clone", "detach"]
BINARY = ["+", "-", "*", "maximum", "atan2"]
REDUCTIONS = ["sum()", "mean()", "sum(0)", "amax(-1)", "sum(-1, keepdim=True)", "max()", "prod()"]
INPLACE_UNARY = ["exp_", "sin_", "tanh_", "neg_", "zero_", "relu_", "sigmoid_", "abs_"]
INPLACE_BINARY = ["add_", "sub_", "mul_", "copy_"]


class Writer:
    """Writes a program: knows the tensors' shapes by running it in PyTorch as it grows."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.scope = {"torch": pt}
        self.names: list[str] = []
        self.lines: list[str] = []
        self.made = 0
        self.ended = False

    def pick(self):
        # Younger tensors are likelier: deep programs rather than wide ones.
        return self.random.choice(self.names[-4:] if self.random.random() < 0.6 else self.names)

    def shape(self, name):
        return tuple(self.scope[name].shape)

    def emit(self, expression, makes=True):
        if makes:
            name, self.made = f"t{self.made}", self.made + 1
            line = f"{name} = {expression}"
        else:
            name, line = None, expression
        if name is None and self.is_odd(expression):
            return
        self.lines.append(line)
        error = _run(line, self.scope)[1]
        if error is not None and name is None:
            # A write or backward that fails may have done half its work: the program ends there.
            self.ended = self.random.random() < 0.2
            if not self.ended:
                self.lines.pop()
        if error is None and name is not None:
            if isinstance(self.scope[name], pt.Tensor) and self.scope[name].numel() < 200:
                self.names.append(name)
            else:
                del self.scope[name]

    def is_odd(self, statement):
        """A write of a tensor that requires grad into integers, which PyTorch lets require grad."""
        used = [self.scope[n] for n in self.names if re.search(rf"\b{n}\b", statement)]
        return any(t.requires_grad for t in used) and not all(t.is_floating_point() for t in used)

    def leaf(self):
        shape = self.random.choice([(), (3,), (2, 3), (3, 2), (2, 2, 3), (1, 3), (0, 3)])
        count = int(np.prod(shape))
        values = [round(self.random.uniform(-1.5, 1.5), 2) for _ in range(count)]
        kind = self.random.random()
        expression = f"torch.tensor({values}, dtype=torch.float64).reshape({shape}).clone()"
        if kind < 0.15:
            integers = [int(v * 3) for v in values]
            expression = f"torch.tensor({integers}, dtype=torch.int64).reshape({shape})"
        elif kind < 0.6:
            expression = f"{expression}.requires_grad_()"
        self.emit(expression)

    def index(self, shape):
        """A random index expression: slices, integers, None, masks, lists of integers."""
        parts, sizes = [], list(shape)
        while sizes:
            size = sizes.pop(0)
            kind = self.random.random()
            if kind < 0.3:
                parts.append(str(self.random.randint(-size, max(size - 1, 0))))
            elif kind < 0.65:
                step = self.random.choice(["", ":2", ":1"])
                parts.append(f"{self.random.choice(['', '0', '1', '-2'])}:"
                             f"{self.random.choice(['', '2', '-1'])}{step}")
            elif kind < 0.75:
                parts.append("...")
                break
            elif kind < 0.85:
                parts.append("None")
                sizes.insert(0, size)
            elif not size:
                parts.append(":")
            else:
                parts.append(str([self.random.randint(-size, size - 1) for _ in range(2)]))
        return ", ".join(parts) or "..."

    def read(self, name):
        index = self.index(self.shape(name))
        # The layout that PyTorch gives the copy of index tensors is nobody's promise.
        return f"{name}[{index}]" + (".contiguous()" if "[" in index else "")

    def view(self, name):
        shape = self.shape(name)
        n = len(shape)
        dims = [self.random.randint(-n, n - 1) if n else 0 for _ in range(2)]
        total = int(np.prod(shape))
        options = [
            self.read(name), self.read(name),
            f"{name}.transpose({dims[0]}, {dims[1]})", f"{name}.unsqueeze({dims[0]})",
            f"{name}.view(-1)", f"{name}.reshape(-1)", f"{name}.squeeze()", f"{name}.t()",
            f"{name}.expand(2, {', '.join(map(str, shape)) or '2'})", f"{name}.flatten()",
            f"{name}.narrow({dims[0]}, 0, 1)", f"{name}.diagonal()", f"{name}.detach()",
            f"{name}.unfold({dims[0]}, 2, 2)", f"{name}.select({dims[0]}, 0)", f"{name}.data",
            f"{name}.view_as({self.pick()})",
            f"{name}.as_strided(({min(total, 2)},), (1,), {self.random.randint(0, 1)})",
        ]
        return self.random.choice(options)

    def statement(self):
        r = self.random
        if len(self.names) < 2:
            return self.leaf()
        a, b = self.pick(), self.pick()
        kind = r.random()
        number = round(r.uniform(-2, 2), 1)
        if kind < 0.08:
            self.leaf()
        elif kind < 0.30:
            self.emit(self.view(a))
        elif kind < 0.42:
            self.emit(f"{a}.{r.choice(UNARY)}()")
        elif kind < 0.56:
            op = r.choice(BINARY)
            right = b if r.random() < 0.8 else number
            self.emit(f"{a} {op} {right}" if len(op) == 1 else f"torch.{op}({a}, {b})")
        elif kind < 0.62:
            self.emit(f"{a}.{r.choice(REDUCTIONS)}")
        elif kind < 0.66:
            self.emit(r.choice([
                f"torch.cat([{a}, {b}])", f"torch.stack([{a}, {a}])", f"({a} @ {b}).clone()",
                f"torch.where({a} > 0, {a}, {b})", f"{a}.clamp({number}, 1)",
            ]))
        elif kind < 0.72:
            self.emit(f"{a}.{r.choice(INPLACE_UNARY)}()", makes=False)
        elif kind < 0.80:
            right = b if r.random() < 0.7 else number
            self.emit(f"{a}.{r.choice(INPLACE_BINARY)}({right})", makes=False)
        elif kind < 0.88:
            right = b if r.random() < 0.5 else number
            self.emit(f"{a}[{self.index(self.shape(a))}] = {right}", makes=False)
        elif kind < 0.90:
            # Views made before their base requires grad do not notice: not part of the promise.
            cell = self.scope[a].untyped_storage().data_ptr()
            own = [n for n in self.names if self.scope[n].untyped_storage().data_ptr() == cell]
            if own == [a]:
                self.emit(f"{a}.requires_grad_()", makes=False)
        elif kind < 0.91:
            self.emit(f"{a}.retain_grad()", makes=False)
        elif kind < 0.93:
            self.emit(
                f"with torch.no_grad(): {a}.{r.choice(INPLACE_BINARY)}({b})", makes=False
            )
        elif kind < 0.97:
            self.emit(f"{a}.sum().backward()", makes=False)
        else:
            keep = r.choice(["", ", retain_graph=True", ", create_graph=True"])
            # A gradient's strides and sharing are nobody's promise: a fresh copy is compared.
            # The gradient of exp needs its result, so it requires grad where a graph is made.
            self.emit(
                f"torch.autograd.grad({a}.exp().sum(), [{b}]{keep}, allow_unused=True)[0]"
                ".clone(memory_format=torch.contiguous_format)"
            )

    def program(self):
        for _ in range(3):
            self.leaf()
        while len(self.lines) < STATEMENTS and not self.ended:
            self.statement()
        return self.lines


def _run(line, scope):
    return outcome(exec, compile(line, "<program>", "exec"), scope)


def _state(scope):
    """What must agree of every tensor of a program."""
    state = {}
    for name, t in scope.items():
        if name == "torch" or not hasattr(t, "requires_grad"):
            continue
        state[name] = (
            name_of(t.dtype), tuple(t.shape), _strides(t), t.storage_offset(), t.requires_grad,
            t.is_leaf, t._version, t._is_view(),
        )
    return state


def _strides(t):
    """The strides that say where elements are: of dimensions with several, if there are any."""
    return [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else []


def _aliases(scope):
    """For each tensor the first one that shares its storage."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(t.untyped_storage().data_ptr(), name)
        for name, t in scope.items()
        if hasattr(t, "requires_grad") and t.numel()
    }


def run_in_both(lines):
    """Runs a program in both libraries, comparing after every statement.

    Raises:
        AssertionError: they disagree; the message has the program up to there.
    """
    mine, theirs = {"torch": ft}, {"torch": pt}
    for count, line in enumerate(lines, 1):
        try:
            a, b = _run(line, mine), _run(line, theirs)
            assert_same_outcome(a, b)
            if b[1] is not None:
                if "=" in line.split("(")[0]:
                    continue
                return
            for scope in (mine, theirs):
                for name in [n for n, v in scope.items() if v is None or n.startswith("__")]:
                    del scope[name]
            assert mine.keys() == theirs.keys()
            assert _state(mine) == _state(theirs), _differences(_state(mine), _state(theirs))
            # Values and storages' identities are looked at now and then, so that traces grow.
            if count % 4 == 0 or count == len(lines) or "backward" in line:
                assert _aliases(mine) == _aliases(theirs)
                _compare(mine, theirs)
        except Exception as error:
            program = "\n".join(lines[:count])
            raise AssertionError(f"{type(error).__name__}: {error}\nin the program\n{program}") from None


def _differences(mine, theirs):
    return "; ".join(
        f"{n}: {mine[n]} instead of {theirs[n]}" for n in theirs if mine[n] != theirs[n]
    )


def _compare(mine, theirs):
    for name in theirs:
        x, y = mine[name], theirs[name]
        if not hasattr(y, "requires_grad"):
            continue
        rtol, atol = TOLERANCE[name_of(y.dtype)] if y.is_floating_point() else (0, 0)
        np.testing.assert_allclose(array(x), array(y), rtol, atol, err_msg=name)
        if y.is_leaf or y.retains_grad:
            assert (x.grad is None) == (y.grad is None), f"{name}.grad: {x.grad} and {y.grad}"
            if y.grad is not None:
                assert x.grad.shape == tuple(y.grad.shape)
                np.testing.assert_allclose(array(x.grad), array(y.grad), rtol, atol,
                                           err_msg=f"{name}.grad")


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, PER_TEST))
def test_random_programs(first):
    """So many programs from a seed on agree."""
    for seed in range(first, first + PER_TEST):
        lines = Writer(seed).program()
        try:
            run_in_both(lines)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
