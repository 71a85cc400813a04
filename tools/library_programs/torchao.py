# needs: torchao
import io

import torch
from torch import nn
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
    quantize_,
)
from torchao.quantization.qat import QATConfig


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(dtype).eval()


x = torch.randn(4, 64)
four_bits = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
with torch.no_grad():
    for config, dtype, least in (
        (Int8WeightOnlyConfig(), torch.float32, 0.01), (Int8WeightOnlyConfig(), torch.bfloat16, 0.03),
        (Int8DynamicActivationInt8WeightConfig(), torch.float32, 0.03), (Float8WeightOnlyConfig(), torch.bfloat16, 0.1),
        (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), torch.float32, 0.2),
        (four_bits, torch.float32, 0.2),
    ):
        model = net(dtype)
        expected = model(x.to(dtype))
        quantize_(model, config)
        found = model(x.to(dtype))
        assert (found - expected).norm() < least * expected.norm(), config
        for _ in range(20):  # calls that are made often are made otherwise by the interpreter
            assert torch.allclose(model(x.to(dtype)), found, 1e-2, 1e-5), config
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        loaded = net(dtype).to("meta")
        loaded.load_state_dict(torch.load(file, weights_only=False), assign=True)
        assert torch.allclose(loaded(x.to(dtype)), found, 1e-2, 1e-5), config
model = net().train()
quantize_(model, QATConfig(four_bits, step="prepare"))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
trained = model(x)
quantize_(model, QATConfig(four_bits, step="convert"))
assert (model(x) - trained).norm() < 0.05 * trained.norm()
print("done")
