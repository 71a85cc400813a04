"""``torch.utils.checkpoint``: gradients, random numbers and errors, as in PyTorch."""


import pytest
import torch
import torch.utils.checkpoint

import ftorch

from ..oracle import LIBRARIES, assert_says_same, said


@pytest.mark.parametrize("use_reentrant", [False, True])
class TestBothForms:
    def test_gradients(self, use_reentrant):
        def program(t):
            x = t.tensor([1.0, 2.0], requires_grad=True)
            w = t.tensor([3.0, 4.0], requires_grad=True)
            calls = []

            def function(x):
                calls.append(1)
                return (x * w).sigmoid() * w

            y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=use_reentrant)
            before = len(calls)
            y.sum().backward()
            return y.detach(), x.grad, w.grad, before, len(calls)

        assert_says_same(program)

    def test_same_random_numbers(self, use_reentrant):
        def program(t):
            t.manual_seed(0)
            x = t.ones(6, requires_grad=True)

            def function(x):
                return t.nn.functional.dropout(x * x, 0.5)

            y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=use_reentrant)
            y.sum().backward()
            return y.detach(), x.grad, t.rand(2)

        assert_says_same(program)

    def test_sequential(self, use_reentrant):
        def program(t):
            t.manual_seed(0)
            model = t.nn.Sequential(*[t.nn.Linear(2, 2) for _ in range(5)])
            x = t.ones(1, 2, requires_grad=True)
            y = t.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=use_reentrant)
            y.sum().backward()
            return [p.grad.sum() for p in model.parameters()]

        assert_says_same(program)

    def test_autocast_is_restored(self, use_reentrant):
        def program(t):
            x = t.ones(2, 2, requires_grad=True)
            seen = []

            def function(x):
                y = x @ x
                seen.append(y.dtype)
                return y

            with t.autocast("cpu"):
                y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=use_reentrant)
            y.sum().backward()
            return seen, x.grad

        assert_says_same(program)

    def test_several_results_and_other_arguments(self, use_reentrant):
        def program(t):
            x = t.tensor([2.0], requires_grad=True)

            def function(x, n, flag):
                return x**n, (x * n).exp()

            y, z = t.utils.checkpoint.checkpoint(function, x, 3, None, use_reentrant=use_reentrant)
            (y + z).backward()
            return x.grad

        assert_says_same(program)

    def test_without_grad(self, use_reentrant):
        def program(t):
            y = t.utils.checkpoint.checkpoint(t.exp, t.ones(1), use_reentrant=use_reentrant)
            return y.requires_grad

        assert_says_same(program)


def test_keyword_arguments_and_autograd_grad():
    def program(t):
        x = t.tensor([2.0], requires_grad=True)

        def function(x, *, power):
            return x**power

        y = t.utils.checkpoint.checkpoint(function, x, power=3, use_reentrant=False)
        return t.autograd.grad(y, x)

    assert_says_same(program)


def test_nested():
    def program(t):
        x = t.tensor([0.5], requires_grad=True)
        checkpoint = t.utils.checkpoint.checkpoint

        def inner(x):
            return x.sin().exp()

        def outer(x):
            return checkpoint(inner, x * x, use_reentrant=False).cos()

        checkpoint(outer, x, use_reentrant=False).backward()
        return x.grad

    assert_says_same(program)


def test_retain_graph():
    def program(t):
        x = t.tensor([0.5], requires_grad=True)
        y = t.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False)
        y.backward(retain_graph=True)
        y.backward()
        return x.grad

    assert_says_same(program)


def test_early_stop():
    def program(t):
        def count(enabled):
            steps = []

            def function(x):
                y = x.exp()
                steps.append(1)
                y = y.sin()
                z = y + 1
                steps.append(2)
                return z

            x = t.ones(1, requires_grad=True)
            with t.utils.checkpoint.set_checkpoint_early_stop(enabled):
                y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
            y.backward()
            return steps

        return count(True), count(False)

    assert_says_same(program)


def test_nondeterministic_functions_are_found():
    def program(t, change):
        x, calls = t.ones(2, requires_grad=True), []

        def function(x):
            calls.append(1)
            return change(t, x, len(calls) > 1)

        y = t.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
        y.sum().backward()

    def more(t, x, again):
        return x.sin().cos() if not again else x.sin()

    ours, theirs = (said(t, lambda t: program(t, more))[0] for t in LIBRARIES)
    assert ours.splitlines() == theirs.splitlines()[:3]  # PyTorch adds a tip about its debug mode


@pytest.mark.parametrize("arguments", [
    {}, {"use_reentrant": True, "debug": True}, {"use_reentrant": True, "foo": 1},
    {"use_reentrant": False, "determinism_check": "x"},
])
def test_misuse(arguments):
    def program(t):
        x = t.ones(1, requires_grad=True)
        return t.utils.checkpoint.checkpoint(t.exp, x, **arguments)

    ours, theirs = said(ftorch, program), said(torch, program)
    if arguments.get("determinism_check"):
        assert ours[0].split(":")[0] == theirs[0].split(":")[0]
    else:
        assert ours[1] == theirs[1]
        assert ours[0].split("grad_fn")[0] == theirs[0].split("grad_fn")[0]


def test_hooks_that_are_always_called_see_each_end_of_running_again():
    """What they began in front of the module ends behind it, as sharded modules need."""

    def counts(lib):
        seen = {"before": 0, "after": 0}
        net = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh(), lib.nn.Linear(3, 3))
        for module in net:
            module.register_forward_pre_hook(lambda *_: seen.update(before=seen["before"] + 1))
            module.register_forward_hook(lambda *_: seen.update(after=seen["after"] + 1), always_call=True)
        x = lib.ones(2, 3, requires_grad=True)
        lib.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
        return seen

    mine = counts(ftorch)
    assert mine == counts(torch)
    assert mine["before"] == mine["after"]
