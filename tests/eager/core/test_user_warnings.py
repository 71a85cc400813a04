"""Warnings that are given once in a process: what they say, and that they are given once."""

import re
import warnings

import pytest

import ftorch
from tests.oracle import LIBRARIES


def texts(t, program):
    """The different texts of a program's warnings, where they are given each time."""
    t.set_warn_always(True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            program(t)
        finally:
            t.set_warn_always(False)
    return {re.sub(r"\(Triggered internally.*", "", str(w.message)).strip() for w in seen}


@pytest.mark.parametrize("program", [
    lambda t: t.cholesky(2 * t.eye(3)), lambda t: t.qr(t.eye(5)), lambda t: t.lu(t.eye(5)),
    lambda t: t.triangular_solve(t.ones(5, 1), t.eye(5)), lambda t: t.chain_matmul(t.eye(5), t.eye(5)),
    lambda t: t.cross(t.ones(5, 3), t.ones(5, 3)), lambda t: t.nuclear_norm(t.eye(5)),
    lambda t: t.eye(5).to_sparse_csr(), lambda t: t.eye(5).to_sparse_csc(), lambda t: t.eye(4).to_sparse_bsr((2, 2)),
    lambda t: t.sparse_coo_tensor([[0]], [1.0], (2,)), lambda t: t.stft(t.ones(9), 4, return_complex=True),
    lambda t: t.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=False),
    lambda t: t.ones(5).index_reduce(0, t.tensor([4, 2]), t.ones(2), "prod"),
    lambda t: t.nested.nested_tensor([t.ones(2), t.ones(3)]), lambda t: t.nested.as_nested_tensor([t.ones(2), t.ones(3)]),
    lambda t: t.nested.as_nested_tensor(t.ones(2, 3)), lambda t: t.nested.nested_tensor([t.ones(2)], layout=t.jagged),
    lambda t: t.nested.narrow(t.ones(3, 2), 0, 0, 2),
    lambda t: float(t.ones(1, requires_grad=True)), lambda t: complex(t.ones(1, requires_grad=True) * 2),
    lambda t: int(t.ones(1, requires_grad=True)), lambda t: float(t.ones(1, requires_grad=True).detach()),
    lambda t: t.ones((), requires_grad=True).item(),
    lambda t: t.ones(5, dtype=t.complex64).to(t.float64), lambda t: t.ones(5, dtype=t.complex64).to(t.bool),
    lambda t: t.ones(5).copy_(t.ones(5, dtype=t.complex128)),
])
def test_what_is_old_or_unfinished_says_so(program):
    ours, theirs = (texts(t, program) for t in LIBRARIES)
    assert ours == theirs


def test_once_is_once():
    def program():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            ftorch.chain_matmul(ftorch.eye(2), ftorch.eye(2))
        return len(seen)

    program()
    assert program() == 0 and not ftorch.is_warn_always_enabled()


@pytest.mark.parametrize("statement", [
    "x[u]", "x[u]\nx[u]", "x[[[0, 1], [0, 1]]]", "x.new_tensor(x)", "torch.asarray(torch.ones(2, requires_grad=True))",
    "(torch.ones(2, requires_grad=True) * 2).grad", "torch.ones(2, 2, 2).T", "x.resize(9)", "x.resize_as(x)",
    "torch.nn.functional.dropout2d(torch.ones(2, 3, 4), training=False)", "torch.nn.functional.dropout3d(x, training=False)",
    "torch.nn.functional.upsample(torch.ones(1, 1, 3), 5)", "torch.nn.functional.gumbel_softmax(x, eps=1e-9)",
    "torch.nn.functional.embedding_bag(x, torch.tensor([0]), torch.tensor([0]))", "torch.cholesky(torch.eye(11))",
    "torch.qr(torch.eye(11))", "torch.triangular_solve(torch.eye(11), torch.eye(11))", "torch.eye(3).to_sparse_csr()",
    "torch.cross(torch.ones(11, 3), torch.ones(11, 3))", "torch.where(u.reshape(3, 1), torch.ones(3, 11), torch.ones(11))",
    "torch.nn.functional.conv1d(torch.ones(11, 1, 4), torch.ones(1, 1, 2), padding='same')",
    "torch.nn.functional.conv2d(torch.ones(11, 1, 4, 4), torch.ones(1, 1, 3, 2), padding='same')",
    "torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(2, requires_grad=True)], 0.1), 1).step(1)",
])
def test_a_warning_names_the_line_of_the_user(statement):
    def places(t):
        names = {"torch": t, "x": t.arange(9.0).reshape(3, 3), "u": t.tensor([1, 0, 1], dtype=t.uint8)}
        t.set_warn_always(True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                exec(compile(statement, "the user's", "exec"), names)
            finally:
                t.set_warn_always(False)
        return {(w.category.__name__, str(w.message)[:60], w.filename, w.lineno) for w in seen}

    ours, theirs = (places(t) for t in LIBRARIES)
    assert ours == theirs and theirs
