"""Modules that are written once for both libraries: ``make(torch)``."""

from __future__ import annotations


def mlp(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1))


def cnn(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(), nn.Linear(8, 5),
    )


def resnet(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.down = None
            if stride != 1 or inputs != outputs:
                self.down = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += x if self.down is None else self.down(x)
            return self.relu(out)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
            self.bn = nn.BatchNorm2d(4)
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 8, 2))
            self.fc = nn.Linear(8, 5)

        def forward(self, x):
            x = self.blocks(self.pool(self.bn(self.stem(x)).relu_()))
            return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, (1, 1)), 1))

    return Net()


def recurrent(torch, kind="LSTM", **options):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 6)
            self.rnn = getattr(nn, kind)(6, 8, 2, batch_first=True, **options)
            self.out = nn.Linear(8 * (2 if options else 1), 4)

        def forward(self, tokens):
            out, state = self.rnn(self.embed(tokens))
            return self.out(out[:, -1]), state

    return Net()


def transformer(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            self.position = nn.Parameter(torch.linspace(-1, 1, 12 * 16).reshape(12, 16))
            layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = nn.Linear(16, 20)

        def forward(self, tokens):
            x = self.embed(tokens) + self.position[: tokens.shape[1]]
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            return self.out(self.layers(x, mask=mask, is_causal=True))

    return Net()


def writer(torch):
    """Writes to its input, to buffers and through views of them."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("cache", torch.zeros(4, 3))
            self.register_buffer("count", torch.zeros(()), persistent=False)
            self.scale = torch.tensor([2.0])

        def forward(self, x):
            x[:, 0] = 3
            self.count += 1
            self.cache[1:3] += 1
            self.cache.t()[0].mul_(2)
            flat = self.cache.view(-1)
            flat[0] = 7
            first, second = self.cache.chunk(2)
            first.add_(torch.tensor([1.0, 2.0, 3.0]))
            return self.norm(x) * self.scale, flat + 0, second

    return Net()


def images(torch):
    return torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)


def more_images(torch):
    return torch.linspace(-2, 1, 5 * 3 * 16 * 16).reshape(5, 3, 16, 16)


def tokens(torch, batch=2, length=5):
    return (torch.arange(batch * length) * 7 % 20).reshape(batch, length)


def rows(torch, batch=2):
    return torch.linspace(-1, 1, batch * 4).reshape(batch, 4)


MODELS = {
    "mlp": (mlp, rows, lambda torch: rows(torch, 7), ("batch",)),
    "cnn": (cnn, images, more_images, ("batch",)),
    "resnet": (resnet, images, more_images, ("batch",)),
    "lstm": (recurrent, tokens, lambda torch: tokens(torch, 3, 9), ("batch", "length")),
    "transformer": (transformer, tokens, lambda torch: tokens(torch, 3, 9), ("batch", "length")),
}
