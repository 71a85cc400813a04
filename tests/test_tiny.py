"""Seconds long: does the whole thing stand?"""

import subprocess
import sys

import ftorch as torch
from ftorch import nn


def test_a_model_learns():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


def test_torch_is_not_imported():
    code = (
        "import sys, ftorch, ftorch.nn, ftorch.optim, ftorch.utils.data, ftorch.func, ftorch.jit;"
        "ftorch.ones(2).sum().item(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_first_random_numbers():
    torch.manual_seed(0)
    assert [round(v, 4) for v in torch.randn(3).tolist()] == [1.541, -0.2934, -2.1788]
