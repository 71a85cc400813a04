"""`Tensor.as_subclass` is a view: gradients flow through it to the tensor that it was made of, and writes are seen by both."""

import pytest
import torch as reference

import ftorch

PROGRAMS = {
    "a leaf's gradient": "x.as_subclass(S).mul(3).sum().backward(); x.grad",
    "back to a tensor": "y = p.as_subclass(S).requires_grad_(); y.as_subclass(t.Tensor).mul(3).sum().backward(); y.grad",
    "of a parameter": "w = t.nn.Parameter(t.ones(2)); w.as_subclass(t.Tensor).mul(3).sum().backward(); w.grad",
    "place in the graph": "y = x.as_subclass(S); [type(y.grad_fn).__name__, y.is_leaf, y._is_view(), y._base is x]",
    "results of calls": "y = p.as_subclass(S).requires_grad_() * 2; [type(y).__name__, type(y.grad_fn).__name__, y._is_view()]",
    "without gradients": "y = p.as_subclass(S); y.add_(1); [p, y._is_view(), y.requires_grad, p._version, y._version]",
    "written in place": "y = x * 2; z = y.as_subclass(S); z.mul_(3); y.sum().backward(); [x.grad, type(y.grad_fn).__name__]",
    "base written": "y = x * 2; z = y.as_subclass(S); y.mul_(3); z.sum().backward(); x.grad",
    "a leaf written": "x.as_subclass(S).add_(1)",
    "functional": "t.func.grad(lambda v: v.as_subclass(S).mul(3).sum())(p)",
    "copies": "import copy; y = p.as_subclass(t.nn.Parameter); [copy.copy(y)._is_view(), copy.deepcopy(y)._is_view()]",
}


def _told(library, program):
    scope = {"t": library, "S": type("S", (library.Tensor,), {}), "p": library.tensor([1.0, 2.0])}
    scope["x"] = library.tensor([3.0, 4.0], requires_grad=True)
    *steps, result = program.split("; ")
    try:
        for step in steps:
            exec(step, scope)
        result = eval(result, scope)
    except RuntimeError as error:
        return str(error)
    return [item.tolist() if isinstance(item, library.Tensor) else item for item in
            (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_views(program):
    assert _told(ftorch, program) == _told(reference, program)
