"""Signatures from before ``alpha``, ``beta`` and ``value`` were keywords, which older optimizers call."""

import subprocess
import sys
import warnings

import pytest

import ftorch

torch = pytest.importorskip("torch")


def v(library):
    return library.arange(3.0) + 1


def m(library):
    return library.arange(9.0).reshape(3, 3)


def b(library):
    return library.ones(2, 3, 3)


CALLS = {
    "add": lambda t: v(t).add(2, v(t)),
    "add_": lambda t: v(t).add_(-0.5, v(t)),
    "torch.add": lambda t: t.add(v(t), 2, v(t)),
    "torch.add of a number": lambda t: t.add(v(t), 2, 3),
    "torch.add out": lambda t: t.add(v(t), 2, v(t), out=t.empty(3)),
    "add of a 0-d tensor": lambda t: v(t).add(t.tensor(2.0), v(t)),
    "sub": lambda t: v(t).sub(2, v(t)),
    "sub_": lambda t: v(t).sub_(2, v(t)),
    "addcmul_": lambda t: v(t).addcmul_(2, v(t), v(t)),
    "torch.addcmul": lambda t: t.addcmul(v(t), 2, v(t), v(t)),
    "addcdiv_": lambda t: v(t).addcdiv_(2, v(t), v(t)),
    "torch.addcdiv out": lambda t: t.addcdiv(v(t), 2, v(t), v(t), out=t.empty(3)),
    "addmm": lambda t: m(t).addmm(2, 3, m(t), m(t)),
    "addmm_": lambda t: m(t).addmm_(2, m(t), m(t)),
    "torch.addmm": lambda t: t.addmm(2, m(t), 3, m(t), m(t)),
    "torch.addmm of beta": lambda t: t.addmm(2, m(t), m(t), m(t)),
    "addmv_": lambda t: v(t).addmv_(2, 3, m(t), v(t)),
    "torch.addmv": lambda t: t.addmv(2, v(t), m(t), v(t)),
    "addr": lambda t: m(t).addr(2, 3, v(t), v(t)),
    "torch.addr": lambda t: t.addr(2, m(t), v(t), v(t)),
    "baddbmm_": lambda t: b(t).baddbmm_(2, b(t), b(t)),
    "torch.baddbmm": lambda t: t.baddbmm(2, b(t), 3, b(t), b(t)),
    "torch.addbmm": lambda t: t.addbmm(2, m(t), 3, b(t), b(t)),
    # What no older signature fits either.
    "two tensors": lambda t: v(t).add(v(t), 2),
    "a vector for the number": lambda t: v(t).add(v(t), v(t)),
    "too many": lambda t: v(t).add(2, v(t), v(t)),
    "subtract": lambda t: v(t).subtract(2, v(t)),
}


@pytest.mark.parametrize("name", CALLS)
def test_older_signatures(name):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in (torch, ftorch):
            try:
                found.append(CALLS[name](library).tolist())
            except TypeError as error:
                found.append(str(error).partition("\n")[0])
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
def test_gradients_and_traces_of_older_signatures():
    x = v(ftorch).requires_grad_()
    ftorch.add(x, 2, x * x).sum().backward()
    assert x.grad.tolist() == [5.0, 9.0, 13.0]
    assert ftorch.jit.trace(lambda x: x.add(2, x).relu(), (v(ftorch),))(v(ftorch)).tolist() == [3.0, 6.0, 9.0]


@pytest.mark.parametrize("call", ["x.add(2, x)", "x.addcmul_(2, x, x)", "torch.addmv(2, x, x.diag(), x)"])
def test_the_first_call_warns(call):
    program = (
        "import warnings, {} as torch\nx = torch.ones(3)\nwith warnings.catch_warnings(record=True) as w:\n"
        f"    warnings.simplefilter('always')\n    {call}\n    {call}\n"
        "print(len(w), w[0].category, w[0].filename, w[0].lineno, str(w[0].message).partition(' (Triggered')[0])"
    )
    said = [
        subprocess.run([sys.executable, "-c", program.format(name)], capture_output=True, text=True, check=True).stdout
        for name in ("torch", "ftorch")
    ]
    assert said[0] == said[1]
