"""A training interrupted in one library and resumed in the other goes on as if it had not been."""

import io

import numpy as np
import pytest
import torch as reference

import ftorch as torch

PACKAGES = (reference, torch)
STEPS = 4


class Training:
    """A model with normalization, an optimizer with state, a schedule; noise from the generator."""

    def __init__(self, package, optimizer):
        self.package = package
        nn = package.nn
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
        )
        self.optimizer = getattr(package.optim, optimizer)(self.model.parameters(), lr=0.02)
        self.scheduler = package.optim.lr_scheduler.OneCycleLR(
            self.optimizer, 0.05, 2 * STEPS, cycle_momentum=False
        )

    def steps(self):
        package, losses = self.package, []
        for _ in range(STEPS):
            x, y = package.randn(5, 6), package.randint(0, 3, (5,))
            self.optimizer.zero_grad()
            loss = package.nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def save(self):
        file = io.BytesIO()
        state = {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(), "random": self.package.get_rng_state(),
        }
        self.package.save(state, file)
        file.seek(0)
        return file

    def load(self, file):
        state = self.package.load(file)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.package.set_rng_state(state["random"])


@pytest.mark.parametrize("first", PACKAGES, ids=["from PyTorch", "from ftorch"])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop", "Adagrad"])
def test_resuming_in_the_other_library(first, optimizer):
    second = PACKAGES[1 - PACKAGES.index(first)]
    first.manual_seed(3)
    start = Training(first, optimizer)
    start.steps()
    file = start.save()
    expected = start.steps()
    resumed = Training(second, optimizer)
    resumed.load(file)
    np.testing.assert_allclose(resumed.steps(), expected, rtol=1e-5)
