"""Deep Q-learning of balancing a pole, with a replay memory and a target network.

    python examples/dqn.py
"""

import copy

import numpy as np
from common import main

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class Poles:
    """Many carts with a pole each (Barto, Sutton and Anderson 1983), moved together."""

    def __init__(self, count, seed=0):
        self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)
        self.age = np.zeros(count, int)
        self.lives = []  # how many steps each pole that fell was up

    def step(self, actions):
        """Pushes the carts to the left (0) or right (1); gives the next states and who fell."""
        x, v, angle, turn = self.state.T
        force = np.where(actions == 1, 10.0, -10.0)
        cos, sin = np.cos(angle), np.sin(angle)
        push = (force + 0.05 * turn**2 * sin) / 1.1
        bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        speed = push - 0.05 * bend * cos / 1.1
        moved = self.state + 0.02 * np.stack([v, speed, turn, bend], 1)
        moved = moved.astype(np.float32)
        fell = (abs(moved[:, 0]) > 2.4) | (abs(moved[:, 2]) > 0.2095)
        self.age += 1
        self.lives.extend(self.age[fell].tolist())
        self.age[fell] = 0
        fresh = self.random.uniform(-0.05, 0.05, moved.shape)
        self.state = np.where(fell[:, None], fresh, moved).astype(np.float32)
        return moved, fell


class Memory:
    """The last transitions, as tensors written in turn."""

    def __init__(self, size):
        self.columns = (
            torch.zeros(size, 4), torch.zeros(size, dtype=torch.int64), torch.zeros(size, 4),
            torch.zeros(size),
        )
        self.size, self.written = size, 0

    def add(self, *columns):
        count = len(columns[0])
        start = self.written % self.size
        for memory, column in zip(self.columns, columns):
            memory[start : start + count] = column
        self.written += count

    def sample(self, count):
        rows = torch.randint(0, min(self.written, self.size), (count,))
        return tuple(column[rows] for column in self.columns)


def trainer(width=64, carts=16, batch=128, explore=500):
    poles, memory = Poles(carts), Memory(carts * 1000)
    model = nn.Sequential(
        nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )
    target = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    taken = 0

    def act():
        """One move of every cart, at random less and less often, kept in the memory."""
        state = torch.from_numpy(poles.state)
        with torch.no_grad():
            best = model(state).argmax(1).numpy()
        curious = poles.random.random(carts) < max(0.05, 1 - taken / explore)
        actions = np.where(curious, poles.random.integers(0, 2, carts), best)
        moved, fell = poles.step(actions)
        memory.add(
            state, torch.from_numpy(actions), torch.from_numpy(moved),
            torch.from_numpy(fell.astype(np.float32)),
        )

    def step():
        nonlocal taken
        act()
        taken += 1
        state, action, following, fell = memory.sample(batch)
        with torch.no_grad():
            goal = 1 + 0.98 * (1 - fell) * target(following).amax(1)
        value = model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(value, goal)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters()):
                slow.lerp_(fast, 0.02)
        return loss.detach()

    def report():
        first, last = np.mean(poles.lives[:50]), np.mean(poles.lives[-50:])
        return f"a pole is up for {first:.0f} steps at first, for {last:.0f} in the end"

    return step, report


if __name__ == "__main__":
    main(torch, trainer, 2000, __doc__)
