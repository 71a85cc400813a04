"""Selective activation checkpointing, debugging and groups against PyTorch's."""

import functools
import logging
import re

import pytest

from ..oracle import assert_shows_same, neutral, unchanged


@pytest.fixture(autouse=True)
def no_handler_on_pytorchs_log():
    """pytest puts its handler on loggers that do not propagate, which PyTorch's is after its first debugging; its
    records are not texts."""
    logging.getLogger("LoggingTensor").propagate = True


def checkpoint_shows_same(program):
    """What a program of a package and its ``utils.checkpoint`` gives, which must be the same for both."""
    return assert_shows_same(lambda t: program(t, t.utils.checkpoint), show=unchanged, text=neutral, seed=0, ignored=None)


def recompute_log(t, ck, policy, function, **options):
    """The ops of the second run that were really computed, and the gradient."""
    seen = []

    class Log(t.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "detach" not in str(func):
                seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def contexts():
        first, second = ck.create_selective_checkpoint_contexts(policy, **options)

        class Both:
            def __enter__(self):
                self.log = Log()
                self.log.__enter__()
                second.__enter__()

            def __exit__(self, *exception):
                second.__exit__(*exception)
                self.log.__exit__(*exception)

        return first, Both()

    x = (t.arange(9.0).reshape(3, 3) / 9).requires_grad_()
    y = ck.checkpoint(function, x, use_reentrant=False, context_fn=contexts)
    y.sum().backward()
    return seen, [round(g, 4) for g in x.grad.flatten().tolist()]


def layers(x):
    """Ends with what saves its result: the last op is not computed again where it saves operands."""
    return (((x @ x).sigmoid() @ x).exp() * x).exp()


@pytest.mark.parametrize("kept", [(), ("mm",), ("mm", "exp"), ("sigmoid",), ("mul",)], ids=str)
def test_listed_results_are_kept(kept):
    def program(t, ck):
        overloads = {name: getattr(t.ops.aten, name) for name in kept}
        ops = [o.Tensor if name == "mul" else o.default for name, o in overloads.items()]
        return recompute_log(t, ck, ops, layers)

    checkpoint_shows_same(program)


@pytest.mark.parametrize("answer", ["MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", True, False])
def test_policies(answer):
    def program(t, ck):
        asked = []

        def policy(context, op, *args, **kwargs):
            asked.append((str(op), context.is_recompute, tuple(context.op_output.shape), len(args)))
            return getattr(ck.CheckpointPolicy, answer) if isinstance(answer, str) else answer

        return recompute_log(t, ck, policy, layers), asked

    checkpoint_shows_same(program)


def test_views_and_inplace():
    def function(x):
        y = x.t().clone()
        y.mul_(2)
        return (y[1:] * x[:2]).sin().view(-1).cos()

    for name in "t", "clone", "slice", "sin", "view":
        checkpoint_shows_same(
            lambda t, ck, name=name: recompute_log(
                t, ck, lambda context, op, *a, **k: str(op).split(".")[1] == name, function
            )[1]
        )


def test_several_results():
    def function(x):
        values, order = x.sort()
        return (values * order).exp()

    checkpoint_shows_same(lambda t, ck: recompute_log(t, ck, [t.ops.aten.sort.default], function))


def test_misuse_of_policies():
    def contexts(policy):
        return lambda t, ck: ck.create_selective_checkpoint_contexts(policy(t))

    assert checkpoint_shows_same(contexts(lambda t: [t.ops.aten.mm]))[0] == "ValueError"
    assert checkpoint_shows_same(contexts(lambda t: ["mm"]))[0] == "ValueError"
    assert checkpoint_shows_same(contexts(lambda t: 3))[0] == "TypeError"


def test_backward_errors():
    def differing(t, ck):
        calls = []

        def function(x):
            calls.append(0)
            return (x.exp() if len(calls) == 1 else x.sin()).cos()

        recompute_log(t, ck, [t.ops.aten.exp.default], function)

    def more(t, ck):
        calls = []

        def function(x):
            calls.append(0)
            return x.exp().sin() if len(calls) == 1 else x.exp().exp().sin()

        recompute_log(t, ck, [t.ops.aten.exp.default], function)

    def twice(t, ck):
        x = t.ones(2, requires_grad=True)
        keep = functools.partial(
            ck.create_selective_checkpoint_contexts, [t.ops.aten.exp.default]
        )
        y = ck.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=keep)
        y.sum().backward(retain_graph=True)
        y.sum().backward()

    def written(t, ck, **options):
        x = t.ones(2, requires_grad=True)
        keep = functools.partial(
            ck.create_selective_checkpoint_contexts, [t.ops.aten.exp.default], **options
        )
        kept = []

        def function(x):
            y = x.exp()
            kept.append(y)
            return y.sin()

        z = ck.checkpoint(function, x, use_reentrant=False, context_fn=keep)
        with t.no_grad():
            kept[0].mul_(2)
        z.sum().backward()
        return [round(g, 4) for g in x.grad.tolist()]

    for program in differing, more, twice, written:
        assert checkpoint_shows_same(program)[0] == "RuntimeError"
    assert isinstance(checkpoint_shows_same(functools.partial(written, allow_cache_entry_mutation=True)), list)


