"""Version counters: which tensors share one, and what backward refuses since it counts."""

import pytest

from tests.oracle import both, both_with_text


def _raised(run):
    try:
        return run()
    except RuntimeError as error:
        return str(error).partition("[")[0]


def _values(*tensors):
    return [t.detach().tolist() for t in tensors]


def _moved_parameter(m, change):
    """A parameter that gets other memory after, or before, it was saved for backward."""
    p, q = m.nn.Parameter(m.ones(3)), m.zeros(3).add_(1).add_(1)
    before = (p**2).sum()
    p.data = q
    after = (p**3).sum()
    with m.no_grad():
        change(p, q)
    return p._version, q._version, *[
        _raised(lambda loss=loss: _values(*m.autograd.grad(loss, [p]))) for loss in (before, after)
    ]


def _flat(m):
    """Parameters that are parts of one vector count for themselves."""
    vector = m.arange(6.0)
    parts = [m.nn.Parameter(m.ones(3)), m.nn.Parameter(m.ones(3))]
    m.nn.utils.vector_to_parameters(vector, parts)
    loss = (parts[0] ** 2).sum() + (parts[1] ** 3).sum()
    with m.no_grad():
        parts[0].add_(1)
    return _values(*m.autograd.grad(loss, [parts[1]])), [p._version for p in parts], vector._version


def _optimizer(m, of, **options):
    """An optimizer's step is a write to parameters whose data was replaced, which backward refuses."""
    model = m.nn.Linear(2, 1).to(m.float64)
    loss = (model(m.ones(1, 2, dtype=m.float64)) * model.weight).sum()
    for p in model.parameters():
        p.grad = m.ones_like(p)
    of(m)(model.parameters(), lr=0.1, **options).step()
    return [p._version for p in model.parameters()], _raised(loss.backward)


def _in_backward(m):
    """Steps within backward, on parameters that lie in one vector."""
    vector = m.linspace(-1, 1, 6)
    weights = [m.nn.Parameter(m.ones(3)) for _ in range(2)]
    m.nn.utils.vector_to_parameters(vector, weights)
    for p in weights:
        def step(p):
            with m.no_grad():
                p.sub_(p.grad, alpha=0.5)

        p.register_post_accumulate_grad_hook(step)
    ((m.ones(3) * weights[0]).exp() * weights[1]).sum().backward()
    return _values(*weights, vector)


def _detached(m, after):
    x = m.arange(1.0, 4.0).requires_grad_()
    y = x.exp()
    z = y * y
    y.detach_()
    after(y)
    return _raised(lambda: _values(*m.autograd.grad(z.sum(), [x])))


PROGRAMS = {
    "data as it was": lambda m: _moved_parameter(m, lambda p, q: None),
    "data, then a write": lambda m: _moved_parameter(m, lambda p, q: p.add_(1)),
    "data, then a write to what it was set to": lambda m: _moved_parameter(m, lambda p, q: q.add_(1)),
    "data, then a write to a view": lambda m: _moved_parameter(m, lambda p, q: p[:2].mul_(2)),
    "data, then a write to a view's data": lambda m: _moved_parameter(m, lambda p, q: p[:2].data.mul_(2)),
    "data, then a write to a detached one": lambda m: _moved_parameter(m, lambda p, q: p.detach().mul_(2)),
    "data twice": lambda m: _moved_parameter(m, lambda p, q: setattr(p, "data", p.data.clone())),
    "data and an item": lambda m: _moved_parameter(m, lambda p, q: p.__setitem__(1, 5.0)),
    "data and many": lambda m: _moved_parameter(m, lambda p, q: m._foreach_mul_([p], 2.0)),
    "data and random": lambda m: _moved_parameter(m, lambda p, q: p.uniform_(1, 1)),
    "flat parameters": _flat,
    "sgd": lambda m: _optimizer(m, lambda m: m.optim.SGD),
    "adam": lambda m: _optimizer(m, lambda m: m.optim.Adam),
    "adam by loops": lambda m: _optimizer(m, lambda m: m.optim.Adam, foreach=False),
    "optimizer in backward": _in_backward,
    "detached in place": lambda m: _detached(m, lambda y: None),
    "detached, a leaf again": lambda m: _detached(m, lambda y: y.requires_grad_()),
    "detached and written to": lambda m: _detached(m, lambda y: y.zero_()),
    "detached result": lambda m: _raised(lambda: _detached_result(m)),
    "data of an operand": lambda m: _data_of_operand(m, lambda x, d: x.add_(1)),
    "data of an operand is written to": lambda m: _data_of_operand(m, lambda x, d: d.add_(1)),
    "exchanged": lambda m: _exchanged(m),
    "set": lambda m: _set(m),
    "copied": lambda m: _copied(m),
    "parameter of data": lambda m: _parameter_of_data(m),
    "views of the same": lambda m: _views(m),
    "increment": lambda m: _incremented(m),
    "batch norm": lambda m: _running_statistics(m, lambda: m.nn.BatchNorm1d(3), m.arange(12.0).view(4, 3)),
    "instance norm": lambda m: _running_statistics(
        m, lambda: m.nn.InstanceNorm1d(3, track_running_stats=True), m.arange(12.0).view(1, 3, 4)),
}


