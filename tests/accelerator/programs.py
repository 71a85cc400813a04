"""Programs that take a device: what a script written for a GPU does. Each is run with PyTorch on the CPU and with ftorch on
an accelerator; results have to agree. Numbers come from NumPy or from the CPU's generator, whose sequence both have.
"""

import io
import warnings

import numpy as np

PROGRAMS = {}


def program(function):
    """Registers a program ``f(t, device)``: ``t`` is torch or ftorch."""
    PROGRAMS[function.__name__] = function
    return function


def numbers(t, device, *shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return t.tensor(values).to(getattr(t, dtype)).to(device)


def integers(t, device, high, *shape, seed=0):
    return t.tensor(np.random.default_rng(seed).integers(0, high, shape)).to(device)


def kind(value, device):
    """A device as the program sees it, "here" for the one that it asked for."""
    return "here" if value.type == t_device(device) else value.type


def t_device(device):
    return str(device).partition(":")[0]


# --- tensors ---------------------------------------------------------------------------------------------------------


@program
def moves(t, device):
    x = numbers(t, "cpu", 3, 4)
    y = x.to(device)
    z = y.to(device, t.float64, non_blocking=True)
    return (
        x,
        y,
        z,
        y.cpu(),
        y.to(x),
        y is y.to(device),
        kind(y.device, device),
        kind((y + 1).device, device),
        z.to("cpu", t.int32),
    )


@program
def factories(t, device):
    made = [
        t.zeros(2, 3, device=device),
        t.ones(2, dtype=t.int8, device=device),
        t.full((2,), 1.5, device=device),
        t.arange(5, device=device),
        t.arange(0, 1, 0.3, device=device),
        t.linspace(0, 1, 7, device=device),
        t.eye(3, 4, device=device),
        t.tensor([[1, 2], [3, 4]], device=device),
        t.tensor(3.5, device=device),
        t.as_tensor(np.arange(4.0), device=device),
        t.empty(0, 3, device=device),
        t.tril_indices(3, 3, device=device),
        t.logspace(0, 2, 5, device=device),
        t.hann_window(6, device=device),
    ]
    like = [
        t.zeros_like(made[0]),
        t.full_like(made[1], 7),
        made[2].new_ones(3),
        made[2].new_tensor([1, 2.0]),
        t.ones_like(made[0], device="cpu"),
    ]
    return made, like, [kind(x.device, device) for x in made + like[:-1]], like[-1].device.type


@program
def default_device(t, device):
    with t.device(device):
        x = t.zeros(3)
        m = t.nn.Linear(2, 3)
    y = t.zeros(3)
    return kind(x.device, device), kind(m.weight.device, device), y.device.type


@program
def largest_elements(t, device):
    found = []
    for dtype in ("float32", "float16", "bfloat16", "int32", "int64", "uint8"):
        x = (numbers(t, "cpu", 3, 1500) * 40).to(getattr(t, dtype)).to(device)
        if x.is_floating_point():
            x[1, 5], x[2, 7], x[2, 9] = float("nan"), float("inf"), -float("inf")
        for how in ({"k": 7}, {"k": 3, "largest": False}, {"k": 2, "dim": 0}):
            found.append(x.topk(**how).values)  # which of equal elements is PyTorch's secret
    x = t.arange(2048.0, device=device).roll(100)
    x.requires_grad_()
    values, places = x.topk(5)
    values.sum().backward()
    return found, values, places, x.grad, x.detach().reshape(2, 1024).topk(6, 1, largest=False)


@program
def scalars_of_the_cpu_mix(t, device):
    x = numbers(t, device, 3)
    return (
        x + t.tensor(2.0),
        t.tensor(2.0) * x,
        t.where(x > 0, x, t.tensor(0.0)),
        x.clamp(min=t.tensor(0.0, device=device)),
        x / 3,
        1 - x,
    )


@program
def devices_do_not_mix(t, device):
    x, w, rows = numbers(t, device, 3, 3), numbers(t, "cpu", 3, 3), integers(t, device, 3, 2)
    found = []
    for call in (
        lambda: x + w,
        lambda: x @ w,
        lambda: t.cat([x, w]),
        lambda: t.nn.functional.linear(x, w),
        lambda: x.numpy(),
        lambda: np.asarray(x),
        lambda: t.where(x > 0, x, w),
        lambda: x.index_select(0, t.tensor([1])),
        lambda: x.add_(w),
        lambda: w[rows],
        lambda: w[x > 0],
        lambda: w.__setitem__(rows, 0.0),
    ):
        try:
            call()
            found.append(None)
        except (RuntimeError, TypeError) as error:
            found.append(type(error).__name__)
    return found if t_device(device) != "cpu" else ["RuntimeError"] * 4 + ["TypeError"] * 2 + ["RuntimeError"] * 6


@program
def indices_of_the_cpu(t, device):
    x = numbers(t, device, 5, 4)
    x[t.tensor([0, 2])] = 1.0
    return x[t.tensor([1, 3])], x[t.tensor([True, False, True, False, True])], x[1, t.tensor([0, 1])], x


@program
def writes(t, device):
    x = numbers(t, device, 6, 5)
    x[1] = 0
    x[:, 2] += 1
    x[x > 1] = -1
    x[2:4, 1:3] = numbers(t, device, 2, 2, seed=1)
    x.view(-1)[::7].mul_(2)
    x.t()[0].fill_(4)
    x[0].copy_(numbers(t, "cpu", 5, seed=2))
    y = numbers(t, "cpu", 5)
    y.copy_(x[0])
    return x, y, x._version > 0, x[1].data_ptr() - x.data_ptr(), x.is_contiguous(), x.t().stride()


@program
def printing(t, device):
    x = t.arange(6, device=device).reshape(2, 3) / 4
    return [
        repr(v).replace(f", device='{x.device}'", "")
        for v in (x, x.bool(), x[0, 1], t.zeros(0, device=device), t.nn.Parameter(x))
    ]


@program
def looks(t, device):
    x = numbers(t, device, 4, 3)
    return (
        x.sum().item(),
        bool((x > 0).any()),
        x.tolist(),
        int(x.argmax()),
        float(x[1, 2]),
        len(x),
        [r.sum().item() for r in x],
        (x == x).all().item(),
    )


@program
def shapes_that_depend_on_values(t, device):
    x = integers(t, device, 5, 40)
    return (
        x.nonzero(),
        x.unique(return_inverse=True, return_counts=True),
        x[x > 2],
        t.masked_select(x, x < 2),
        t.bincount(x),
        t.where(x == 3),
        t.repeat_interleave(x[:5], x[:5]),
        t.unique_consecutive(x.sort().values),
        t.argwhere(x == 1),
        x.nonzero().shape[0],
    )


@program
def dtypes(t, device):
    x = numbers(t, device, 7) * 20
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 bool complex64 complex128".split()
    return (
        [x.to(getattr(t, n)) for n in names],
        [(x.to(getattr(t, n)) + 1).dtype == getattr(t, n) for n in names],
        x.abs().to(t.uint8),
    )


@program
def products(t, device):
    a, b = numbers(t, device, 33, 65), numbers(t, device, 65, 17, seed=1)
    batch = numbers(t, device, 5, 8, 9), numbers(t, device, 5, 9, 4, seed=1)
    return (
        a @ b,
        t.mm(a.double(), b.double()),
        batch[0] @ batch[1],
        t.einsum("bij,bjk->ik", *batch),
        t.addmm(a @ b, a, b, beta=0.5),
        a @ b[:, 0],
        ((a.half() @ b.half()).float() - a @ b).abs().max().item() < 0.05,
        ((a.bfloat16() @ b.bfloat16()).float() - a @ b).abs().max().item() < 0.3,
        t.baddbmm(batch[0] @ batch[1], *batch),
        t.outer(a[0], b[0]),
    )


@program
def full_precision(t, device):
    """float32 products are float32's: no TF32, PyTorch's default."""
    a, b = numbers(t, device, 256, 1024), numbers(t, device, 1024, 256, seed=1)
    error = (a @ b - (a.double() @ b.double())).abs().max().item()
    return error < 1e-3


@program
def reductions(t, device):
    x = numbers(t, device, 9, 11)
    return (
        x.sum(),
        x.sum(0),
        x.mean(1, keepdim=True),
        x.std(),
        x.var(0, unbiased=False),
        x.max(1),
        x.min(),
        x.argmin(0),
        x.prod(1),
        x.norm(),
        x.logsumexp(1),
        x.cumsum(0),
        x.cumprod(1),
        x.median(1),
        x.amax((0, 1)),
        x.any(0),
        x.count_nonzero(),
        x.sort(0),
        x.topk(3, 1),
        x.kthvalue(2, 0),
        x.quantile(0.3, 0),
        x.cummax(0),
        x.softmax(1),
        x.log_softmax(0),
        t.histc(x, 5),
        x.argsort(1),
        t.logcumsumexp(x, 0),
        x.aminmax(),
    )


@program
def pointwise(t, device):
    x = numbers(t, device, 50)
    p = x.abs() + 0.1
    return (
        [
            getattr(x, n)()
            for n in (
                "exp sin cos tan tanh sigmoid erf abs neg sign ceil floor round trunc atan sinh cosh relu square frac "
                "expm1"
            ).split()
        ],
        [getattr(p, n)() for n in "log sqrt rsqrt lgamma digamma log1p reciprocal log2 log10 i0".split()],
        x.pow(3),
        p.pow(x),
        x.fmod(0.7),
        x.remainder(0.7),
        t.atan2(x, p),
        x.clamp(-1, 1),
        t.lerp(x, p, 0.3),
        t.hypot(x, p),
        x.erfinv() if False else (x / 4).erfinv(),
        t.special.gammainc(p, p),
        t.nn.functional.gelu(x),
        t.nn.functional.silu(x),
        t.nn.functional.softplus(x),
        x.isnan(),
        t.maximum(x, -x),
        x // 0.3,
        t.addcmul(x, x, p),
        t.logaddexp(x, p),
    )


@program
def integers_and_bits(t, device):
    x, y = integers(t, device, 100, 20), integers(t, device, 7, 20, seed=1) + 1
    return (
        x // y,
        x % y,
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << y,
        x >> y,
        x / y,
        -x,
        x.gcd(y),
        x**2,
        t.bitwise_not(x.to(t.uint8)),
        x.to(t.uint8) * 3,
        x.float().floor_divide(3),
    )


@program
def gathers_and_scatters(t, device):
    x, i = numbers(t, device, 6, 4), integers(t, device, 6, 3, 4, seed=3)
    s = numbers(t, device, 3, 4, seed=4)
    rows = t.tensor([0, 0, 5], device=device)
    return (
        x.gather(0, i),
        t.zeros_like(x).scatter_add(0, i, s),
        x.scatter(0, i[:1], s[:1]),
        x.index_add(0, rows, s),
        x.index_copy(0, rows[1:], s[1:]),
        x.index_fill(0, rows, 2.0),
        x.scatter_reduce(0, i, s, "amax"),
        x.index_put((rows, rows % 4), s[:, 0], accumulate=True),
        x.take(i),
        x.take_along_dim(i, 0),
        t.nn.functional.embedding(i, x),
        t.nn.functional.one_hot(i, 6),
        x.roll(2, 0),
        x.flip(1),
        x.rot90(),
        x.tril(),
        x.diagonal(),
        t.searchsorted(x[:, 0].sort().values, s[:, 0].contiguous()),
        t.bucketize(s, x[0].sort().values),
        x.masked_fill(x > 0, 0),
        x.unfold(0, 3, 2),
    )


@program
def shapes(t, device):
    x = numbers(t, device, 4, 6, 2)
    return (
        x.view(8, 6),
        x.permute(2, 0, 1),
        x.reshape(-1),
        x.transpose(0, 1).contiguous(),
        t.cat([x, x], 1),
        t.stack([x, x]),
        x.split(2, 1),
        x.chunk(2),
        x.expand(3, 4, 6, 2),
        x.repeat(1, 2, 1),
        x.squeeze(),
        x[None],
        x.unbind(2),
        x.movedim(0, 2),
        t.nn.functional.pad(x, (1, 2, 0, 1)),
        x.flatten(1),
        t.meshgrid(x[0, :, 0], x[1, :, 1], indexing="ij"),
        t.cartesian_prod(x[0, :2, 0], x[1, :3, 1]),
        t.block_diag(x[0], x[1]),
        t.nn.functional.pixel_shuffle(x.reshape(1, 4, 6, 2), 2),
    )


@program
def linear_algebra(t, device):
    x = numbers(t, device, 5, 5, dtype="float64")
    p = x @ x.mT + t.eye(5, device=device, dtype=t.float64)
    b = numbers(t, device, 5, 2, dtype="float64", seed=1)
    return (
        t.linalg.solve(x, b),
        t.linalg.inv(x),
        t.linalg.cholesky(p),
        t.linalg.eigvalsh(p),
        t.linalg.svdvals(x),
        t.linalg.det(x),
        t.linalg.slogdet(p),
        t.linalg.qr(x)[1].abs(),
        t.linalg.lstsq(
            numbers(t, device, 7, 5, dtype="float64"), numbers(t, device, 7, 2, dtype="float64", seed=2)
        ).solution,
        t.linalg.pinv(x),
        t.linalg.matrix_exp(x),
        t.linalg.eigvals(x).abs().sort().values,
        t.linalg.lu_factor(x)[0],
        t.cholesky_solve(b, t.linalg.cholesky(p)),
        t.linalg.matrix_rank(p),
        t.linalg.norm(x, 2),
        t.linalg.solve_triangular(p.tril(), b, upper=False),
        t.triu(x),
        t.cross(x[:3, :3], x[2:, :3], dim=1),
        t.linalg.matrix_power(x, 3),
    )


@program
def fourier(t, device):
    x = numbers(t, device, 4, 16)
    return (
        t.fft.fft(x),
        t.fft.rfft(x),
        t.fft.irfft(t.fft.rfft(x)),
        t.fft.fft2(x),
        t.fft.fftshift(x),
        t.stft(x, 8, return_complex=True, window=t.hann_window(8, device=device)),
        t.view_as_real(t.fft.ifft(x).resolve_conj()),
    )


@program
def random_numbers(t, device):
    """The sequences differ from the CPU's; moments, ranges and what a seed repeats don't."""
    t.manual_seed(3)
    a, u = t.randn(20_000, device=device), t.rand(20_000, device=device)
    t.manual_seed(3)
    again = t.randn(20_000, device=device)
    g = t.Generator(device=device).manual_seed(5)
    first = t.randn(5, device=device, generator=g)
    same = bool((first == t.randn(5, device=device, generator=g.manual_seed(5))).all())
    p = t.randperm(100, device=device)
    drop = t.nn.functional.dropout(t.ones(20_000, device=device), 0.25)
    chosen = t.multinomial(t.tensor([0.1, 0.2, 0.7], device=device), 10_000, replacement=True)
    return (
        bool((a == again).all()),
        abs(a.mean().item()) < 0.05,
        abs(a.std().item() - 1) < 0.05,
        0 <= u.min().item() < u.max().item() < 1,
        same,
        p.sort().values,
        abs((drop == 0).float().mean().item() - 0.25) < 0.02,
        abs((chosen == 2).float().mean().item() - 0.7) < 0.03,
        t.bernoulli(t.full((10_000,), 0.3, device=device)).mean().item() > 0.2,
        t.randint(0, 5, (1000,), device=device).unique(),
        t.empty(10_000, device=device).exponential_().min().item() > 0,
        t.empty(100, device=device).uniform_(2, 3).floor(),
        kind(g.device, device),
    )


# --- autograd, transforms --------------------------------------------------------------------------------------------


@program
def gradients(t, device):
    x, w = numbers(t, device, 4, 3).requires_grad_(), numbers(t, device, 3, 2, seed=1).requires_grad_()
    y = (x @ w).tanh().pow(2).sum()
    y.backward()
    (gx,) = t.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = t.autograd.grad(gx.sum(), x)
    seen = []
    x.register_hook(lambda g: seen.append(kind(g.device, device)))
    (x * 2).sum().backward()
    return y, x.grad, w.grad, gx, second, seen, kind(x.grad.device, device), type(y.grad_fn).__name__


@program
def moving_is_differentiable(t, device):
    x = numbers(t, "cpu", 3).requires_grad_()
    (x.to(device) ** 2).sum().cpu().backward()
    return x.grad, x.grad.device.type


@program
def custom_function(t, device):
    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    x = numbers(t, device, 5).requires_grad_()
    Cube.apply(x).sum().backward()
    return x.grad


@program
def transforms(t, device):
    w, x = numbers(t, device, 3, 3), numbers(t, device, 6, 3, seed=1)

    def f(w, x):
        return (w @ x).sin().sum()

    return (
        t.func.vmap(t.func.grad(f), (None, 0))(w, x),
        t.func.jacrev(lambda x: w @ x.sin())(x[0]),
        t.func.hessian(f, 1)(w, x[0]),
        t.func.jvp(lambda x: x.exp(), (x,), (x,)),
        t.vmap(lambda v: v.sum())(x),
    )


@program
def checkpointing(t, device):
    net = layers(t, device)
    x = numbers(t, device, 8, 6).requires_grad_()
    t.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
    return x.grad, [p.grad for p in net.parameters()]


# --- training --------------------------------------------------------------------------------------------------------


def layers(t, device):
    t.manual_seed(0)
    nn = t.nn
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(device)


def trained(t, device, net, optimizer, data, loss, steps=6, clip=None):
    losses = []
    for x, y in data[:1] * steps:
        optimizer.zero_grad()
        out = loss(net(x), y)
        out.backward()
        if clip:
            t.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        losses.append(out.item())
    return losses, net.state_dict()


def classes(t, device, *shape, count=4):
    return [(numbers(t, device, *shape), integers(t, device, count, shape[0]))]


def _train_with(name, **options):
    def run(t, device):
        net = layers(t, device)
        optimizer = getattr(t.optim, name)(net.parameters(), **options)
        return trained(t, device, net, optimizer, classes(t, device, 8, 6), t.nn.functional.cross_entropy, clip=1.0)

    run.__name__ = f"trains_with_{name}" + "".join(f"_{k}" for k in options if k != "lr")
    return program(run)


for _name, _options in [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "fused": True}),
    ("Adam", {"lr": 0.01, "foreach": True}),
    ("RMSprop", {"lr": 0.01}),
    ("Adagrad", {"lr": 0.1}),
    ("NAdam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "capturable": True}),
]:
    if _name != "Adam" or "capturable" not in _options:  # `capturable` is an accelerator's: PyTorch refuses it on the CPU
        _train_with(_name, **_options)


