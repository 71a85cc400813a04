"""``torch._fused_adam_`` and its kin: a step of an optimizer on lists of tensors, written into them.

The trace makes one program of what these are made of. ``state_steps`` count the step that is being made already.
"""

from __future__ import annotations

from ..autograd.mode_contexts import UncountedWrites
from ..core.composite import composite
from ..native.contexts import contextmanager
from ..tensor import modes


@contextmanager
def _outside_of_graphs(*lists):
    """PyTorch's kernels stand below autograd: leaves that require grad are written to, and no version counts it."""
    with_grad, modes.grad = modes.grad, False
    try:
        with UncountedWrites([t for tensors in lists for t in tensors]):
            yield
    finally:
        modes.grad = with_grad


def _is_skipped(found_inf) -> bool:
    return found_inf is not None and found_inf.item() == 1


def _check_lengths(params, absent=None, **lists):
    """Raises RuntimeError where a list is not as long as that of parameters, or the ``absent`` one is not empty."""
    for name, tensors in lists.items():
        if name == absent and tensors:
            raise RuntimeError(_NOT_TRUE.format(f"{name}.empty()"))
        if name != absent and len(tensors) != len(params):
            raise RuntimeError(_NOT_TRUE.format(f"{name}.size() == n_tensors"))


_NOT_TRUE = (
    "Expected {} to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement "
    "request to PyTorch.)"
)


def _unscale(grads, grad_scale):
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale.to(grad.device))


def _adam(params, grads, averages, squares, largest, steps, lr, betas, weight_decay, eps, amsgrad, maximize, is_decoupled,
          grad_scale, found_inf):
    if _is_skipped(found_inf):
        return
    _check_lengths(params, None if amsgrad else "max_exp_avg_sqs", grads=grads, exp_avgs=averages, exp_avg_sqs=squares,
                   max_exp_avg_sqs=largest, state_steps=steps)
    with _outside_of_graphs(params, grads, averages, squares, largest):
        _unscale(grads, grad_scale)
        _adam_each(params, grads, averages, squares, largest, steps, lr, betas, weight_decay, eps, amsgrad, maximize,
                   is_decoupled)


def _adam_each(params, grads, averages, squares, largest, steps, lr, betas, weight_decay, eps, amsgrad, maximize, is_decoupled):
    for i, (p, grad, average, square, step) in enumerate(zip(params, grads, averages, squares, steps)):
        grad = -grad if maximize else grad
        if weight_decay and is_decoupled:
            p.mul_(1 - lr * weight_decay)
        elif weight_decay:
            grad = grad + p * weight_decay
        average.lerp_(grad, 1 - betas[0])
        square.mul_(betas[1]).addcmul_(grad, grad, value=1 - betas[1])
        first, second = 1 - betas[0] ** step, 1 - betas[1] ** step
        size = square
        if amsgrad:
            size = largest[i].copy_(largest[i].maximum(square))
        p.sub_((average * (lr / first)) / (size.sqrt() / second.sqrt() + eps))


@composite()
def _fused_adam_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay, eps,
                 amsgrad, maximize, grad_scale=None, found_inf=None):
    """A step of Adam (``torch._fused_adam_``).

    Args:
        self, grads, exp_avgs, exp_avg_sqs: lists of equal lengths; ``max_exp_avg_sqs``: with ``amsgrad``.
        state_steps: the numbers of the step, from 1.
        lr: a number or a tensor.
        grad_scale: what the gradients are divided by first, which is written back.
        found_inf: a tensor of 1 where nothing is to be done.

    Raises:
        RuntimeError: for lists of other lengths.

    >>> import ftorch as torch
    >>> p, m, v = torch.ones(1), torch.zeros(1), torch.zeros(1)
    >>> torch._fused_adam_([p], [torch.ones(1)], [m], [v], [], [torch.tensor(1.0)], lr=0.5, beta1=0.9, beta2=0.999,
    ...                    weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    >>> p
    tensor([0.5000])
    """
    _adam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, (beta1, beta2), weight_decay, eps, amsgrad,
          maximize, False, grad_scale, found_inf)


@composite()
def _fused_adamw_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay, eps,
                  amsgrad, maximize, grad_scale=None, found_inf=None):
    """`_fused_adam_` with AdamW's weight decay (``torch._fused_adamw_``).

    >>> import ftorch as torch
    >>> p, m, v = torch.ones(1), torch.zeros(1), torch.zeros(1)
    >>> torch._fused_adamw_([p], [torch.ones(1)], [m], [v], [], [torch.tensor(1.0)], lr=0.5, beta1=0.9, beta2=0.999,
    ...                     weight_decay=0.5, eps=1e-8, amsgrad=False, maximize=False)
    >>> p
    tensor([0.2500])
    """
    _adam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, (beta1, beta2), weight_decay, eps, amsgrad,
          maximize, True, grad_scale, found_inf)


@composite()
def _fused_sgd_(self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize,
                is_first_step, grad_scale=None, found_inf=None):
    """A step of SGD (``torch._fused_sgd_``).

    Args:
        momentum_buffer_list: a tensor for each parameter, or none where ``momentum`` is 0.
        is_first_step: whether the buffers become the gradients.

    >>> import ftorch as torch
    >>> p = torch.ones(1)
    >>> torch._fused_sgd_([p], [torch.ones(1)], [], weight_decay=0.0, momentum=0.0, lr=0.25, dampening=0.0, nesterov=False,
    ...                   maximize=False, is_first_step=True)
    >>> p
    tensor([0.7500])
    """
    if _is_skipped(found_inf):
        return
    _check_lengths(self, None if momentum else "momentum_buffer_list", grads=grads, momentum_buffer_list=momentum_buffer_list)
    with _outside_of_graphs(self, grads, momentum_buffer_list):
        _unscale(grads, grad_scale)
        for i, (p, grad) in enumerate(zip(self, grads)):
            grad = -grad if maximize else grad
            if weight_decay:
                grad = grad + p * weight_decay
            if momentum:
                buffer = momentum_buffer_list[i]
                if is_first_step:
                    buffer.copy_(grad)
                else:
                    buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
                grad = grad + buffer * momentum if nesterov else buffer
            p.sub_(grad * lr)


@composite()
def _fused_adagrad_(self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale=None,
                    found_inf=None):
    """A step of Adagrad (``torch._fused_adagrad_``).

    >>> import ftorch as torch
    >>> p, s = torch.ones(1), torch.zeros(1)
    >>> torch._fused_adagrad_([p], [torch.full((1,), 2.0)], [s], [torch.tensor(1.0)], lr=0.25, lr_decay=0.0, weight_decay=0.0,
    ...                       eps=1e-10, maximize=False)
    >>> p, s
    (tensor([0.7500]), tensor([4.]))
    """
    if _is_skipped(found_inf):
        return
    _check_lengths(self, grads=grads, state_sums=state_sums, state_steps=state_steps)
    with _outside_of_graphs(self, grads, state_sums):
        _unscale(grads, grad_scale)
        for p, grad, total, step in zip(self, grads, state_sums, state_steps):
            grad = -grad if maximize else grad
            if weight_decay:
                grad = grad + p * weight_decay
            total.addcmul_(grad, grad)
            p.sub_(grad * (lr / (1 + (step - 1) * lr_decay)) / (total.sqrt() + eps))
