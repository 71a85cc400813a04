"""Programs to trace. Each takes the library and gives (what to trace, shapes of example inputs)."""


def arithmetic(torch):
    def f(x, y):
        a = x + y - 2 * x / (1 + y.abs()) ** 2
        b = -a @ y.T % 3 // 2
        return abs(b), ~(b > 1) | (b <= 0) & (a.sum() != 4), 2 - b, +a, float("inf") * a

    return f, [(3, 3), (3, 3)]


def functions(torch):
    F = torch.nn.functional

    def f(x):
        x = F.relu(x) + torch.relu(x) + F.silu(x, inplace=False)
        x = F.softmax(x, dim=-1) + torch.softmax(x, 0) + F.log_softmax(x, dim=1)
        x = F.dropout(x, 0.5, training=False)
        x = F.pad(x, (1, 1), value=2.0)
        x = F.gelu(x) + F.elu(x, 0.5) + F.leaky_relu(x)
        return torch.cat([x, x], dim=1), torch.where(x > 0, x, 1.0), torch.clamp(x, min=-1, max=1)

    return f, [(4, 5)]


def methods(torch):
    def f(x):
        n = x.shape[0]
        y = x.view(n, -1).transpose(0, 1).reshape(-1, n)
        z = y.size(0) + y.dim()
        return y.to(torch.float64).mean(dim=[0], keepdim=True), y.T, z, x.contiguous().flatten(1)

    return f, [(2, 3, 4)]


def indexing(torch):
    def f(x):
        a, b = x.chunk(2)
        return a[0], b[..., 1:], x[:, None, 0], x[x > 0], x[[0, 1]], a[:, ::2]

    return f, [(4, 4)]


def results(torch):
    def f(x):
        values, indices = torch.max(x, dim=1)
        s = torch.sort(x, descending=True)
        return {"values": values, "more": [indices, (s[0], None, 1.5, "text", torch.float32)]}

    return f, [(3, 4)]


def constants(torch):
    def f(x):
        t = torch.ones(3)
        return x + t, t * x, torch.stack([x, t]), x.new_zeros(3)

    return f, [(3,)]


def signature(torch):
    def f(x, y: int = 3, *, z=None):
        return x * y

    return f, [(2,)]


def variadic(torch):
    def f(x, *args, scale=2, **kwargs):
        return x + args[0] * scale

    return f, None


def perceptron(torch):
    class Perceptron(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.0), torch.nn.Linear(8, 4)
            )
            self.scale = torch.nn.Parameter(torch.full((4,), 2.0))
            self.register_buffer("shift", torch.full((4,), 0.5))
            self.names = [self.shift]

        def forward(self, x):
            y = self.body(x) * self.scale + self.shift
            return self.shift - y, y + self.names[0]

    return Perceptron(), [(3, 4)]


def buffers_first(torch):
    class Buffers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.arange(1.0, 5.0))

        def forward(self, x):
            b = self.b
            return (b + x, b - x, b * x, b / x, b // x, b % x, b**x, b @ x, b == x, b != x, b < x,
                    b <= x, b > x, b >= x, torch.where(b > 2, x, b), b.mul(x))

    return Buffers(), [(4,)]


def convolutional(torch):
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv = torch.nn.Conv2d(width, width, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(width)

        def forward(self, x):
            return x + torch.nn.functional.relu(self.norm(self.conv(x)))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = torch.nn.Conv2d(1, 4, 3)
            self.blocks = torch.nn.ModuleList([Block(4) for _ in range(2)])
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            x = torch.nn.functional.adaptive_avg_pool2d(x, 1)
            return self.head(torch.flatten(x, 1))

    return Net().eval(), [(2, 1, 6, 6)]


ALL = [arithmetic, functions, methods, indexing, results, constants, signature, variadic, perceptron,
       buffers_first, convolutional]