@program
def trains_a_convolutional_network(t, device):
    t.manual_seed(0)
    nn = t.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2, stride=2),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).to(device)
    result = trained(
        t,
        device,
        net,
        t.optim.SGD(net.parameters(), 0.1, momentum=0.9),
        classes(t, device, 4, 3, 12, 12),
        t.nn.functional.cross_entropy,
    )
    return result, net.eval()(numbers(t, device, 2, 3, 12, 12, seed=5))


@program
def trains_channels_last(t, device):
    t.manual_seed(0)
    net = (
        t.nn.Sequential(t.nn.Conv2d(3, 8, 3), t.nn.BatchNorm2d(8), t.nn.ReLU(), t.nn.ConvTranspose2d(8, 4, 2, stride=2))
        .to(device)
        .to(memory_format=t.channels_last)
    )
    x = numbers(t, device, 2, 3, 8, 8).to(memory_format=t.channels_last)
    y = net(x)
    y.square().mean().backward()
    return y, y.is_contiguous(memory_format=t.channels_last), [p.grad for p in net.parameters()]


@program
def trains_a_transformer(t, device):
    t.manual_seed(0)
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 16)
            self.body = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
            )
            self.head = nn.Linear(16, 20)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            return self.head(self.body(self.words(x), mask=mask, is_causal=True))

    net = Net().to(device)
    optimizer = t.optim.AdamW(net.parameters(), 1e-3)
    schedule = t.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    losses = []
    for length in (7, 9, 7, 12):  # lengths that change
        x = integers(t, device, 20, 3, length, seed=length)
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses, schedule.get_last_lr()


