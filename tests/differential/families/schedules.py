"""Learning-rate schedules and the optimizers under them: what is kept where, in which order, and what is refused."""

from __future__ import annotations

_START = '''import copy, io, pickle
from torch.optim import lr_scheduler as S
from torch.optim import swa_utils
torch.set_default_dtype(torch.float64)
class Double:
    def __init__(self, k): self.k = k
    def __call__(self, epoch): return self.k ** epoch
class Mine(S.LRScheduler):
    def get_lr(self): return [g["lr"] * 0.5 if self.last_epoch else g["lr"] for g in self.optimizer.param_groups]
class Held(S.LRScheduler):
    def get_lr(self): return [b / (1 + self.last_epoch) for b in self.base_lrs]
    def _get_closed_form_lr(self): return [b * self.last_epoch for b in self.base_lrs]
seen = []
P = [nn.Parameter(torch.linspace(-1, 1, 3)), nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 0.5))]
def loss():
    return sum((p * p).sum() for p in P)
def closure():
    opt.zero_grad(); l = loss(); l.backward(); seen.append(float(l)); return l
def saved(s):
    return {k: v for k, v in s.items() if not callable(v)}
def state(s):
    d = s.state_dict()
    return {k: d[k] for k in sorted(d) if not k.startswith("_scale_fn") and k not in ("anneal_func", "_anneal_func", "_schedulers", "lr_lambdas")}
def groups():
    return [{k: v for k, v in g.items() if k != "params"} for g in opt.param_groups]
'''
_OPTIMIZERS = (
    "torch.optim.SGD(P[:2], lr=0.1)", "torch.optim.SGD(P[:2], lr=0.1, momentum=0.9)", "torch.optim.SGD(P[:2], lr=torch.tensor(0.1))",
    "torch.optim.SGD([{'params': P[:1]}, {'params': P[1:2], 'lr': 0.01}], lr=0.1, momentum=0.5)", "torch.optim.Adam(P[:2], lr=0.1)",
    "torch.optim.AdamW([{'params': [P[0]], 'betas': (0.8, 0.9)}, {'params': [P[1]], 'weight_decay': 0.3}], lr=0.02)",
    "torch.optim.Adam(P[:2], lr=torch.tensor(0.1), foreach=False)", "torch.optim.RMSprop(P[:2], momentum=0.1)",
    "torch.optim.Adam([('a', P[0]), ('b', P[1])], lr=0.05)", "torch.optim.SGD(P[:2])", "torch.optim.Rprop(P[:2])", "torch.optim.Adagrad(P[:2], lr_decay=0.1)",
    "torch.optim.LBFGS(P[:2], lr=0.1, max_iter=3)", "torch.optim.Adamax(P[:2], capturable=False)", "torch.optim.SGD(iter(P[:2]), 0.1, 0.9, 0, 0, True)",
    "torch.optim.SGD([{'params': P[:1], 'initial_lr': 0.3}, {'params': P[1:2], 'initial_lr': 0.2}], lr=0.1)", "torch.optim.Adafactor(P[:2])",
)
_BAD = (
    "torch.optim.SGD([], lr=0.1)", "torch.optim.SGD(P[0], lr=0.1)", "torch.optim.SGD(P, lr=-1)", "torch.optim.SGD([1, 2])", "torch.optim.Adam(P, betas=(1.0, 0.9))",
    "torch.optim.SGD([{'params': P[:1]}, {'params': P[:2]}], lr=0.1)", "torch.optim.SGD(P, nesterov=True)", "torch.optim.Adam(P, eps=-1)", "torch.optim.SGD([P[0], P[0]], lr=0.1)",
    "torch.optim.Adam(P, lr=torch.tensor([0.1, 0.2]))", "torch.optim.Adam(P, lr=torch.tensor(0.1), foreach=True)", "torch.optim.Adam(P, fused=True, foreach=True)", "torch.optim.SGD([{'lr': 0.1}])",
    "torch.optim.SGD([P[0] * 2], lr=0.1)", "torch.optim.SGD([{'params': {P[0], P[1]}}], lr=0.1)", "torch.optim.SGD({P[0]}, lr=0.1)", "torch.optim.Adam([('a', P[0]), P[1]])",
    "torch.optim.SGD([{'params': P[:1], 'lr': -3}])", "torch.optim.SGD(P, momentum=-1)", "torch.optim.SGD(None)", "torch.optim.Adam(P, lr=torch.tensor(0.1), fused=True)",
    "torch.optim.Adam(P, weight_decay=-1)", "torch.optim.RMSprop(P, alpha=-1)", "torch.optim.LBFGS([{'params': P[:1]}, {'params': P[1:]}])", "torch.optim.SGD(P, learning_rate=1)", "torch.optim.SGD()",
    "torch.optim.SparseAdam(P)", "torch.optim.ASGD(P, lr=-1)", "torch.optim.Optimizer(P, {})", "torch.optim.Optimizer(P, {'lr': 1}).step()", "torch.optim.SGD('abc')",
)
_SCHEDULES = (
    "S.StepLR(opt, 2)", "S.StepLR(opt, step_size=1, gamma=0.5)", "S.MultiStepLR(opt, [1, 3], 0.5)", "S.MultiStepLR(opt, [3, 1, 1])", "S.ConstantLR(opt, 0.5, 2)", "S.LinearLR(opt, 0.5, total_iters=3)",
    "S.LinearLR(opt)", "S.ExponentialLR(opt, 0.9)", "S.PolynomialLR(opt, 4, 2.0)", "S.CosineAnnealingLR(opt, 3)", "S.CosineAnnealingLR(opt, 4, 0.01)", "S.CosineAnnealingWarmRestarts(opt, 2)",
    "S.CosineAnnealingWarmRestarts(opt, 1, 2, 0.001)", "S.LambdaLR(opt, lambda e: 0.5 ** e)", "S.LambdaLR(opt, [lambda e: 0.5 ** e] * len(opt.param_groups))", "S.LambdaLR(opt, Double(0.9))",
    "S.MultiplicativeLR(opt, lambda e: 0.9)", "S.ReduceLROnPlateau(opt, patience=0)", "S.ReduceLROnPlateau(opt, 'max', 0.5, 1, 0.1, 'abs', 1, 0.001)",
    "S.CyclicLR(opt, 0.01, 0.1, cycle_momentum=False)", "S.CyclicLR(opt, 0.01, 0.1, 2, 3, 'triangular2')", "S.CyclicLR(opt, 0.01, 0.1, 2, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "S.CyclicLR(opt, 0.01, 0.1, 2, scale_fn=lambda x: 0.5, scale_mode='iterations', cycle_momentum=False)",
    "S.OneCycleLR(opt, 0.5, total_steps=6)", "S.OneCycleLR(opt, max_lr=0.5, epochs=2, steps_per_epoch=4, anneal_strategy='linear', three_phase=True)", "S.OneCycleLR(opt, 0.5, 5, cycle_momentum=False)",
    "S.SequentialLR(opt, [S.ConstantLR(opt, 0.1, 2), S.ExponentialLR(opt, 0.9)], [2])", "S.SequentialLR(opt, [S.LinearLR(opt, 0.1, total_iters=2), S.CosineAnnealingLR(opt, 4), S.StepLR(opt, 1)], [2, 4])",
    "S.ChainedScheduler([S.ConstantLR(opt, 0.1, 2), S.ExponentialLR(opt, 0.9)])", "S.ChainedScheduler([S.StepLR(opt, 2), S.LinearLR(opt)], opt)", "Mine(opt)", "Held(opt)", "swa_utils.SWALR(opt, 0.05, 2)",
    "swa_utils.SWALR(opt, swa_lr=0.05, anneal_epochs=3, anneal_strategy='linear')", "S.StepLR(opt, 2, last_epoch=1)", "S.CosineAnnealingLR(opt, 3, last_epoch=2)", "S.LinearLR(opt, last_epoch=0)",
    "S.CosineAnnealingWarmRestarts(opt, 2, last_epoch=3)", "S.OneCycleLR(opt, 0.5, 5, last_epoch=1)",
)
_BAD_SCHEDULES = (
    "S.StepLR(opt)", "S.StepLR(None, 2)", "S.LambdaLR(opt, [lambda e: e] * 3)", "S.LambdaLR(opt, 3)", "S.ConstantLR(opt, 2.0)", "S.ConstantLR(opt, -1)", "S.LinearLR(opt, 0)", "S.LinearLR(opt, 0.5, 1.5)",
    "S.CosineAnnealingWarmRestarts(opt, 0)", "S.CosineAnnealingWarmRestarts(opt, 1, 0.5)", "S.OneCycleLR(opt, 0.1)", "S.OneCycleLR(opt, 0.1, total_steps=-1)", "S.OneCycleLR(opt, 0.1, 5, pct_start=2)",
    "S.OneCycleLR(opt, 0.1, 5, anneal_strategy='x')", "S.OneCycleLR(opt, [0.1] * 3, 5)", "S.CyclicLR(opt, [0.1] * 3, 0.2)", "S.CyclicLR(opt, 0.1, 0.2, mode='x')", "S.CyclicLR(opt, 0.1, 0.2, scale_mode='x')",
    "S.ReduceLROnPlateau(opt, 'x')", "S.ReduceLROnPlateau(opt, factor=1.0)", "S.ReduceLROnPlateau(opt, threshold_mode='x')", "S.ReduceLROnPlateau(opt, min_lr=[0.1] * 3)", "S.ReduceLROnPlateau(opt, verbose=True)",
    "S.SequentialLR(opt, [], [])", "S.SequentialLR(opt, [S.StepLR(opt, 1)], [1])", "S.SequentialLR(opt, [S.StepLR(opt, 1), S.StepLR(torch.optim.SGD(P, 0.1), 1)], [1])", "S.ChainedScheduler([])", "S.ChainedScheduler(3)",
    "S.ChainedScheduler([S.StepLR(opt, 1), S.StepLR(torch.optim.SGD(P, 0.1), 1)])", "S.SequentialLR(opt, [S.StepLR(opt, 1), S.ReduceLROnPlateau(opt)], [1])", "S.MultiplicativeLR(opt, [lambda e: 1] * 3)",
    "S.CosineAnnealingLR(opt)", "S.CosineAnnealingLR(opt, 0)", "S.PolynomialLR(opt, 0)", "S.StepLR(opt, 0)", "S.ExponentialLR(opt, 'a')", "S.LRScheduler(opt)", "S.StepLR(opt, 2, verbose=True)", "swa_utils.SWALR(opt, 0.1, anneal_strategy='x')",
    "swa_utils.SWALR(opt, 0.1, anneal_epochs=-1)", "swa_utils.SWALR(opt, [0.1] * 3)", "S.StepLR(opt.param_groups, 2)", "S.ChainedScheduler([S.ReduceLROnPlateau(opt), S.StepLR(opt, 1)])", "S.CyclicLR(opt, 0.1, 0.2, 0)",
)
_EVENTS = (
    *["loss().backward(); opt.step(); sched.step()"] * 3, *["opt.step(closure); sched.step(1.0)"] * 2, "sched.step()", "sched.step(2)", "sched.step(epoch=5)", "sched.step(1.5)", "sched.step(metrics=0.3)", "sched.step(torch.tensor(0.7))",
    "sched.step(-1)", "opt.step()", "opt.step(closure)", "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "opt.zero_grad(False)", "opt.add_param_group({'params': P[2]})", "opt.add_param_group({'params': [P[2]], 'lr': 0.7, 'note': 'x'})",
    "opt.add_param_group({'params': [P[0]]})", "opt.add_param_group([P[2]])", "opt.add_param_group({'params': 'x'})", "opt.add_param_group({'params': torch.ones(2).requires_grad_() * 2})", "opt.add_param_group({'params': [P[2]], 'initial_lr': 0.2})",
    "opt.param_groups[0]['lr'] = 0.3", "opt.param_groups[0]['lr'] *= 2", "opt.param_groups[-1]['lr'] = torch.tensor(0.2)", "opt.param_groups[0]['initial_lr'] = 1.0", "opt.defaults['lr'] = 5", "opt.param_groups[0].pop('initial_lr', None)",
    "sched.last_epoch = 3", "sched.base_lrs", "sched._step_count", "sched.get_last_lr()", "sched.get_lr()", "sched.load_state_dict(copy.deepcopy(sched.state_dict()))", "sched.load_state_dict({'last_epoch': 7})", "sched.load_state_dict({})", "s2 = copy.deepcopy(sched.state_dict())",
    "'s2' in globals() and sched.load_state_dict(s2)", "sd = copy.deepcopy(opt.state_dict())", "'sd' in globals() and opt.load_state_dict(sd)", "opt.load_state_dict({'state': {}, 'param_groups': []})",
    "opt.load_state_dict({'state': {}, 'param_groups': [{'params': [0]}]})", "opt.load_state_dict({})", "opt.state_dict()['param_groups']", "sorted(opt.state_dict())", "f = io.BytesIO(); torch.save(opt.state_dict(), f); f.seek(0); opt.load_state_dict(torch.load(f))",
    "f = io.BytesIO(); torch.save(sched.state_dict(), f); f.seek(0); sched.load_state_dict(torch.load(f, weights_only=False))", "opt = pickle.loads(pickle.dumps(opt))", "opt = copy.deepcopy(opt)", "sched = copy.deepcopy(sched); opt = sched.optimizer",
    "sched.optimizer is opt", "h = opt.register_step_pre_hook(lambda o, a, k: seen.append(('pre', len(a), sorted(k))))", "h = opt.register_step_post_hook(lambda o, a, k: seen.append('post'))", "'h' in globals() and h.remove()",
    "opt.register_state_dict_pre_hook(lambda o: seen.append('sd'))", "opt.register_state_dict_post_hook(lambda o, d: {**d, 'more': 1})", "opt.register_load_state_dict_pre_hook(lambda o, d: seen.append(sorted(d)))", "opt.register_load_state_dict_post_hook(lambda o: seen.append('loaded'))",
    "opt.register_step_pre_hook(lambda o, a, k: 3)", "opt.register_step_pre_hook(lambda o, a, k: (a, k))", "from torch.optim.optimizer import register_optimizer_step_post_hook as post; hh = post(lambda o, a, k: seen.append('global'))", "'hh' in globals() and hh.remove()", "opt.state.clear()", "P[0].grad = None", "P[0].grad = torch.ones(3)",
    "P[1].requires_grad_(False)", "P[1].requires_grad_(True)", "P[0].data = torch.zeros(3)", "len(opt.state)", "[sorted(v) for v in opt.state.values()]", "P[0] in opt.state", "opt.state[P[0]]", "repr(opt)", "opt", "sched.__dict__.keys() >= {'optimizer', 'last_epoch'}",
    "sched.eta_min", "sched.T_cur", "sched.T_i", "sched.gamma", "sched.num_bad_epochs", "sched.best", "sched.in_cooldown", "sched.cooldown_counter", "sched._last_lr", "sched.milestones", "sched.is_better(1.0, 2.0)", "opt._step_count", "opt.step.__name__",
    "with torch.no_grad(): opt.step()", "loss().backward()", "(loss() * 2).backward()", "opt.step(lambda: 5)", "opt.param_groups[0]['params'].append(P[2])", "opt.param_groups[0].setdefault('momentum', 0.4)",
    "sched.optimizer = opt", "sched.step(float('nan'))", "sched.step('a')", "opt.step(3)", "opt.step(closure, 1)", "opt.param_groups[0]['weight_decay'] = 0.1", "opt.param_groups[0]['maximize'] = True", "sched.print_lr(True, 0, 0.1)",
)


def schedules(r):
    """An optimizer, a schedule, and what a training script and its checkpoints do to both."""
    lines = [_START, f"opt = {r.choice(_OPTIMIZERS)}"]
    if r.random() < 0.3:
        lines.append(r.choice(_BAD))
    lines.append(f"sched = {r.choice(_SCHEDULES)}")
    if r.random() < 0.3:
        lines.append(r.choice(_BAD_SCHEDULES))
    lines.append("sched = globals().get('sched') or S.StepLR(opt, 3)")
    for _ in range(r.randint(5, 12)):
        if r.random() < 0.08:
            lines.append(f"sched = {r.choice(_SCHEDULES)}")
        lines += [r.choice(_EVENTS), "groups(), seen[-4:], P"]
    lines += ["state(sched)", "sched.get_last_lr()"]
    return "\n".join(lines)
