"""Models that are quantized as graphs: each a function of a library to (model, inputs, QConfig mapping)."""


def on_grid(t, model):
    """The model with weights whose products and sums are exact, in any order."""
    with t.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * 16).round() / 16)
    return model


def draw(t, *shape):
    """Inputs whose products and sums are exact, in any order."""
    return t.randint(-16, 17, shape) / 8


def default(t):
    return t.ao.quantization.get_default_qconfig_mapping("x86")


def linear(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (draw(t, 5, 8),), default(t)


def conv_bn_relu(t):
    nn = t.nn
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2))
    return layers, (draw(t, 2, 3, 9, 9),), default(t)


def residual(t):
    nn = t.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.pool, self.out = nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 3)
            self.sigmoid = nn.Sigmoid()

        def forward(self, x):
            y = t.relu(x + self.conv2(self.relu(self.bn(self.conv1(x)))))
            z = self.out(self.pool(t.cat([x, y], 1)).flatten(1))
            z = z.view(z.size(0), -1)
            return {"a": self.sigmoid(z) * 2.0, "b": [nn.functional.softmax(z + 1, -1)]}

    return Block(), (draw(t, 2, 4, 6, 6),), default(t)


def activations(t):
    nn = t.nn
    layers = nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.LeakyReLU(0.1), nn.ELU(), nn.ReLU6(), nn.LayerNorm(8),
                           nn.Dropout(), nn.Linear(8, 3), nn.Sigmoid(), nn.Tanh(), nn.Softmax(-1))
    return layers, (draw(t, 4, 8),), default(t)


def conv1d(t):
    nn = t.nn
    layers = nn.Sequential(nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(6, 2, 2))
    return layers, (draw(t, 2, 3, 12),), default(t)


def functions(t):
    nn, F = t.nn, t.nn.functional

    class Functions(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.b1 = nn.Parameter(draw(t, 4, 3, 3, 3)), nn.Parameter(draw(t, 4))
            self.w2, self.b2 = nn.Parameter(draw(t, 5, 16)), nn.Parameter(draw(t, 5))

        def forward(self, x):
            y = F.relu(F.conv2d(x, self.w1, self.b1, (1, 1), (1, 1), (1, 1), 1))
            y = F.max_pool2d(F.hardswish(y), 2).reshape(-1, 16)
            y = F.linear(y, self.w2, bias=self.b2)
            return F.leaky_relu(y, 0.1).permute(1, 0), y.shape[0]

    return Functions(), (draw(t, 2, 3, 4, 4),), default(t)


def mobile(t):
    nn = t.nn
    layers = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4), nn.Hardswish(), nn.AvgPool2d(2),
                           nn.Conv2d(4, 8, 1), nn.Hardsigmoid(), nn.Hardtanh(), nn.PixelShuffle(2))
    return layers, (draw(t, 1, 4, 8, 8),), default(t)


def lstm(t):
    mapping = t.ao.quantization.QConfigMapping().set_global(t.ao.quantization.default_dynamic_qconfig)

    class Tagger(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru = t.nn.LSTM(6, 5, 2, bidirectional=True), t.nn.GRU(10, 4)
            self.cell, self.out = t.nn.RNNCell(4, 4), t.nn.Linear(4, 3)

        def forward(self, x):
            y, (h, _) = self.lstm(x)
            z, _ = self.gru(y)
            return self.out(self.cell(z[0])), h

    return Tagger(), (draw(t, 3, 2, 6),), mapping


def embeddings(t):
    q = t.ao.quantization
    mapping = q.QConfigMapping().set_object_type(t.nn.EmbeddingBag, q.float_qparams_weight_only_qconfig)
    mapping.set_module_name("rows", q.float_qparams_weight_only_qconfig_4bit).set_module_name(
        "top", q.default_dynamic_qconfig
    )

    class Ranker(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.bags, self.rows = t.nn.EmbeddingBag(10, 12, mode="sum"), t.nn.EmbeddingBag(10, 12, mode="sum")
            self.top = t.nn.Sequential(t.nn.Linear(24, 4), t.nn.ReLU())

        def forward(self, index, offsets):
            return self.top(t.cat([self.bags(index, offsets), self.rows(index, offsets)], 1))

    return Ranker(), (t.tensor([1, 2, 3, 7, 9]), t.tensor([0, 2])), mapping


def transformer(t):
    nn = t.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
            self.up, self.down, self.act = nn.Linear(8, 16), nn.Linear(16, 8), nn.ReLU()

        def forward(self, x):
            b = x.shape[0]
            q, k, v = self.qkv(self.norm(x)).reshape(b, -1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            weights = (t.matmul(q, k.transpose(-2, -1)) * 0.5).softmax(-1)
            x = x + self.proj(t.matmul(weights, v).transpose(1, 2).reshape(b, -1, 8))
            return x + self.down(self.act(self.up(x)))

    return Attention(), (draw(t, 2, 3, 8),), default(t)


MODELS = [linear, conv_bn_relu, residual, activations, conv1d, functions, mobile, lstm, embeddings, transformer]