@program
def trains_an_lstm(t, device):
    t.manual_seed(0)
    nn = t.nn
    net = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True).to(device)
    head = nn.Linear(12, 1).to(device)
    optimizer = t.optim.RMSprop([*net.parameters(), *head.parameters()], 1e-2)
    losses = []
    for _ in range(3):
        packed = nn.utils.rnn.pack_padded_sequence(numbers(t, device, 3, 7, 4), t.tensor([7, 5, 2]), batch_first=True)
        out, _lengths = nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
        loss = head(out).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return (
        losses,
        nn.GRU(4, 5).to(device)(numbers(t, device, 6, 2, 4)),
        nn.RNNCell(4, 5).to(device)(numbers(t, device, 2, 4)),
    )


@program
def trains_in_mixed_precision(t, device):
    net = layers(t, device)
    optimizer = t.optim.Adam(net.parameters(), 1e-2)
    where = t_device(device)
    scaler = t.amp.GradScaler(where, enabled=False)
    x, y = classes(t, device, 8, 6)[0]
    kinds = []
    for _ in range(3):
        with t.autocast(where, dtype=t.bfloat16):
            out = net(x)
            loss = t.nn.functional.cross_entropy(out.float(), y)
        kinds.append(str(out.dtype)[-8:])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return kinds, [str(p.grad.dtype)[-7:] for p in net.parameters()], loss.item() < 2


