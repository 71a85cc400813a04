# needs: botorch
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP

torch.manual_seed(0)
x = torch.rand(8, 2, dtype=torch.double)
y = -(x - 0.4).square().sum(1, keepdim=True)
model = SingleTaskGP(x, y)
value = LogExpectedImprovement(model, y.max())(torch.rand(4, 1, 2, dtype=torch.double))
assert value.shape == (4,) and value.isfinite().all()
print("done")
