# needs: torchdiffeq
import math

import torch
from torchdiffeq import odeint, odeint_adjoint

a = torch.nn.Parameter(torch.tensor(-1.0))


class Decay(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = a

    def forward(self, t, y):
        return self.a * y


t = torch.linspace(0, 1, 5)
for solve in (odeint, odeint_adjoint):
    a.grad = None
    y = solve(Decay(), torch.ones(1), t, rtol=1e-6, atol=1e-6)
    y[-1].sum().backward()
    assert abs(y[-1].item() - math.exp(-1)) < 1e-4 and abs(a.grad.item() - math.exp(-1)) < 1e-3
print("done")
