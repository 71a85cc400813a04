"""Whole training steps as one program: compiled is what eager is, and compiles once."""

import copy
import gc
import weakref

import pytest

import ftorch as torch
from ftorch import nn
from ftorch.eager.runtime.executor import stats

F = nn.functional


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def cnn():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(),
        nn.LazyLinear(3),
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.lstm(x.view(-1, 3, 2))[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.block(self.embed((x * 4).long().clamp(0, 11))).mean(1))


class Trainer:
    """A training loop's state, and a step of it: clipping, a schedule, metrics."""

    def __init__(self, model, optimizer, scheduler=None, clip=None, accumulate=1, zero="start",
                 scaler=None, autocast=False, set_to_none=True):
        self.model, self.optimizer = model, optimizer(model.parameters())
        self.scheduler = scheduler and scheduler(self.optimizer)
        self.clip, self.accumulate, self.zero, self.scaler = clip, accumulate, zero, scaler
        self.autocast, self.set_to_none = autocast, set_to_none
        self.seen = torch.zeros((), dtype=torch.int64)
        self.loss = torch.zeros(())

    def update(self):
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        if self.clip:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        else:
            norm = torch.zeros(())
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        if self.scheduler:
            self.scheduler.step()
        return norm

    def step(self, x, y):
        if self.zero == "start":
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
        correct = 0
        for part, target in zip(x.chunk(self.accumulate), y.chunk(self.accumulate)):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                out = self.model(part)
                loss = F.cross_entropy(out, target) / self.accumulate
            (self.scaler.scale(loss) if self.scaler else loss).backward()
            correct = correct + (out.argmax(1) == target).sum()
        norm = self.update()
        if self.zero == "end":
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
        self.seen += x.shape[0]
        self.loss = 0.9 * self.loss + 0.1 * loss.detach()
        return loss, norm, correct


optim, schedules = torch.optim, torch.optim.lr_scheduler
RECIPES = {
    "sgd": (mlp, {"optimizer": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3)}),
    "adam, clipping, a schedule": (cnn, {
        "optimizer": lambda p: optim.Adam(p, 1e-2), "clip": 0.5,
        "scheduler": lambda o: schedules.OneCycleLR(o, 0.05, total_steps=20)}),
    "adamw, accumulation": (Attention, {
        "optimizer": lambda p: optim.AdamW(p, 1e-2), "accumulate": 2, "zero": "end"}),
    "rmsprop, zeros": (Recurrent, {
        "optimizer": lambda p: optim.RMSprop(p, 1e-2), "set_to_none": False}),
    "amp": (mlp, {
        "optimizer": lambda p: optim.SGD(p, 0.05, momentum=0.5), "autocast": True, "clip": 1.0,
        "scaler": lambda: torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)}),
    "sequential schedules": (mlp, {
        "optimizer": lambda p: optim.SGD(p, 0.1, nesterov=True, momentum=0.9),
        "scheduler": lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=3), schedules.CosineAnnealingLR(o, 5)], [3])}),
}


def build(name):
    make, options = RECIPES[name]
    torch.manual_seed(0)
    model = make()
    model(torch.rand(2, 6))  # lazy layers
    options = dict(options)
    if "scaler" not in options:
        model.double()  # Adam makes a step of what is left of a gradient that ought to be zero
    if "scaler" in options:
        options["scaler"] = options["scaler"]()
    trainer = Trainer(model, **options)
    trainer.loss = trainer.loss.to(dtype_of(trainer))
    return trainer


def dtype_of(trainer):
    return next(trainer.model.parameters()).dtype


def run(trainer, step, batches):
    torch.manual_seed(7)
    out = []
    for x, y in batches:
        loss, norm, correct = step(x.to(dtype_of(trainer)), y)
        out.append((loss.item(), norm.item(), correct.item()))
    return out


def state(trainer):
    found = [*trainer.model.state_dict().values(), trainer.seen, trainer.loss]
    for entry in trainer.optimizer.state.values():
        found += [v for v in entry.values() if isinstance(v, torch.Tensor)]
    return found


def data(sizes):
    torch.manual_seed(1)
    return [(torch.rand(n, 6), torch.randint(0, 3, (n,))) for n in sizes]


@pytest.mark.parametrize("name", RECIPES)
def test_a_step_is_one_program(name):
    batches = data([8] * 5)
    plain, trainer = build(name), build(name)
    expected = run(plain, plain.step, batches)
    compiled = torch.compile(trainer.step)
    found = run(trainer, compiled, batches)
    for a, b in zip(found, expected):
        assert a == pytest.approx(b, rel=2e-3, abs=2e-4)
    # Eager steps round to bfloat16 after each op, programs where they are fused do not.
    rounding = 2**-7 if name == "amp" else 2e-3
    for a, b in zip(state(trainer), state(plain)):
        assert torch.allclose(a.float(), b.float(), rounding, 2e-4)
    for group, other in zip(trainer.optimizer.param_groups, plain.optimizer.param_groups):
        assert group["lr"] == pytest.approx(other["lr"])
    if trainer.scheduler:
        assert trainer.scheduler.last_epoch == plain.scheduler.last_epoch
    if trainer.scaler:
        assert trainer.scaler.get_scale() == plain.scaler.get_scale()
    for p, q in zip(trainer.model.parameters(), plain.model.parameters()):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            assert torch.allclose(p.grad, q.grad, 2e-3, 2e-3)
    # Gradients that are there at the first call only make a program of their own.
    assert [e.reason for e in compiled.events] == [None] * len(compiled.programs)
    assert len(compiled.programs) <= (1 if trainer.set_to_none else 2)


