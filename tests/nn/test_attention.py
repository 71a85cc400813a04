"""``torch.nn.attention`` against PyTorch."""

import importlib
import warnings

import numpy as np
import pytest
import torch as reference

import ftorch as torch

PACKAGES = (torch, reference)


def attention(package, name=""):
    return importlib.import_module(f"{package.__name__}.nn.attention{name}")


def flex(package):
    module = attention(package, ".flex_attention")
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    return module


def inputs(package, *shapes, dtype="float32"):
    package.manual_seed(0)
    dtype = getattr(package, dtype)
    return [package.randn(shape, dtype=dtype) for shape in shapes]


def agree(function, tolerance=1e-5):
    """Flat lists of tensors and values are the same in both libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (function(package) for package in PACKAGES)
    assert len(ours) == len(theirs)
    for a, e in zip(ours, theirs):
        if isinstance(e, reference.Tensor):
            assert str(a.dtype) == str(e.dtype) and tuple(a.shape) == tuple(e.shape)
            a, e = (t.detach().double().numpy() for t in (a, e))
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
        else:
            assert a == e
    return theirs


def relative(package):
    return lambda score, b, h, i, j: score + 0.1 * (i - j) * (h + 1)


def soft_cap(package):
    return lambda score, b, h, i, j: 2 * package.tanh(score / 2)


def causal(b, h, i, j):
    return i >= j


MODS = {"none": lambda package: None, "relative": relative, "soft cap": soft_cap}


@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shapes", [
    ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 6)), ((1, 4, 3, 4), (1, 2, 6, 4), (1, 2, 6, 4)),
], ids=str)
def test_flex_attention(mod, masked, shapes):
    def run(package):
        module = flex(package)
        q, k, v = inputs(package, *shapes)
        mask = None
        if masked:
            mask = module.create_block_mask(
                causal, None, None, q.shape[-2], k.shape[-2], device="cpu", BLOCK_SIZE=2
            )
        out, aux = module.flex_attention(
            q, k, v, MODS[mod](package), mask, enable_gqa=q.shape[1] != k.shape[1],
            return_aux=module.AuxRequest(lse=True),
        )
        return [out, aux.lse]

    agree(run)


def test_gradients_and_largest_scores():
    """PyTorch has neither on the CPU: its own softmax of the whole matrix is the oracle."""

    def run(package):
        q, k, v, bias = inputs(package, (1, 2, 4, 4), (1, 2, 5, 4), (1, 2, 5, 3), (2, 4, 5))
        parts = [t.requires_grad_() for t in (q, k, v, bias)]
        if package is torch:
            module = flex(package)
            out, (lse, largest) = module.flex_attention(
                q, k, v, lambda score, b, h, i, j: score + bias[h, i, j], scale=0.3,
                return_aux=module.AuxRequest(lse=True, max_scores=True),
            )
        else:
            scores = q @ k.mT * 0.3 + bias
            out, lse, largest = scores.softmax(-1) @ v, scores.logsumexp(-1), scores.amax(-1)
        out.square().sum().backward()
        return [out, lse, largest, *(t.grad for t in parts)]

    agree(run)


def test_rows_without_keys_are_zero():
    def run(package):
        module = flex(package)
        q, k = inputs(package, (1, 1, 4, 4), (1, 1, 2, 4))
        mask = module.create_block_mask(
            lambda b, h, i, j: i <= j, None, None, 4, 2, device="cpu", BLOCK_SIZE=2
        )
        return [module.flex_attention(q, k, k, None, mask)]

    expected = agree(run)
    assert not expected[0][0, 0, 2:].any()


@pytest.mark.parametrize("size", [(8, 8), (9, 5), (4, 12)], ids=str)
@pytest.mark.parametrize("block", [2, (4, 2)], ids=str)
@pytest.mark.parametrize("full", [True, False])
def test_block_masks(size, block, full):
    def run(package):
        mask = flex(package).create_block_mask(
            lambda b, h, i, j: i >= j + h, 2, 2, *size, device="cpu", BLOCK_SIZE=block,
            separate_full_blocks=full,
        )
        names = ["kv_num_blocks", "kv_indices", "q_num_blocks", "q_indices"]
        if full:
            names += ["full_" + name for name in names]
        return [
            *(getattr(mask, name) for name in names), mask.to_dense(), mask.shape, mask.numel(),
            round(mask.sparsity(), 6), mask.BLOCK_SIZE, repr(mask), mask[0].shape,
            mask[0, 1].to_dense(), mask[:, :, :1].kv_indices,
        ]

    agree(run)


def test_masks():
    def run(package):
        module = flex(package)
        near = lambda b, h, i, j: (i - j).abs() <= 1  # noqa: E731
        sizes = 1, None, 4, 5
        return [
            module.create_mask(mask, *sizes, device="cpu")
            for mask in (causal, module.and_masks(causal, near), module.or_masks(causal, near),
                         module.noop_mask)
        ]

    agree(run)


def raises(function):
    seen = []
    for package in PACKAGES:
        with pytest.raises(Exception) as error:
            function(package)
        seen.append((error.type.__name__, str(error.value)))
    assert seen[0] == seen[1]


ERRORS = {
    "dim": ((2, 3, 4), (2, 3, 4)),
    "sizes": ((1, 2, 2, 8), (1, 3, 2, 4)),
    "heads": ((1, 4, 2, 4), (1, 2, 2, 4)),
    "batch": ((2, 2, 2, 4), (1, 2, 2, 4)),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    def run(package):
        q, k = inputs(package, *ERRORS[case])
        flex(package).flex_attention(q, k, k)

    raises(run)


@pytest.mark.parametrize("length", [6, 20])
def test_a_block_mask_of_another_length(length):
    def run(package):
        module = flex(package)
        (q,) = inputs(package, (1, 1, length, 4))
        mask = module.create_block_mask(causal, None, None, 8, 8, device="cpu", BLOCK_SIZE=2)
        module.flex_attention(q, q, q, None, mask)

    raises(run)


@pytest.mark.parametrize("variant", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("size", [(3, 3), (2, 5)], ids=str)
def test_causal_biases(variant, size):
    def run(package):
        bias = getattr(attention(package, ".bias"), variant)(*size)
        q, k = inputs(package, (1, 2, size[0], 4), (1, 2, size[1], 4))
        out = package.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=bias)
        return [out, repr(bias), bias._materialize()]

    agree(run)


def test_choosing_kernels():
    def run(package):
        module = attention(package)
        settings = package.backends.cuda
        seen = [repr(module.SDPBackend.MATH), int(module.SDPBackend.CUDNN_ATTENTION)]
        state = lambda: [settings.flash_sdp_enabled(), settings.math_sdp_enabled(),  # noqa: E731
                         settings.mem_efficient_sdp_enabled(), settings.cudnn_sdp_enabled()]
        seen.append(state())
        with module.sdpa_kernel(module.SDPBackend.MATH):
            seen.append(state())
            with module.sdpa_kernel([module.SDPBackend.FLASH_ATTENTION, module.SDPBackend.MATH]):
                seen.append(state())
            (q,) = inputs(package, (1, 1, 2, 4))
            seen.append(package.nn.functional.scaled_dot_product_attention(q, q, q))
        return [*seen, state()]

    agree(run)
    raises(lambda p: attention(p).sdpa_kernel("math").__enter__())


@pytest.mark.parametrize("sizes", [(2, 2, 512, 256), (1, 1, 130, 300), (3, 2, 256, 256), (1, 1, 6000, 4000)])
def test_drawings_of_block_masks(sizes):
    def drawn(package):
        mask = flex(package).create_block_mask(
            lambda b, h, i, j: (i >= j) & (i - j < 500 * (b + h + 1)), *sizes, device="cpu"
        )
        return [str(mask), repr(mask), mask.to_string(), mask.to_string(grid_size=3, limit=1), mask.to_string((4, 2))]

    agree(drawn)


def _laid_out(package):
    """Queries, keys and values as projections leave them: heads after positions in memory."""
    package.manual_seed(0)
    q, k, v = (package.randn(2, n, 4, 8).transpose(1, 2) for n in (5, 7, 7))
    packed = (part.view(2, 5, 4, 8).transpose(1, 2) for part in package.randn(2, 5, 96).split(32, -1))
    return {"t": package, "q": q, "k": k, "v": v, "packed": tuple(packed), "mask": package.randn(5, 7),
            "allowed": package.ones(5, 7, dtype=package.bool).tril(1), "one": q[:, :, :1],
            "attend": package.nn.functional.scaled_dot_product_attention}


@pytest.mark.parametrize("program", (
    "attend(q, k, v)", "attend(q, k, v, is_causal=True)", "attend(q, k, v, mask)", "attend(q, k, v, allowed)",
    "attend(*packed)", "attend(*packed, is_causal=True)", "attend(one, k, v)", "attend(q[:1], k[:1], v[:1])",
    "attend(q, k[:, :2], v[:, :2], enable_gqa=True)", "attend(q[0], k[0], v[0])", "attend(q, k, v[..., :4])",
    "attend(q, k[:1], v[:1])", "attend(q[:1].expand(2, -1, -1, -1), k, v)", "attend(q.contiguous(), k, v)",
    "attend(t.randn(2, 4, 8, 5).mT, k, v)", "attend(q.double(), k.double(), v.double())",
    "attend(q, k, v).transpose(1, 2).view(2, 5, 32)",
))
def test_results_lie_in_memory_as_queries_do(program):
    ours, theirs = (eval(program, _laid_out(package)) for package in PACKAGES)
    assert ours.stride() == theirs.stride() and ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("program", (
    "attend(q, k, v, mask, is_causal=True)", "attend(q, k, v, allowed, is_causal=True)",
    "attend(q, k[:, :2], v[:, :2], mask, is_causal=True, enable_gqa=True)",
    "attend(q[0], k[0], v[0], mask, is_causal=True)", "attend(q, k, v[..., :4], mask, is_causal=True)",
    "attend(q, k, v, mask.requires_grad_(), is_causal=True)",
))
def test_masks_beside_the_causal_one(program):
    def results(package):
        try:
            return eval(program, _laid_out(package)).detach().numpy()
        except RuntimeError as error:
            return str(error)

    ours, theirs = map(results, PACKAGES)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_parts_of_multi_head_attention():
    """Libraries that take the function apart use its parts (`nncf`)."""

    def each(package):
        F, ones = package.nn.functional, package.ones
        q = package.arange(24.0).view(3, 2, 4)
        k, w = q + 1, package.arange(48.0).view(12, 4)
        return (
            lambda: F._in_projection_packed(q, q, q, w), lambda: F._in_projection_packed(q, k, k, w, ones(12)),
            lambda: F._in_projection_packed(q, k, q, w), lambda: F._in_projection(q, k, k, *(ones(4, 4),) * 3),
            lambda: F._in_projection(q, k, k, ones(4, 5), ones(4, 4), ones(4, 4)),
            lambda: F._in_projection(q, k, k, ones(4, 4), ones(4, 4), ones(4, 4), None, ones(3)),
            lambda: F._mha_shape_check(q, k, k, None, None, 2), lambda: F._mha_shape_check(q[0], k[0], k, None, None, 2),
            lambda: F._verify_batch_size([1, 3]), lambda: F._verify_batch_size([2, 3]),
            lambda: F._check_key_padding_mask(ones(2, 3), 3, 2), lambda: F._check_key_padding_mask(ones(2, 4), 3, 2),
            lambda: F._check_key_padding_mask(ones(3, 3), 3, 2),
        )

    def results(call):
        try:
            result = call()
        except (AssertionError, ValueError) as error:
            return type(error).__name__, str(error)
        return [t.tolist() for t in result] if isinstance(result, tuple) else result

    for ours, theirs in zip(*map(each, PACKAGES)):
        assert results(ours) == results(theirs)
