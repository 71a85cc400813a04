"""Nested tensors against PyTorch's, component by component."""

from __future__ import annotations

import io
import re
import warnings

import pytest
import torch as pt
from torch._dynamo.decorators import _DimRange
from torch.nested._internal.nested_tensor import NestedTensor, _rebuild_njt

import ftorch as ft

from ..oracle import assert_same, outcome

LAYOUTS = ["strided", "jagged"]


def parts(t):
    return [t.arange(6.0).reshape(2, 3), t.arange(9.0).reshape(3, 3) - 4]


def nested(t, layout, **options):
    return t.nested.nested_tensor(parts(t), layout=getattr(t, layout), **options)


def run(program, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = program(pt, *args)
    assert_same(program(ft, *args), theirs)


COMPUTED = {
    "unbind": lambda t, n: n.unbind(),
    "index": lambda t, n: n[0],
    "padded": lambda t, n: t.nested.to_padded_tensor(n, 0.5),
    "values of padded": lambda t, n: n.to_padded_tensor(9.0, (2, 3, 3)),
    "padded to": lambda t, n: n.to_padded_tensor(-1.0, (2, 4, 3)),
    "values": lambda t, n: n.values(),
    "sizes": lambda t, n: [n.size(0), n.size(2), n.dim(), n.numel(), n.is_nested, str(n.layout)],
    "number": lambda t, n: (n * 2 + 1) / 3,
    "both": lambda t, n: n + n * n,
    "relu": lambda t, n: t.relu(n),
    "sin": lambda t, n: n.sin(),
    "gelu": lambda t, n: t.nn.functional.gelu(n),
    "neg": lambda t, n: -n,
    "softmax": lambda t, n: t.softmax(n, -1),
    "linear": lambda t, n: t.nn.functional.linear(n, t.ones(2, 3), t.ones(2)),
    "layer norm": lambda t, n: t.nn.functional.layer_norm(n, (3,), t.ones(3), t.zeros(3)),
    "dropout": lambda t, n: t.nn.functional.dropout(n, 0.0),
    "double": lambda t, n: n.double(),
    "clone": lambda t, n: n.clone(),
    "zeros_like": lambda t, n: t.zeros_like(n),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name, layout):
    run(lambda t: COMPUTED[name](t, nested(t, layout)))


JAGGED = {
    "offsets": lambda t, n: n.offsets(),
    "sum": lambda t, n: n.sum(),
    "sum of rows": lambda t, n: n.sum(-1),
    "sum of components": lambda t, n: n.sum(1),
    "mean": lambda t, n: n.mean(-1),
    "matmul": lambda t, n: n @ t.arange(6.0).reshape(3, 2),
    "compare": lambda t, n: n > 1,
    "cat": lambda t, n: t.cat([n, n], -1),
    "cut": lambda t, n: n.to_padded_tensor(0.0, (2, 2, 3)),
    "length": lambda t, n: len(n),
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged(name):
    run(lambda t: JAGGED[name](t, nested(t, "jagged")))


def test_strided_of_any_sizes():
    def program(t):
        n = t.nested.nested_tensor([t.ones(2, 1), t.ones(1, 3)])
        return n, n.to_padded_tensor(0.0), n.transpose(1, 2), t.cat([n, n])

    run(program)


def test_from_jagged():
    def program(t):
        values, offsets = t.arange(10.0).reshape(5, 2), t.tensor([0, 2, 5])
        n = t.nested.nested_tensor_from_jagged(values, offsets)
        m = t.nested.nested_tensor_from_jagged(values, lengths=t.tensor([2, 3]))
        return n, m, m.offsets(), t.nested.as_nested_tensor(t.ones(2, 2, 3), layout=t.jagged)

    run(program)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_a_batch(layout):
    def program(t):
        x = t.arange(12.0).reshape(2, 6)
        if layout == "strided":
            return t.nested.narrow(x, 0, 1, 1, layout=t.strided).unbind()
        return t.nested.narrow(x, 1, t.tensor([0, 1]), t.tensor([2, 3]), layout=t.jagged).unbind()

    run(program)


def test_masked_select():
    run(lambda t: t.nested.masked_select(t.arange(6.0).reshape(2, 3), t.arange(6).reshape(2, 3) > 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_printed(layout):
    def text(t, requires_grad):
        return re.sub(r"j\d+", "j", repr(nested(t, layout, requires_grad=requires_grad)))

    assert text(ft, False) == text(pt, False)
    assert text(ft, True) == text(pt, True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_components(layout):
    def program(t):
        x = [p.requires_grad_() for p in parts(t)]
        n = t.nested.as_nested_tensor(x, layout=getattr(t, layout))
        (n * n).to_padded_tensor(0.0).sum().backward()
        return [p.grad for p in x]

    run(program)


def test_gradients_of_a_layer():
    def program(t):
        layer = t.nn.Linear(3, 2)
        with t.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(-1.0)
        n = nested(t, "jagged", requires_grad=True)
        t.softmax(layer(n), -1).to_padded_tensor(0.0)[..., 0].pow(2).sum().backward()
        return layer.weight.grad, layer.bias.grad, n.grad

    run(program)


REFUSED = {
    "dimensions": lambda t, layout: t.nested.nested_tensor(
        [t.ones(2, 3), t.ones(2)], layout=getattr(t, layout)
    ),
    "unbind": lambda t, layout: nested(t, layout).unbind(1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, layout):
    mine, theirs = (outcome(REFUSED[name], t, layout)[1] for t in (ft, pt))
    assert theirs is not None and type(mine) is type(theirs), (mine, theirs)


def test_strided_padding_does_not_cut():
    mine, theirs = (
        outcome(lambda t=t: nested(t, "strided").to_padded_tensor(0.0, (2, 1, 3)))[1] for t in (ft, pt)
    )
    assert type(mine) is type(theirs) and str(mine) == str(theirs)


def test_other_structures_do_not_add():
    n, m = nested(ft, "jagged"), nested(ft, "jagged")
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        n + m
    with pytest.raises(RuntimeError, match="doesn't support sizes"):
        nested(ft, "strided").size()
    with pytest.raises(RuntimeError, match="irregular"):
        nested(ft, "strided").size(1)


def test_sizes_of_components():
    run(lambda t: [f(nested(t, "strided")) for f in (
        lambda n: n._nested_tensor_size(), lambda n: n._nested_tensor_strides())])


def test_dimensions_of_transpose_are_checked():
    def program(t):
        nt = t.nested.nested_tensor([t.ones(2, 3), t.ones(1, 2)])
        for pair in ((1, 3), (-4, -1)):
            try:
                nt.transpose(*pair)
            except IndexError as error:
                yield str(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(program(ft))
        assert found == list(program(pt))
        assert len(found) == 2


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", ["strided", "jagged"])
@pytest.mark.parametrize("reader, writer", [(ft, pt), (pt, ft)], ids=["of PyTorch's", "for PyTorch"])
def test_files_go_both_ways(reader, writer, layout, weights_only):
    nested = writer.nested.nested_tensor([writer.ones(2), writer.arange(3.0)], layout=getattr(writer, layout))
    file = io.BytesIO()
    writer.save(nested, file)
    file.seek(0)
    # PyTorch adds these as it is imported; what clears its list of safe classes clears them, too.
    known = [NestedTensor, _rebuild_njt, _DimRange]
    with pt.serialization.safe_globals(known):
        read = reader.load(file, weights_only=weights_only)
    assert read.layout is getattr(reader, layout)
    assert [x.tolist() for x in read.unbind()] == [[1.0, 1.0], [0.0, 1.0, 2.0]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_f_strings(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = nested(ft, layout), nested(pt, layout)
    assert re.sub(r"j\d+", "j", f"{found}") == re.sub(r"j\d+", "j", f"{expected}")
    for n in (found, expected):
        with pytest.raises(TypeError, match="unsupported format string"):
            f"{n:>9}"