@program
def compiles(t, device):
    """PyTorch's compiler would only make the oracle slower."""
    compiled = t.compile if t.__name__ == "ftorch" else lambda f: f
    net = layers(t, device)
    step = compiled(net)
    optimizer = t.optim.AdamW(net.parameters(), 1e-2)
    result = trained(t, device, step, optimizer, classes(t, device, 8, 6), t.nn.functional.cross_entropy)[0]
    g = compiled(lambda x: (x.softmax(-1) * 2).sum(0))
    return result, [g(numbers(t, device, n, 5)) for n in (3, 4, 3, 6)]


@program
def scripts_and_traces(t, device):
    net = layers(t, device).eval()
    x = numbers(t, device, 3, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced, scripted = t.jit.trace(net, x), t.jit.script(net)
        file = io.BytesIO()
        t.jit.save(scripted, file)
        file.seek(0)
        loaded = t.jit.load(file, map_location=device)
    return traced(x), scripted(x), loaded(x), kind(next(loaded.parameters()).device, device)


@program
def saves_and_loads(t, device):
    net = layers(t, device)
    optimizer = t.optim.Adam(net.parameters())
    trained(t, device, net, optimizer, classes(t, device, 8, 6), t.nn.functional.cross_entropy, steps=2)
    file = io.BytesIO()
    t.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "x": numbers(t, device, 3)}, file)
    found = []
    for where in (None, "cpu", device):
        file.seek(0)
        state = t.load(file, map_location=where)
        found.append((kind(state["x"].device, where or device), state["net"], state["optimizer"]["state"][0]["exp_avg"]))
    other = layers(t, "cpu")
    other.load_state_dict(state["net"])
    return found, other(numbers(t, "cpu", 2, 6))


