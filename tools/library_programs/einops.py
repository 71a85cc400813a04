# needs: einops
import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import EinMix, Rearrange, Reduce

x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
assert rearrange(x, "b c t -> b (c t)").equal(x.reshape(2, 12))
assert torch.allclose(reduce(x, "b c t -> b t", "mean"), x.mean(1))
assert repeat(x, "b c t -> b r c t", r=2).shape == (2, 2, 3, 4)
net = torch.nn.Sequential(Rearrange("b c t -> b t c"), torch.nn.Linear(3, 2), Reduce("b t c -> b c", "max"),
                          EinMix("b c -> b d", weight_shape="c d", c=2, d=5))
y = net(x)
y.sum().backward()
assert y.shape == (2, 5) and x.grad.shape == x.shape
scripted = torch.jit.script(torch.nn.Sequential(Rearrange("b c t -> b t c"), torch.nn.Linear(3, 2)))
assert scripted(x).shape == (2, 4, 2)
print("done")
