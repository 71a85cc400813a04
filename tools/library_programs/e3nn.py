# needs: e3nn
import torch
from e3nn import o3

torch.manual_seed(0)
irreps = o3.Irreps("2x0e + 1x1o")
layer = o3.Linear(irreps, irreps)
rotation = o3.rand_matrix()
d = irreps.D_from_matrix(rotation)
x = irreps.randn(5, -1)
assert torch.allclose(layer(x @ d.T), layer(x) @ d.T, atol=1e-4)
print("done", o3.spherical_harmonics(1, torch.ones(3), True).tolist())
