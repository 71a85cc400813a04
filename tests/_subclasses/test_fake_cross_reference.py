"""`CrossRefFakeMode`: what operators give on fake tensors is what they give."""

import pytest

import ftorch as torch


def test_results_agree():
    with torch._subclasses.CrossRefFakeMode():
        a = torch.randn(4, 3, requires_grad=True)
        b = a.t().contiguous().view(12).relu()
        b.sum().backward()
        c = torch.zeros(3).add_(1)
        assert a.grad is not None
        assert c.nonzero().shape == (3, 1)


def test_a_wrong_answer_is_found():
    library = torch.library.Library("crossref", "DEF")
    library.define("rows(Tensor x) -> Tensor")
    library.impl("rows", lambda x: x.new_zeros(x.shape[0]), "CPU")
    library.impl("rows", lambda x: x.new_zeros(x.shape[1]), "Meta")
    try:
        with torch._subclasses.CrossRefFakeMode(), pytest.raises(AssertionError, match="size is"):
            torch.ops.crossref.rows(torch.ones(2, 3))
        with torch._subclasses.CrossRefFakeMode(lambda op: True):
            assert torch.ops.crossref.rows(torch.ones(2, 3)).shape == (2,)
    finally:
        library._destroy()
