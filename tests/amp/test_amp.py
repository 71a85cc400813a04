"""``torch.amp``: the dtypes and numbers of autocast, and the gradient scaler, as in PyTorch."""

import math

import pytest
import torch

import ftorch
from tests.oracle import LIBRARIES, assert_says_same

OPS = {
    "mm": lambda t, a, b: a(2, 2) @ b(2, 2),
    "addmm": lambda t, a, b: t.addmm(a(2, 2), a(2, 2), b(2, 2)),
    "mv": lambda t, a, b: t.mv(a(2, 2), b(2)),
    "bmm": lambda t, a, b: t.bmm(a(1, 2, 2), b(1, 2, 2)),
    "linear": lambda t, a, b: t.nn.functional.linear(a(2, 2), b(2, 2), b(2)),
    "conv2d": lambda t, a, b: t.nn.functional.conv2d(a(1, 1, 4, 4), b(1, 1, 2, 2)),
    "einsum": lambda t, a, b: t.einsum("ij,jk->ik", a(2, 2), b(2, 2)),
    "multi_dot": lambda t, a, b: t.linalg.multi_dot([a(2, 2), a(2, 2)]),
    "attention": lambda t, a, b: t.nn.functional.scaled_dot_product_attention(
        a(1, 2, 2), b(1, 2, 2), b(1, 2, 2)),
    "exp": lambda t, a, b: a(2).exp(),
    "softmax": lambda t, a, b: a(2, 2).softmax(0),
    "layer_norm": lambda t, a, b: t.nn.functional.layer_norm(a(2, 2), (2,)),
    "prod": lambda t, a, b: a(2).prod(),
    "trace": lambda t, a, b: a(2, 2).trace(),
    "quantile": lambda t, a, b: a(2).quantile(0.5),
    "mse_loss": lambda t, a, b: t.nn.functional.mse_loss(a(2), b(2)),
    "nll_loss": lambda t, a, b: t.nn.functional.nll_loss(a(2, 2), t.tensor([0, 1])),
    "cross_entropy": lambda t, a, b: t.nn.functional.cross_entropy(a(2, 2), t.tensor([0, 1])),
    "add": lambda t, a, b: a(2) + b(2),
    "fft": lambda t, a, b: t.fft.fft(a(2)),
}


@pytest.mark.parametrize("equation", [
    "ij,kl,jk->il", "ij,ij,ij->ij", "ij,ij,ij->", "ij,ij,jk->ik", "ij,jk,kl->", "...ij,jk,j->...k", "i,j,k->", "ij,jk,kl,lm",
    "ij,jk,jk->k",
])
@pytest.mark.parametrize("ordered", [True, False])
def test_einsums_of_several_operands_are_products_of_two(equation, ordered):
    sizes = {"i": 3, "j": 4, "k": 2, "l": 5, "m": 1}

    def program(t):
        before, t.backends.opt_einsum.enabled = t.backends.opt_einsum.enabled, ordered
        try:
            terms = equation.partition("->")[0].replace("...", "").split(",")
            shapes = [[sizes[c] for c in term] for term in terms]
            operands = [t.arange(1.0, 1 + math.prod(shape)).sqrt().view(shape) for shape in shapes]
            with t.autocast("cpu"):
                result = t.einsum(equation, *operands)
            return str(result.dtype), result.shape, result.double().tolist()
        finally:
            t.backends.opt_einsum.enabled = before

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours[:2] == theirs[:2]
    torch.testing.assert_close(torch.tensor(ours[2]), torch.tensor(theirs[2]), rtol=2**-8, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk,kl->il"])
def test_batched_einsums(equation, dtype):
    def program(t):
        operands = [t.ones(2, 2, dtype=getattr(t, dtype)) for _ in range(equation.count(",") + 1)]
        with t.autocast("cpu"):
            result = t.vmap(lambda x: t.einsum(equation, x, *operands[1:]))(t.ones(3, 2, 2, dtype=getattr(t, dtype)))
        return str(result.dtype), result.tolist()

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OPS)
def test_result_dtypes_on_the_cpu(name, dtype):
    def program(t):
        found = []
        for of_a, of_b in [("float32", "float32"), (dtype, dtype), ("float32", dtype)]:
            with t.autocast("cpu", dtype=getattr(t, dtype)):
                try:
                    result = OPS[name](
                        t, lambda *s: t.ones(s, dtype=getattr(t, of_a)),
                        lambda *s: t.ones(s, dtype=getattr(t, of_b)),
                    )
                    found.append(str(result.dtype))
                except RuntimeError:
                    found.append("error")
        return found

    assert_says_same(program)


