"""``compile``: a function or module whose calls run as XLA programs (`ftorch._dynamo`)."""

from __future__ import annotations

import functools

from .._dynamo import config
from .compiled_function import Compiled
from .compiling import is_compiling, refusal_of

__all__ = ["Compiled", "OptimizedModule", "compile", "is_compiling"]

def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None,
            options=None, disable=False):
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
        backend: "inductor", the default (`torch.compiler.set_default_backend`), is XLA; or a registered name, or a function
            of a ``fx.GraphModule`` and example inputs that gives a callable.
        mode, options: of PyTorch's back end (`torch._inductor.list_options`); XLA reads none of them.
            Other backends are called with them. ``options["guard_filter_fn"]``
            says which guards are kept (``torch.compiler.skip_guard_on_globals_unsafe`` and others).
        disable: give the function back as it is.

    Raises:
        RuntimeError: for both ``mode`` and ``options``, ones that do not exist, or a scripted module.
        AssertionError: the model cannot be called, or ``dynamic`` is no bool.
        torch._dynamo.exc.InvalidBackend: nobody registered the backend's name.

    >>> import ftorch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if model is None:
        def decorate(model):
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                           options=options, disable=disable)

        return decorate
    from .._dynamo.backends import find, get_default_backend
    from ..nn import Module

    if disable:
        return model
    backend = find(backend or get_default_backend())
    if backend is None:
        _check_inductor(mode, options)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    settings = {
        "fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode, "options": options,
    }
    if isinstance(model, type):  # its instances' calls
        model.__call__ = _compiled(model.__call__, settings)  # type: ignore[method-assign]
        return model
    if isinstance(model, Module):
        if (refusal := refusal_of(model)) is not None:
            raise RuntimeError(refusal)
        return OptimizedModule(model, **settings)
    return model if isinstance(model, Compiled) else _compiled(model, settings)


def _compiled(function, settings):
    if config.compiled_autograd:
        from .._dynamo.compiled_autograd import CompiledWithBackward

        return CompiledWithBackward(function, **settings)
    return Compiled(function, **settings)


def _check_inductor(mode, options):
    from .._inductor import check_options, list_mode_options

    if mode is not None:
        list_mode_options(mode)
    if options:
        check_options({k: v for k, v in options.items() if k != "guard_filter_fn"}
                      if isinstance(options, dict) else options)


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
            compiled = functools.partial(_compiled, settings=options)
            inside = getattr(module, "_ftorch_compiled_inside", None)  # of modules whose call is more than a program
            self.__dict__["_compiled"] = compiled(module.__call__) if inside is None else inside(compiled)
            self.__dict__["dynamo_ctx"] = compiled  # of another function

        def forward(self, *args, **kwargs):
            """The compiled call."""
            return self.__dict__["_compiled"](*args, **kwargs)

        def __getattr__(self, name):
            if name == "_orig_mod":
                return self.__dict__["_modules"]["_orig_mod"]
            return getattr(self._orig_mod, name)

        def __setattr__(self, name, value):
            own = hasattr(type(self), name) or name in ("_orig_mod", "training")
            if own or "_orig_mod" not in self.__dict__["_modules"]:
                super().__setattr__(name, value)
            else:
                setattr(self._orig_mod, name, value)

        def __delattr__(self, name):
            if hasattr(type(self), name):
                super().__delattr__(name)
            else:
                delattr(self._orig_mod, name)

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
