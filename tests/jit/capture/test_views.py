"""``torch.compile``: results that are views of arguments share their memory and their graph, its nodes' names too."""

import pytest
import torch as reference

import ftorch

VIEWS = {
    "slice": lambda z: (z[1:], z * 2),
    "only": lambda z: (z[1:],),
    "transposed": lambda z: (z.t()[1:], z.abs()),
    "diagonal": lambda z: (z.diagonal(), z.sum()),
    "expanded": lambda z: (z[None].expand(2, *z.shape), z[0, 0] * z),
    "pieces": lambda z: z.unbind(0),
    "detached": lambda z: (z.detach()[1:], z.sum()),
}


def _observed(library, function, make, calls=3):
    """What calls of a function give, how its results lie in memory, and what is in the argument afterwards."""
    compiled = function if library is reference else library.compile(function)
    seen = []
    for i in range(calls):
        base, z = make(library)
        results = compiled(z)
        for r in results:
            seen.append((tuple(r.shape), r.stride(), r.storage_offset(), r._is_view(), r.requires_grad))
        if base.requires_grad:
            sum((r * (i + 1)).sum() for r in results if r.requires_grad).backward()
            seen.append(base.grad.tolist())
        else:
            results[0].fill_(-1)
            seen.append(base.tolist())
    return seen


def _leaf(lib):
    base = lib.arange(12.0).reshape(3, 4).clone().requires_grad_()
    return base, base


def _product(lib):
    base = lib.arange(12.0).reshape(3, 4).clone().requires_grad_()
    return base, base * 2


def _part_of_graph(lib):
    base = lib.arange(30.0).reshape(5, 6).clone().requires_grad_()
    return base, base[1:4, 2:]


@pytest.mark.parametrize("make", (_leaf, _product, _part_of_graph))
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_an_argument_with_a_graph(name, make):
    assert _observed(ftorch, VIEWS[name], make) == _observed(reference, VIEWS[name], make)


PARTS = {
    "rows": lambda b: b[1:4],
    "columns": lambda b: b[:, 2:5],
    "both": lambda b: b[1:4, 2:5],
    "every other": lambda b: b[::2, ::2],
    "transposed": lambda b: b[1:4, 2:5].t(),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", ("slice", "only", "transposed", "diagonal", "pieces"))
def test_views_of_an_argument_that_is_part_of_another_tensor(name, part):
    def make(lib):
        base = lib.arange(30.0).reshape(5, 6).clone()
        return base, PARTS[part](base)

    assert _observed(ftorch, VIEWS[name], make) == _observed(reference, VIEWS[name], make)


def test_views_of_a_part_from_a_function_that_runs_in_python():
    def make(lib):
        base = lib.arange(30.0).reshape(5, 6).clone()
        return base, base[1:4, 2:5]

    def function(z):
        return (z[1:], z * z.sum().item())

    assert _observed(ftorch, function, make) == _observed(reference, function, make)


MADE_BY_VIEWS = {
    **{name: VIEWS[name] for name in ("slice", "only", "transposed", "diagonal", "expanded")},
    "several": lambda z: (z.t()[:2].unsqueeze(0), z * 2),
    "reshaped": lambda z: (z.view(-1)[1:], z * 2),
    "strided": lambda z: (z.as_strided((2, 2), (2, 1), 1), z * 2),
    "selected": lambda z: (z[1], z[:, 1].expand(2, -1), z * 2),
    "permuted": lambda z: (z.permute(1, 0).squeeze(), z.movedim(0, 1), z.narrow(0, 1, 1), z * 2),
}


def _nodes(library, function, make):
    """The names of the nodes between the results that are views of the argument and the argument, in each call."""
    compiled = function if library is reference else library.compile(function)
    seen = []
    for _ in range(3):
        _, z = make(library)
        names = []
        for r in compiled(z):
            node = r.grad_fn
            while r._is_view() and node is not None and "Accumulate" not in node.name():
                names.append(node.name())
                node = node.next_functions[0][0]
        seen.append(names)
    return seen


@pytest.mark.parametrize("make", (_leaf, _product))
@pytest.mark.parametrize("name", MADE_BY_VIEWS)
def test_nodes_of_views_have_the_names_of_their_calls(name, make):
    assert _nodes(ftorch, MADE_BY_VIEWS[name], make) == _nodes(reference, MADE_BY_VIEWS[name], make)
