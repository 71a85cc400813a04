"""Spectral normalization by a hook (see also `torch.nn.utils.parametrizations.spectral_norm`)."""

from __future__ import annotations

from ...autograd import no_grad
from ...eager.core import api as torch
from .. import functional as F
from ..parameter import Parameter, UninitializedParameter
from . import _hooks
from ._matrix import as_matrix, output_dim

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


class SpectralNorm:
    """The hook that computes ``name`` from ``name_orig`` and the vectors ``name_u`` and ``name_v``."""

    # 1: the vector v is kept, too.
    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    @property
    def tensor_name(self):
        return self.name

    def reshape_weight_to_matrix(self, weight):
        return as_matrix(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        weight, u, v = (getattr(module, self.name + s) for s in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(torch.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the backward pass may read them later
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module):
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))

    def _solve_v_and_rescale(self, weight_mat, u, target_sigma):
        """The v for which ``u = W v`` by least squares, so long that ``u W v`` is the given sigma."""
        v = torch.linalg.pinv(weight_mat.t() @ weight_mat) @ (weight_mat.t() @ u)
        return v.mul_(target_sigma / torch.dot(u, torch.mv(weight_mat, v)))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        _hooks.refuse_second(module, SpectralNorm, name, "spectral_norm")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(
                f"`SpectralNorm` cannot be applied as parameter `{name}` is None"
            )
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            lengths = hook.reshape_weight_to_matrix(weight).shape
            vectors = [
                F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in lengths
            ]
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # so that it is there before the first call
        for suffix, vector in zip(("_u", "_v"), vectors, strict=True):
            module.register_buffer(name + suffix, vector)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Computes the vector v for checkpoints of version 0, which do not have it."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs):
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        complete = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and complete and key not in state_dict:
            return
        missing = [key + s for s in ("_orig", "", "_u") if key + s not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Writes the version into the metadata."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter, as a matrix, by an estimate of its spectral norm before each call.

    Args:
        n_power_iterations: how often the estimate is refined by a call in training.
        dim: the dimension of outputs; 0 by default, 1 for transposed convolutions.

    Raises:
        RuntimeError: if the parameter is normalized already.
        ValueError: for a parameter that is None or not initialized.

    >>> import ftorch as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the normalized parameter an ordinary one. Raises ValueError if it is not normalized."""
    _hooks.take(module, SpectralNorm, name, f"spectral_norm of '{name}' not found in {module}")
    for table, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(table.items()):
            if isinstance(getattr(hook, "hook", hook), kind):
                if getattr(hook, "hook", hook).fn.name == name:
                    del table[key]
                    break
    return module