# --- groups, debugging, devices -------------------------------------------------------------


def test_groups():
    def program(t, ck):
        seen = []

        def function(x):
            seen.append("run")
            return x.sin().cos(), x.exp().sin()

        x = t.ones(2, requires_grad=True)
        a, b = ck.checkpoint(function, x, use_reentrant=False, early_stop=False)
        with ck.GraphExecGroup() as group:
            assert ck.GraphExecGroup._get_current_group() is group
            a.sum().backward(retain_graph=True)
            b.sum().backward(retain_graph=True)
            try:
                a.sum().backward()
            except ck.CheckpointError as e:
                seen.append(str(e))
            try:
                ck.GraphExecGroup().__enter__()
            except RuntimeError as e:
                seen.append(re.sub("<.*>", "", str(e)))
        return seen, [round(g, 4) for g in x.grad.tolist()], ck.GraphExecGroup._get_current_group()

    checkpoint_shows_same(program)


def test_debug_shows_the_ops_of_both_runs():
    def program(t, ck, setting=None, debug=True):
        calls = []

        def function(x):
            calls.append(0)
            return x.sin().exp() if len(calls) == 1 else x.sin().sum().exp().cos()

        x = t.ones(2, requires_grad=True)
        with ck.set_checkpoint_debug_enabled(setting):
            y = ck.checkpoint(function, x, use_reentrant=False, early_stop=False, debug=debug)
        with pytest.raises(ck.CheckpointError) as error:
            y.sum().backward()
        text = str(error.value)
        cause = error.value.__cause__
        return (
            [w in text for w in ("aten.sin", "aten.sum", "aten.exp", __file__, "non-determinism")],
            "in original" in text, "in recompute" in text, type(cause).__name__,
        )

    assert all(checkpoint_shows_same(program)[0])
    checkpoint_shows_same(functools.partial(program, setting=False))
    assert all(checkpoint_shows_same(functools.partial(program, setting=True, debug=False))[0])


def test_debug_excludes_contexts():
    def program(t, ck):
        keep = functools.partial(ck.create_selective_checkpoint_contexts, [])
        x = t.ones(2, requires_grad=True)
        ck.checkpoint(t.sin, x, use_reentrant=False, debug=True, context_fn=keep)

    assert checkpoint_shows_same(program)[0] == "ValueError"


def test_default_device_type():
    def program(t, ck):
        kind = ck.DefaultDeviceType
        seen = [kind.get_device_type()]
        kind.set_device_type("meta")
        seen.append(kind.get_device_type())
        kind.set_device_type()
        seen.append(kind.get_device_type())
        kind._default_device_type = None
        return seen

    checkpoint_shows_same(program)
