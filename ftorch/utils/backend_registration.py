"""A name of its own for the device type that stands for other backends (``privateuseone``)."""

from __future__ import annotations

from ..eager.tensor import Tensor

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

_name = "privateuseone"


def backend_name() -> str:
    """The device type's name: what it was renamed to."""
    return _name


def rename_privateuse1_backend(backend_name: str) -> None:
    """Gives the device type its name, once.

    Raises:
        RuntimeError: if it has got another name.
    """
    global _name
    if not isinstance(backend_name, str):
        raise TypeError(f"rename_privateuse1_backend(): argument must be str, not {type(backend_name).__name__}")
    if _name not in ("privateuseone", backend_name):
        raise RuntimeError(f"torch.register_privateuse1_backend() has already been set! Current backend: {_name}")
    _name = backend_name


def _to_device(self, device=None, non_blocking=False, **kwargs):
    raise ModuleNotFoundError(
        f"No module named 'torch.{_name}': devices other than the CPU, GPUs and meta are those that JAX has"
    )


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True, for_module: bool = True, for_packed_sequence: bool = True, for_storage: bool = False,
    unsupported_dtype=None,
) -> None:
    """Adds the device type's methods to tensors and modules: ``is_NAME``, and ``NAME()`` that moves there.

    Raises:
        RuntimeError: if there are methods of that name.
    """
    from ..nn import Module
    from ..nn.utils.rnn import PackedSequence

    for wanted, kind in ((for_tensor, Tensor), (for_module, Module), (for_packed_sequence, PackedSequence)):
        if not wanted:
            continue
        if hasattr(kind, _name):
            raise RuntimeError(f"Can not automatically generate {_name}() method for {kind.__name__}: it has one.")
        setattr(kind, _name, _to_device)
        if kind is not Module:
            setattr(kind, f"is_{_name}", property(lambda self: False))