@program
def loads_data(t, device):
    data = t.utils.data.TensorDataset(numbers(t, "cpu", 20, 3), integers(t, "cpu", 4, 20))
    seen = []
    for workers in (0, 2):
        for x, y in t.utils.data.DataLoader(data, 8, num_workers=workers):
            seen.append((x.to(device, non_blocking=True).sum(), y.to(device).sum()))
    return seen


@program
def copies_of_modules(t, device):
    import copy

    net = layers(t, device)
    twin = copy.deepcopy(net)
    with t.no_grad():
        net[0].weight.zero_()
    back = copy.deepcopy(net).cpu()
    return (
        twin(numbers(t, device, 2, 6)),
        back[0].weight,
        kind(twin[0].weight.device, device),
        net.half()[0].weight.dtype == t.float16,
    )


# --- functions of nn -------------------------------------------------------------------------------------------------


@program
def attention(t, device):
    q, k, v = (numbers(t, device, 2, 4, 10, 8, seed=s) for s in range(3))
    f = t.nn.functional.scaled_dot_product_attention
    mask = (numbers(t, device, 10, 10) > 0) | t.eye(10, dtype=t.bool, device=device)
    q.requires_grad_()
    out = f(q, k, v, is_causal=True)
    out.sum().backward()
    mha = t.nn.MultiheadAttention(8, 2, batch_first=True)
    t.manual_seed(1)
    mha.load_state_dict({n: t.randn(p.shape) for n, p in mha.state_dict().items()})
    return (
        out,
        q.grad,
        f(q, k, v, attn_mask=mask),
        f(q, k[:, :2], v[:, :2], enable_gqa=True),
        mha.to(device)(q[:, 0], k[:, 0], v[:, 0]),
        f(*(x.detach().bfloat16() for x in (q, k, v))).float().mean() < 1,
    )