@pytest.mark.parametrize("program", [
    lambda t: t.mm(t.ones(2, 2).double(), t.ones(2, 2).double()).dtype,
    lambda t: t.cat([t.ones(2), t.ones(2).bfloat16()]).dtype,
    lambda t: t.cat([t.ones(2).half(), t.ones(2).bfloat16()]).dtype,
    lambda t: t.mm(t.ones(2, 2), t.ones(2, 2), out=t.empty(2, 2)).dtype,
    lambda t: t.ones(2, 2).addmm_(t.ones(2, 2), t.ones(2, 2)).dtype,
    lambda t: (t.is_autocast_enabled("cpu"), t.is_autocast_enabled("cuda")),
    lambda t: (t.get_autocast_dtype("cpu"), t.is_autocast_cache_enabled()),
])
def test_inside(program):
    def inside(t):
        with t.autocast("cpu"):
            return program(t)

    assert_says_same(inside)


@pytest.mark.parametrize("program", [
    lambda t: t.autocast("foo"),
    lambda t: t.autocast(3),
    lambda t: t.autocast("cpu", dtype=t.float32)._enabled,
    lambda t: t.autocast("cuda")._enabled,
    lambda t: (t.autocast("cpu").fast_dtype, t.autocast("cpu", enabled=False).fast_dtype),
    lambda t: t.amp.is_autocast_available("cpu"),
    lambda t: t.amp.GradScaler("cpu").state_dict(),
    lambda t: t.amp.GradScaler().is_enabled(),
    lambda t: t.amp.GradScaler("cpu", growth_factor=0.5),
    lambda t: t.amp.GradScaler("cpu").step(None),
    lambda t: t.cuda.amp.GradScaler().get_scale(),
])
def test_construction(program):
    assert_says_same(program)


def test_contexts_nest_and_restore():
    def program(t):
        x, found = t.ones(2, 2), []
        with t.autocast("cpu"):
            found.append((x @ x).dtype)
            with t.autocast("cpu", enabled=False):
                found.append((x @ x).dtype)
            with t.autocast("cpu", dtype=t.float16):
                found.append((x @ x).dtype)
            found.append((x @ x).dtype)
        return found, (x @ x).dtype, t.is_autocast_enabled("cpu")

    assert_says_same(program)


def test_training_step():
    def program(t):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(), t.nn.Linear(8, 2))
        x = t.randn(3, 4)
        with t.autocast("cpu", dtype=t.bfloat16):
            loss = t.nn.functional.cross_entropy(model(x), t.tensor([0, 1, 0]))
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        return loss.detach(), grads

    (a, b), (c, d) = (program(t) for t in LIBRARIES)
    assert a.item() == pytest.approx(c.item(), rel=1e-2)
    for ours, theirs in zip(b, d):
        assert str(ours.dtype) == str(theirs.dtype)
        torch.testing.assert_close(torch.tensor(ours.tolist()), theirs, rtol=3e-2, atol=3e-3)


def test_weights_are_cast_once():
    weight = ftorch.ones(2, 2, requires_grad=True)
    with ftorch.autocast("cpu"):
        first = ftorch.mm(ftorch.ones(2, 2), weight)
        second = ftorch.mm(ftorch.ones(2, 2), weight)
    cast = [y.grad_fn.next_functions[1][0] for y in (first, second)]
    assert cast[0] is cast[1]
    (first.sum() + second.sum()).backward()
    assert weight.grad.tolist() == [[4, 4], [4, 4]]


def test_decorator():
    def program(t):
        @t.autocast("cpu")
        def product(x):
            return x @ x

        return product(t.ones(2, 2)).dtype

    assert_says_same(program)


def test_custom_function():
    def program(t):
        class Product(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a.mm(b), t.tensor(t.is_autocast_enabled("cpu"))

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx, grad, _):
                a, b = ctx.saved_tensors
                return grad.mm(b.t()), a.t().mm(grad)

        a = t.ones(2, 2, requires_grad=True)
        with t.autocast("cpu"):
            y, flag = Product.apply(a, a.detach().bfloat16())
        y.sum().backward()
        return y.dtype, flag, a.grad

    assert_says_same(program)


