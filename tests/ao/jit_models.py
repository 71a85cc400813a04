"""Models for `test_quantize_jit`: classes in the library that is given, as their source is what is compiled."""


def models(t):
    """{name: (a model in eval mode, its input's shape)}"""
    nn, F = t.nn, t.nn.functional  # noqa: N806

    class ConvNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, bias=False)
            self.bn = nn.BatchNorm2d(2)
            self.fc = nn.Linear(8, 3)

        def forward(self, x):
            y = F.relu(self.bn(self.conv(x)))
            y = y + y
            y = y * 2
            z = self.fc(t.sigmoid(F.max_pool2d(y, 2)).flatten(1))
            return F.log_softmax(z + 1, 1)

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Conv2d(4, 4, 3, padding=1)
            self.two = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            y = t.relu(self.one(x))
            z = F.relu(self.two(y) + y)
            return t.cat([z, self.one(z)], 1).mean([2, 3])

    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 6)
            self.b = nn.Linear(6, 6)

        def forward(self, x):
            y = self.a(x)
            z = self.b(x)
            return F.relu(y * z), y + 1, y * 2.5, F.hardtanh(z), t.tanh(y), F.hardswish(z), F.elu(y)

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LayerNorm(6)
            self.group = nn.GroupNorm(2, 4)
            self.instance = nn.InstanceNorm1d(4)
            self.batch = nn.BatchNorm2d(2)

        def forward(self, x):
            batched = F.relu(self.batch(x.reshape(x.shape[0], 2, 2, 6)))
            return self.layer(x), self.group(x), self.instance(x), batched

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Conv1d(2, 3, 2)
            self.three = nn.Conv3d(2, 3, 2)
            self.gru = nn.Linear(6, 2)

        def forward(self, x):
            return self.gru(self.one(x)), self.three(x.reshape(1, 2, 2, 2, -1).relu())

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 6)
            self.b = nn.Linear(6, 6)

        def forward(self, x):
            if x.dim() > 1:
                y = self.a(x)
            else:
                y = self.b(x)
            return self.b(y.view(-1, 6))

    def trained(model):
        for i, p in enumerate(model.parameters()):
            p.data = t.linspace(-1, 1, p.numel()).sin().mul(1 + i % 3).reshape(p.shape) * 0.5
        for name, b in model.named_buffers():
            if b.dtype == t.float32:
                b.copy_(t.linspace(0.5, 1.5, b.numel()))
        return model.eval()

    inner = nn.Sequential(nn.Conv2d(4, 2, 1, bias=False), nn.BatchNorm2d(2))
    return {
        "conv net": (trained(ConvNet()), (2, 1, 6, 6)),
        "residual": (trained(Residual()), (2, 4, 5, 5)),
        "products": (trained(Products()), (5, 6)),
        "norms": (trained(Norms()), (3, 4, 6)),
        "convolutions": (trained(Convolutions()), (4, 2, 7)),
        "branches": (trained(Branches()), (5, 6)),
        "nested": (trained(nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Dropout(), nn.Linear(8, 2))), (5, 6)),
        "folded": (trained(nn.Sequential(inner, nn.ReLU())), (2, 4, 3, 5)),
    }