@program
def convolutions(t, device):
    f = t.nn.functional
    x1, x2, x3 = numbers(t, device, 2, 4, 13), numbers(t, device, 2, 4, 9, 8), numbers(t, device, 1, 2, 5, 6, 7)
    return (
        f.conv1d(x1, numbers(t, device, 6, 4, 3), padding="same"),
        f.conv2d(x2, numbers(t, device, 6, 2, 3, 3), stride=2, dilation=2, groups=2, padding=2),
        f.conv3d(x3, numbers(t, device, 3, 2, 2, 2, 2)),
        f.conv_transpose2d(x2, numbers(t, device, 4, 3, 3, 3), stride=2, output_padding=1),
        f.unfold(x2, 3),
        f.fold(f.unfold(x2, 3), (9, 8), 3),
        f.conv2d(x2.double(), numbers(t, device, 6, 4, 3, 3, dtype="float64")),
    )


@program
def pools_and_samples(t, device):
    f = t.nn.functional
    x = numbers(t, device, 2, 3, 9, 8)
    grid = numbers(t, device, 2, 4, 4, 2) / 2
    return (
        f.max_pool2d(x, 3, 2, 1, return_indices=True),
        f.avg_pool2d(x, 2, ceil_mode=True),
        f.adaptive_avg_pool2d(x, (4, 3)),
        f.adaptive_max_pool2d(x, 3),
        f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        f.interpolate(x, (5, 5), mode="nearest"),
        f.interpolate(x, (20, 17), mode="bicubic", align_corners=True),
        f.grid_sample(x, grid, align_corners=False),
        f.affine_grid(numbers(t, device, 2, 2, 3), (2, 3, 4, 4), align_corners=False),
        f.lp_pool2d(x, 2, 3),
        f.pad(x, (1, 1, 2, 2), mode="reflect"),
    )