def test_grad_scaler_over_good_and_bad_steps():
    def program(t):
        w = t.ones(2, requires_grad=True)
        optimizer = t.optim.SGD([w], lr=0.1)
        scaler = t.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        found = []
        for factor in (1.0, float("inf"), 2.0, 3.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            found.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"], w.tolist()))
        other = t.amp.GradScaler("cpu")
        other.load_state_dict(scaler.state_dict())
        scaler.update(16.0)
        return found, other.get_scale(), scaler.get_scale()

    assert_says_same(program)


def test_grad_scaler_misuse():
    def program(t):
        w = t.ones(2, requires_grad=True)
        optimizer = t.optim.SGD([w], lr=0.1)
        scaler = t.amp.GradScaler("cpu")
        scaler.scale(w.sum()).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)

    assert_says_same(program)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_gradients_are_unscaled(dtype, sparse):
    def program(t):
        for bad in (-1, 0, 1):
            for allowed in (True, False):
                parameters = [t.nn.Parameter(t.zeros(2, 2)), t.nn.Parameter(t.zeros(2, 2, dtype=getattr(t, dtype)))]
                for i, p in enumerate(parameters):
                    grad = t.full((2, 2), 4., dtype=p.dtype)
                    grad[1, 1] = float("inf") if bad == i else 4
                    p.grad = grad.to_sparse() if sparse else grad
                optimizer = t.optim.SGD(parameters, lr=1.)
                try:
                    found = t.amp.GradScaler("cpu")._unscale_grads_(
                        optimizer, t.full((1,), 0.25), t.full((1,), 0.), allowed)
                except ValueError as error:
                    yield str(error)
                    continue
                yield {str(k): v.tolist() for k, v in found.items()}
                yield [(p.grad.to_dense() if sparse else p.grad).tolist() for p in parameters]

    assert list(program(ftorch)) == list(program(torch))


def test_gradients_of_sparse_embeddings_are_unscaled():
    def program(t):
        embedding = t.nn.Embedding(4, 2, sparse=True)
        scaler = t.amp.GradScaler("cpu", init_scale=4.)
        scaler.scale(embedding(t.tensor([1, 1, 2])).sum()).backward()
        scaler.unscale_(t.optim.SGD(embedding.parameters(), lr=1.))
        return embedding.weight.grad.to_dense().tolist()

    assert program(ftorch) == program(torch)


def test_einsum_of_more_dimensions_than_letters():
    def program(t):
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        equation = ",".join([letters[:20], letters[20:40], letters[40:] + "..."])
        with t.autocast("cpu", dtype=t.bfloat16):
            result = t.einsum(equation, t.ones([1] * 20), t.ones([1] * 20), t.ones([1] * 12 + [2]))
        return result.flatten().tolist(), str(result.dtype).rpartition(".")[2]

    assert program(ftorch) == program(torch)


def test_einsum_of_more_operands_than_terms_without_a_path():
    def program(t):
        a = t.ones(2, 2)
        enabled, t.backends.opt_einsum.enabled = t.backends.opt_einsum.enabled, False
        try:
            with t.autocast("cpu", dtype=t.bfloat16), pytest.raises(RuntimeError, match="more operands") as raised:
                t.einsum("ij,jk->ik", a, a, a)
        finally:
            t.backends.opt_einsum.enabled = enabled
        return str(raised.value)

    assert program(ftorch) == program(torch)


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_recurrent_layers_give_what_their_state_makes_of_the_products(kind, is_packed):
    def program(t):
        model, x = getattr(t.nn, kind)(3, 3, num_layers=2), t.arange(24.0).reshape(4, 2, 3).cos()
        with t.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(t.arange(float(p.numel())).reshape(p.shape).add(i).sin())
        with t.autocast("cpu"):
            output, state = model(t.nn.utils.rnn.pack_padded_sequence(x, [4, 3]) if is_packed else x)
        output, state = output.data if is_packed else output, state[0] if isinstance(state, tuple) else state
        output.float().sum().backward()
        found = output, state, model.weight_hh_l0.grad
        return [str(v.dtype) for v in found], [v.float().detach().numpy() for v in found]

    (dtypes, values), (wanted, others) = program(ftorch), program(torch)
    assert dtypes == wanted
    for a, b in zip(values, others):
        assert abs(a - b).max() < 0.05
