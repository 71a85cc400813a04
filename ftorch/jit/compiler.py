"""``compile``: a function or module whose calls run as XLA programs (`ftorch._dynamo`)."""

from __future__ import annotations

import functools

from .._dynamo.compiled import Compiled, is_compiling

__all__ = ["Compiled", "OptimizedModule", "compile", "is_compiling"]

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None,
            options=None, disable=False):  # fmt: skip
    """Compiles a function or module: its operations run as one XLA program (``torch.compile``).

    A whole training step can be compiled: the parameters' update, the gradients and the optimizer's
    state are part of the program. New learning rates do not compile again. A function that is only the
    forward pass gives results whose backward pass is a program, too.

    Args:
        fullgraph: raise ``torch._dynamo.exc.Unsupported`` where a value is looked at inside, rather
            than run such calls in Python.
        dynamic: if True, all sizes from the second on share one program, made for the largest so far
            and padded; if None, from the third on; if False, each size has a program of its own.
            A size behind the largest makes a new one, for the next power of two.
        backend: "inductor", the default (`torch.compiler.set_default_backend`), is XLA; or a registered name, or a function of a ``fx.GraphModule`` and
            example inputs that gives a callable.
        mode, options: taken for PyTorch's backends; XLA needs none. ``options["guard_filter_fn"]``
            says which guards are kept (``torch.compiler.skip_guard_on_globals_unsafe`` and others).
        disable: give the function back as it is.

    Raises:
        RuntimeError: for both ``mode`` and ``options``, an unknown mode, or what cannot be called.

    >>> import ftorch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(
            f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}"
        )
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if disable:
        return model
    from .._dynamo.backends import find, get_default_backend
    from ..nn import Module

    settings = {
        "fullgraph": fullgraph, "dynamic": dynamic, "backend": find(backend or get_default_backend()), "mode": mode,
        "options": options,
    }  # fmt: skip
    if isinstance(model, Module):
        return OptimizedModule(model, **settings)
    if isinstance(model, Compiled):
        return model
    if not callable(model):
        raise RuntimeError(f"Unsupported model type {type(model)}")
    return Compiled(model, **settings)


def OptimizedModule(module, **options):
    """A module whose call is compiled; attributes are those of the original."""
    return _optimized_class()(module, **options)


@functools.cache
def _optimized_class():
    from ..nn import Module

    class OptimizedModule(Module):
        """See `ftorch.jit.compiler.OptimizedModule`."""

        def __init__(self, module, **options):
            super().__init__()
            self._orig_mod = module
            self.__dict__["_settings"] = options
            self.__dict__["_compiled"] = Compiled(module.__call__, **options)

        def __call__(self, *args, **kwargs):
            return self.__dict__["_compiled"](*args, **kwargs)

        def forward(self, *args, **kwargs):
            """The compiled call."""
            return self.__dict__["_compiled"](*args, **kwargs)

        def __getattr__(self, name):
            if name == "_orig_mod":
                return self.__dict__["_modules"]["_orig_mod"]
            return getattr(self._orig_mod, name)

        def __setattr__(self, name, value):
            if name in ("_orig_mod", "training") or "_orig_mod" not in self.__dict__["_modules"]:
                super().__setattr__(name, value)
            else:
                setattr(self._orig_mod, name, value)

        def __reduce__(self):
            # Programs are not part of a copy: it compiles its own.
            return OptimizedModule_, (self._orig_mod, self.__dict__["_settings"])

        def __deepcopy__(self, memo):
            import copy

            return type(self)(copy.deepcopy(self._orig_mod, memo), **self.__dict__["_settings"])

        def __len__(self):
            return len(self._orig_mod)

        def train(self, mode=True):
            self._orig_mod.train(mode)
            self.__dict__["training"] = mode
            return self

    return OptimizedModule


def OptimizedModule_(module, settings):
    """Makes an `OptimizedModule` anew, for pickle."""
    return OptimizedModule(module, **settings)