@program
def losses(t, device):
    f = t.nn.functional
    x, y, i = numbers(t, device, 6, 5), numbers(t, device, 6, 5, seed=1), integers(t, device, 5, 6)
    p = t.log_softmax(numbers(t, device, 10, 2, 5), 2)
    return (
        f.cross_entropy(x, i),
        f.cross_entropy(x, y.softmax(1), label_smoothing=0.1),
        f.nll_loss(x.log_softmax(1), i),
        f.mse_loss(x, y),
        f.l1_loss(x, y),
        f.smooth_l1_loss(x, y),
        f.huber_loss(x, y),
        f.binary_cross_entropy_with_logits(x, (y > 0).float()),
        f.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        f.cosine_similarity(x, y),
        f.triplet_margin_loss(x, y, -x),
        f.ctc_loss(p, t.tensor([[1, 2], [3, 4]], device=device), t.tensor([10, 10]), t.tensor([2, 2])),
        f.multi_margin_loss(x, i),
        f.gaussian_nll_loss(x, y, x.abs()),
        f.poisson_nll_loss(x, y.abs()),
        t.cdist(x, y),
        f.pairwise_distance(x, y),
    )


@program
def normalizations(t, device):
    f = t.nn.functional
    x = numbers(t, device, 4, 6, 5)
    mean, var = t.zeros(6, device=device), t.ones(6, device=device)
    return (
        f.layer_norm(x, (5,)),
        f.batch_norm(x, mean, var, training=True),
        mean,
        var,
        f.group_norm(x, 3),
        f.instance_norm(x),
        f.normalize(x, dim=1),
        f.rms_norm(x, (5,)),
        f.local_response_norm(x, 2),
    )


