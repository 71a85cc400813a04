# needs: xlstm
import torch
from xlstm import (
    FeedForwardConfig,
    mLSTMBlockConfig,
    mLSTMLayerConfig,
    sLSTMBlockConfig,
    sLSTMLayerConfig,
    xLSTMBlockStack,
    xLSTMBlockStackConfig,
)

torch.manual_seed(0)
layer = sLSTMLayerConfig(backend="vanilla", num_heads=4, conv1d_kernel_size=4)
model = xLSTMBlockStack(xLSTMBlockStackConfig(
    mlstm_block=mLSTMBlockConfig(mlstm=mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=4)),
    slstm_block=sLSTMBlockConfig(slstm=layer, feedforward=FeedForwardConfig(proj_factor=1.3, act_fn="gelu")),
    context_length=16, num_blocks=3, embedding_dim=32, slstm_at=[1],
))
x = torch.randn(2, 16, 32)
optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
for _ in range(5):
    loss = (model(x) - x.roll(1, 1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses)
assert losses[-1] < losses[0]
# Step by step as all at once.
model.eval()
state, steps = {}, []
with torch.no_grad():
    for t in range(6):
        y, state = model.step(x[:, t : t + 1], state=state)
        steps.append(y)
    assert torch.allclose(torch.cat(steps, 1), model(x)[:, :6], atol=1e-4)
