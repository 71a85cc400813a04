"""L-BFGS."""

from __future__ import annotations

import numpy as np

from ..autograd import enable_grad, no_grad
from ..eager.core import api as torch
from ..eager.runtime.executor import flush
from ..eager.tensor import Tensor
from ._fused import check_not_negative
from ._line_search import cubic_between, scalar, strong_wolfe
from .optimizer import Optimizer

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS. The closure is evaluated several times in a step.

    Args:
        params: parameters, in one group.
        lr: the step size (without a line search), or the first one to try.
        max_iter: iterations in a step.
        max_eval: evaluations in a step; ``1.25 * max_iter`` by default.
        tolerance_grad: stop when no gradient is larger.
        tolerance_change: stop when neither loss nor parameters change more.
        history_size: how many past steps are remembered.
        line_search_fn: None or ``"strong_wolfe"``.

    Raises:
        ValueError: several groups, or a negative learning rate.
    """

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7,
        tolerance_change=1e-9, history_size=100, line_search_fn=None,
    ):
        check_not_negative(lr=lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        })
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    def _numel(self):
        if self._numel_cache is None:
            self._numel_cache = sum(
                (2 if p.is_complex() else 1) * p.numel() for p in self._params
            )
        return self._numel_cache

    def _gather_flat_grad(self):
        flat = []
        for p in self._params:
            if p.grad is None:
                grad = torch.zeros_like(p)
            else:
                grad = p.grad.to_dense() if p.grad.is_sparse else p.grad
            flat.append((torch.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return torch.cat(flat, 0)

    def _add_grad(self, step_size, update):
        offset = 0
        for p in self._params:
            target = torch.view_as_real(p) if p.is_complex() else p
            size = target.numel()
            target.add_(update[offset : offset + size].view_as(target), alpha=step_size)
            offset += size

    def _directional_evaluate(self, closure, x, t, d):
        """Loss and gradient at ``x + t * d``; the parameters stay at ``x``."""
        self._add_grad(t, d)
        loss, gradient = float(closure()), self._gather_flat_grad()
        for p, value in zip(self._params, x, strict=True):
            p.copy_(value)
        return loss, gradient

    def step(self, closure):
        """Performs one step of up to ``max_iter`` iterations.

        Args:
            closure: clears the gradients, computes the loss, calls ``backward``, returns the loss.

        Returns:
            the first loss.

        Raises:
            AssertionError: for more than one group of parameters, which would be left as they are.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        with no_grad():
            return self._ftorch_step(enable_grad()(closure))

    def _ftorch_step(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        max_iter, max_eval = group["max_iter"], group["max_eval"]
        tolerance = group["tolerance_change"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        gradient = self._gather_flat_grad()
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return first_loss

        d, t = state.get("d"), state.get("t")
        previous = state.get("prev_flat_grad")
        # Kept in the state by a step that comes to its end.
        history = {name: state.get(name) for name in ("old_dirs", "old_stps", "ro", "H_diag")}
        for n_iter in range(1, max_iter + 1):
            state["n_iter"] += 1
            is_first = state["n_iter"] == 1
            if is_first:
                d = gradient.neg()
                history.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                y = gradient.sub(previous)
                alphas = state.setdefault("al", [None] * group["history_size"])
                d = self._ftorch_direction(history, alphas, gradient, y, d.mul(t))
            previous = gradient.clone() if previous is None else previous.copy_(gradient)  # the state's own
            previous_loss = loss
            t = min(1.0, 1.0 / scalar(gradient.abs().sum())) * lr if is_first else lr
            slope = scalar(gradient.dot(d))
            if slope > -tolerance:
                break
            used = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [p.clone() for p in self._params]
                loss, gradient, t, used = strong_wolfe(
                    lambda t, x=start, d=d: self._directional_evaluate(closure, x, t, d),
                    t, d, loss, gradient, slope, max_ls=max_eval - evaluations,
                )
                self._add_grad(t, d)
            else:
                self._add_grad(t, d)
                if n_iter != max_iter:
                    loss, gradient, used = float(closure()), None, 1
                    gradient = self._gather_flat_grad()
            evaluations += used
            state["func_evals"] += used
            if (
                n_iter == max_iter
                or evaluations >= max_eval
                or float(gradient.abs().max()) <= group["tolerance_grad"]
                or float(d.mul(t).abs().max()) <= tolerance
                or abs(loss - previous_loss) < tolerance
            ):
                break
        if isinstance(group["lr"], Tensor):
            t = torch.as_tensor(t, dtype=group["lr"].dtype)
        elif isinstance(t, np.generic):
            t = torch.as_tensor(t, dtype=gradient.dtype)
        state.update(d=d, t=t, **history, prev_flat_grad=previous, prev_loss=previous_loss)
        return first_loss

    @staticmethod
    def _ftorch_direction(history, alphas, gradient, y, s):
        """The quasi-Newton direction, by the two-loop recursion over the remembered steps."""
        curvature = y.dot(s)
        directions, steps, ro = history["old_dirs"], history["old_stps"], history["ro"]
        if float(curvature) > 1e-10:
            if len(directions) == len(alphas):
                for remembered in (directions, steps, ro):
                    remembered.pop(0)
            directions.append(y)
            steps.append(s)
            ro.append(1.0 / curvature)
            history["H_diag"] = curvature / y.dot(y)
        q = gradient.neg()
        # Each turn is a program of its own, the same for any length of the history.
        for i in reversed(range(len(directions))):
            alphas[i] = steps[i].dot(q) * ro[i]
            q = q - directions[i] * alphas[i]
            flush()
        r = q * history["H_diag"]
        flush()
        for i in range(len(directions)):
            r = r + steps[i] * (alphas[i] - directions[i].dot(r) * ro[i])
            flush()
        return r


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """The line search by the arguments that libraries with optimizers of their own give it: ``obj_func(x, t, d)``."""
    slope = scalar(gtd) if isinstance(gtd, Tensor) else gtd
    return strong_wolfe(lambda t: obj_func(x, t, d), t, d, f, g, slope, c1, c2, tolerance_change, max_ls)


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    values = [scalar(v) if isinstance(v, Tensor) else v for v in (x1, f1, g1, x2, f2, g2)]
    return cubic_between(*values, bounds)