@program
def sparse(t, device):
    x = numbers(t, device, 5, 4) * (numbers(t, device, 5, 4, seed=1) > 0)
    s, c = x.to_sparse(), x.to_sparse_csr()
    y = numbers(t, device, 4, 3, seed=2)
    return (
        s @ y,
        c @ y,
        s.to_dense(),
        s.coalesce().indices(),
        s.coalesce().values(),
        c.crow_indices(),
        t.sparse.sum(s),
        kind(s.device, device),
    )


@program
def nested(t, device):
    parts = [numbers(t, device, n, 4, seed=n) for n in (2, 5, 3)]
    n = t.nested.nested_tensor(parts, layout=t.jagged, device=device)
    return (n * 2).values(), t.nested.to_padded_tensor(n, 0.0), n.offsets(), [x.sum() for x in n.unbind()]


@program
def distributions(t, device):
    d = t.distributions
    x = numbers(t, device, 4, 3)
    normal, categorical = d.Normal(x, x.exp()), d.Categorical(logits=x)
    return (
        normal.log_prob(x + 1),
        categorical.log_prob(t.tensor([0, 1, 2, 0], device=device)),
        categorical.entropy(),
        d.kl_divergence(normal, d.Normal(x * 0, x * 0 + 1)),
        normal.rsample().shape,
        d.Bernoulli(logits=x).entropy(),
        d.MultivariateNormal(x[0], t.eye(3, device=device)).log_prob(x),
        d.Gamma(x.exp(), x.exp()).log_prob(x.exp()),
        kind(normal.sample().device, device),
    )


@program
def quantized_products(t, device):
    x, w = integers(t, device, 256, 32, 64) - 128, integers(t, device, 256, 48, 64, seed=1) - 128
    return t._int_mm(x.to(t.int8), w.to(t.int8).t()), t.fake_quantize_per_tensor_affine(
        numbers(t, device, 5), 0.1, 0, -128, 127
    )


@program
def foreach(t, device):
    xs = [numbers(t, device, n, seed=n) for n in (3, 4)]
    t._foreach_add_(xs, 1.0)
    t._foreach_mul_(xs, [2.0, 3.0])
    return xs, t._foreach_norm(xs), t.nn.utils.parameters_to_vector(xs)


@program
def functional_calls(t, device):
    net = layers(t, device)
    params = {n: p.detach() for n, p in net.named_parameters()}
    x, y = classes(t, device, 8, 6)[0]

    def loss(params, x, y):
        return t.nn.functional.cross_entropy(t.func.functional_call(net, params, (x[None],)), y[None])

    return t.func.vmap(t.func.grad(loss), (None, 0, 0))(params, x, y)


@program
def complex_numbers(t, device):
    x = t.complex(numbers(t, device, 3, 3), numbers(t, device, 3, 3, seed=1))
    return (
        x @ x.mH,
        x.abs(),
        x.angle(),
        x.real,
        x.imag.contiguous(),
        x.conj() * 2,
        t.polar(x.abs(), x.angle()),
        t.linalg.det(x),
        x.exp(),
        x.sum(),
        t.view_as_real(x),
    )


@program
def views_and_aliases(t, device):
    x = t.zeros(4, 4, device=device)
    v = x[1:3].t()
    v.add_(1)
    w = x.as_strided((2, 2), (5, 1), 1)
    w.fill_(7)
    d = x.detach()
    d[0, 0] = 9
    x.data[3, 3] = 5
    return x, v, w, v._base is x, x.untyped_storage().nbytes(), x[1:].storage_offset()


@program
def generation(t, device):
    """A growing cache of keys and values, a token at a time."""
    w = numbers(t, device, 8, 8) / 3
    cache, x, seen = t.zeros(1, 0, 8, device=device), numbers(t, device, 1, 1, 8, seed=1), []
    static = t.zeros(1, 12, 8, device=device)
    for n in range(10):
        cache = t.cat([cache, x @ w], 1)
        static.index_copy_(1, t.tensor([n], device=device), x @ w)
        x = t.nn.functional.scaled_dot_product_attention(x, cache, cache)
        seen.append(x.argmax().item())
    return seen, cache, static