def test_compilations_of_a_loop():
    """One for a steady loop, two with a shorter last batch."""
    trainer = build("adam, clipping, a schedule")
    compiled = torch.compile(trainer.step)
    torch.compile(torch.sin)(torch.zeros(1)).item()
    for epoch in range(3):
        for i, (x, y) in enumerate(data([8, 8, 8, 5])):
            x, y = x.double(), y.clone()
            torch.zeros(1).item()
            stats.reset()
            compiled(x, y)
            first = epoch == 0 and i in (0, 3)
            assert len(compiled.programs) == (1 if epoch == 0 and i < 3 else 2)
            if not first:
                assert stats.compilations == 0 and stats.programs == 1


def test_an_infinite_gradient_is_skipped():
    trainers = [build("amp"), build("amp")]
    steps = [trainers[0].step, torch.compile(trainers[1].step)]
    for i, (x, y) in enumerate(data([4] * 5)):
        if i == 2:
            x = x * float("inf")
        for trainer, step in zip(trainers, steps):
            torch.manual_seed(i)
            step(x, y)
    for a, b in zip(*map(state, trainers)):
        assert torch.allclose(a.float(), b.float(), 1e-2, 1e-3, equal_nan=True)
    assert trainers[0].scaler.state_dict() == trainers[1].scaler.state_dict()


def test_only_the_forward_pass_is_compiled():
    """Eager steps around a compiled model, and around a compiled loss."""
    plain = build("sgd")
    trainer = build("sgd")
    module = trainer.model
    trainer.model = torch.compile(module)
    batches = data([8] * 5)
    found, expected = run(trainer, trainer.step, batches), run(plain, plain.step, batches)
    for a, b in zip(found, expected):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-5)
    assert len(trainer.model._compiled.programs) == 1


def test_a_compiled_optimizer_step():
    model = mlp()
    other = copy.deepcopy(model)
    optimizers = [optim.Adam(m.parameters(), 1e-2) for m in (model, other)]
    step = torch.compile(lambda: optimizers[1].step())
    x = torch.rand(4, 6)
    for _ in range(4):
        for m, optimizer in zip((model, other), optimizers):
            optimizer.zero_grad()
            m.eval()(x).square().sum().backward()
            if m is model:
                optimizer.step()
            else:
                step()
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.allclose(p, q, 1e-5, 1e-6)
    assert len(step.programs) == 1


def test_a_loaded_state_continues():
    trainer, plain = build("sgd"), build("sgd")
    compiled = torch.compile(trainer.step)
    batches = data([8] * 6)
    run(trainer, compiled, batches[:3])
    run(plain, plain.step, batches[:3])
    for t in (trainer, plain):
        t.optimizer.load_state_dict(copy.deepcopy(t.optimizer.state_dict()))
        t.optimizer.param_groups[0]["lr"] = 1e-3
        t.model.load_state_dict(copy.deepcopy(t.model.state_dict()))
    run(trainer, compiled, batches[3:])
    run(plain, plain.step, batches[3:])
    for a, b in zip(state(trainer), state(plain)):
        assert torch.allclose(a.float(), b.float(), 2e-3, 2e-4)


def test_checkpointing_inside_a_step():
    from ftorch.utils.checkpoint import checkpoint

    def make():
        torch.manual_seed(0)
        model = mlp()
        optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9, dampening=0.1)

        def step(x, y):
            loss = F.cross_entropy(checkpoint(model, x, use_reentrant=False), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    plain, compiled = make(), torch.compile(make())
    found = []
    for step in (plain, compiled):
        torch.manual_seed(3)
        found.append([step(x, y).item() for x, y in data([4] * 5)])
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert len(compiled.programs) == 1


def test_the_first_step_compiles_one_program():
    """Parameters, constants and the optimizer's state are made without XLA."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 11), nn.LayerNorm(11), nn.Linear(11, 3))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.ones(5, 6), torch.tensor([0, 1, 2, 1, 0])

    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    stats.reset()
    first = step(x, y).item()
    assert stats.compilations == 1
    assert step(x, y).item() < first
    assert stats.compilations == 1


def test_what_a_step_gives_is_freed_without_the_collector():
    """Results that a cycle holds would keep their memory until Python looks for cycles."""
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return {"loss": loss, "parts": (x * 2, x + 1)}

    gc.disable()
    try:
        for _ in range(3):
            result = step(torch.ones(2, 6))
            held = [weakref.ref(t) for t in (result["loss"], *result["parts"], model.weight.grad)]
            model.weight.grad = None
            del result
            assert [r() for r in held] == [None] * 4
    finally:
        gc.enable()


CHANGES = [
    {"lr": 0.5}, {"betas": [0.5, 0.9]}, {"weight_decay": 0.1}, {"eps": 1e-2},
    {"maximize": True}, {"lr": 0.5, "weight_decay": 0.2, "betas": (0.1, 0.2)},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_option_that_changes_after_many_steps(change):
    """... and changes back, and a list that is written to."""

    def curve(compiled):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        group = optimizer.param_groups[0]
        x, seen = torch.linspace(-1, 1, 12).view(3, 4), []

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        before = dict(group)
        for n in range(9):
            if n in (3, 6):
                group.update(copy.deepcopy(change) if n == 3 else {k: before[k] for k in change})
            if n == 5 and isinstance(group["betas"], list):
                group["betas"][0] = 0.7
            seen.append(run().item())
        return seen

    assert curve(True) == pytest.approx(curve(False), rel=1e-4)