def _detached_result(m):
    x = m.arange(1.0, 4.0).requires_grad_()
    y = x.exp()
    z = y * 2
    y.detach_()
    return _values(*m.autograd.grad(z.sum(), [x]))


def _data_of_operand(m, change):
    w, x = m.ones(3, requires_grad=True), m.ones(3)
    data = x.data
    loss = (w * data).sum()
    change(x, data)
    return x._version, data._version, _raised(lambda: _values(*m.autograd.grad(loss, [w])))


def _exchanged(m):
    a, b = m.nn.Parameter(m.ones(3)), m.nn.Parameter(m.zeros(3))
    loss = (a * b).sum()
    a.data, b.data = b.data, a.data
    same = _values(*m.autograd.grad(loss, [a, b], retain_graph=True))
    with m.no_grad():
        a.add_(1)
    return same, a._version, b._version, _raised(lambda: m.autograd.grad(loss, [b]))


def _set(m):
    p, q, w = m.ones(3), m.zeros(3).add_(1), m.ones(3, requires_grad=True)
    p.set_(q)
    loss = (p * w).sum()
    q.add_(1)
    return p._version, q._version, _values(*m.autograd.grad(loss, [w]))


def _copied(m):
    import copy

    p = m.ones(3).add_(1)
    return [t._version for t in (p, copy.copy(p), copy.deepcopy(p), p.detach(), p.data, p[:2], p.view(3).data)]


def _parameter_of_data(m):
    p = m.nn.Parameter(m.ones(3))
    loss = (p**2).sum()
    q = m.nn.Parameter(p.data)
    with m.no_grad():
        q.add_(1)
    return p._version, q._version, _values(*m.autograd.grad(loss, [p]))


def _views(m):
    base = m.zeros(4)
    base.data = m.arange(4.0)
    part, other = base[:2], base[2:]
    part.add_(1), other.data.add_(1), base.detach().add_(1)
    return [t._version for t in (base, part, other)], _values(base)


def _incremented(m):
    p = m.zeros(4)
    p.data = m.arange(4.0)
    m.autograd.graph.increment_version([p, p[:2]])
    with m.autograd._unsafe_preserve_version_counter(p):
        p.add_(1)
    return p._version


def _running_statistics(m, of, x):
    """A call in evaluation mode, backward of which follows a call in training."""
    layer, x = of().eval(), x.sqrt().requires_grad_()
    loss = (layer(x) ** 2).sum()
    layer.train()(x.detach() * 3)
    versions = layer.running_mean._version, layer.running_var._version, layer.num_batches_tracked._version
    return versions, _values(*m.autograd.grad(loss, [x]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_version_counters(name):
    """Versions, gradients and refusals are PyTorch's."""
    both(PROGRAMS[name])


def test_refusals_in_full():
    """The texts of errors that name versions."""
    def modified(m):
        p = m.nn.Parameter(m.ones(3))
        p.data = m.zeros(3)
        loss = (p**2).sum()
        with m.no_grad():
            p.add_(1)
        loss.backward()

    def detached(m):
        x = m.ones(3, requires_grad=True)
        y = x * 2
        z = y * y
        y.detach_()
        z.sum().backward()

    both_with_text(modified)
    both_with_text(detached)


def test_views_of_replaced_data_in_graphs():
    """A view of a tensor whose data was replaced follows writes to it."""
    def program(m):
        x = m.arange(1.0, 4.0).requires_grad_()
        y = x * 1
        y.data = m.full((3,), 2.0)
        part = y[:2]
        y.mul_(x)
        (part * 3).sum().backward()
        return part.grad_fn.name(), x.grad.tolist()

    both(program)


def test_copies_in_inference_mode():
    """What ``deepcopy`` makes is an inference tensor where it is made, whatever it is copied from."""
    def program(m):
        import copy

        with m.inference_mode():
            tensor = m.ones(3)
            inside = copy.deepcopy(tensor)
        return inside.is_inference(), copy.deepcopy(tensor).is_inference()

    both(program)
