"""Backends: what makes something to call of a captured graph.

The default, "inductor" (or "xla"), is XLA. Others get a ``fx.GraphModule`` whose inputs are everything
that the program reads, parameters included, and example inputs; they give a function of such inputs,
which returns the list of outputs. Backward passes are XLA programs with any backend.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._functorch._aot_autograd.utils import make_boxed_func  # noqa: F401  (backends take it from here)
from ...eager.call.op import read
from ...eager.memory.storage import Storage
from ...eager.tensor import wrap
from .. import exc

_registry: dict[str, tuple[Callable | None, tuple[str, ...]]] = {}
_NATIVE = ("inductor", "xla", "cudagraphs", "openxla", "tvm")


def register_backend(compiler_fn=None, name: str | None = None, tags=()):
    """Registers a backend under its name, or another; also a decorator.

    >>> import ftorch as torch
    >>> from ftorch._dynamo import register_backend
    >>> @register_backend
    ... def shows(graph_module, example_inputs):
    ...     return graph_module.forward
    >>> torch.compile(torch.sin, backend="shows")(torch.zeros(1))
    tensor([0.])
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    _registry[name or compiler_fn.__name__] = (compiler_fn, tuple(tags))
    return compiler_fn


def list_backends(exclude_tags=("debug", "experimental")) -> list[str]:
    """The names of the backends, without those with certain tags."""
    excluded = set(exclude_tags or ())
    return sorted(name for name, (_, tags) in _registry.items() if not excluded & set(tags))


def lookup_backend(backend):
    """The function of a backend's name.

    Raises:
        InvalidBackend: nobody registered it.
    """
    if not isinstance(backend, str):
        return backend
    if backend not in _registry:
        raise exc.InvalidBackend(backend)
    return _registry[backend][0]


_default: list = ["inductor"]


def get_default_backend():
    """The backend of ``torch.compile`` where none is given."""
    return _default[0]


def set_default_backend(backend) -> None:
    """Sets `get_default_backend`; None is "inductor" again.

    Raises:
        TypeError: for what is neither a name nor callable.
    """
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _default[0] = "inductor" if backend is None else backend


def find(backend):
    """What `Compiled` keeps of a backend: None for XLA, else the function."""
    return None if backend is None or backend in _NATIVE else lookup_backend(backend)


def inductor(gm, example_inputs=None, **_):
    """The graph as one XLA program."""
    import ftorch

    return ftorch.compile(gm.forward, backend="inductor")


def eager(gm, example_inputs=None, **_):
    """The graph as it is."""
    return gm.forward


def eager_noexcept(gm, example_inputs=None, **_):
    """The graph as it is; an error is said to come from it."""

    def run(*args):
        try:
            return gm(*args)
        except Exception as error:
            raise exc.TorchDynamoException(
                "Unexpected exception when running generated GraphModule"
            ) from error

    return run


def pre_dispatch_eager(gm, example_inputs, **_):
    """The graph of ATen's operators before they are differentiated, which is printed and run as it is."""
    from ...fx import Interpreter
    from ...fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda *args: Interpreter(gm).run(*args), pre_dispatch=True)(*example_inputs)
    traced.print_readable()
    return traced


class AotAutograd:
    """A backend of compilers for graphs of ATen's operators, forward and backward (`aot_autograd`)."""

    def __init__(self, fw_compiler=None, bw_compiler=None, inference_compiler=None, decompositions=None,
                 **options):
        self.decompositions, self.options = decompositions, options
        self.forward = fw_compiler or eager
        self.backward = bw_compiler or self.forward
        self.inference = inference_compiler or self.forward

    def __call__(self, gm, example_inputs=None, **_):
        """The function of a graph of public calls."""
        from ..._functorch.aot_autograd import aot_module_simplified

        return aot_module_simplified(
            gm, example_inputs or (), self.forward, self.backward, decompositions=self.decompositions,
            inference_compiler=self.inference, **self.options,
        )


def aot_autograd(fw_compiler=None, bw_compiler=None, inference_compiler=None, decompositions=None, **options):
    """A backend of compilers of graphs (``torch._dynamo.backends.common.aot_autograd``).

    Args:
        fw_compiler: called with the graph of the forward pass, of ATen's operators, and example inputs;
            ``bw_compiler`` with that of the backward pass, where there is one; ``inference_compiler``
            with the forward graph of calls that nobody differentiates. The others take its place.
        decompositions: {op: function} that the graphs are written with (`torch._decomp`).
        options: further ones of `aot_module_simplified`: ``partition_fn``.

    >>> import ftorch as torch
    >>> from ftorch._dynamo.backends.common import aot_autograd
    >>> def shows(gm, example_inputs):
    ...     print([str(n.target) for n in gm.graph.nodes if n.op == "call_function"])
    ...     return gm.forward
    >>> torch.compile(lambda x: x.sin() + 1, backend=aot_autograd(fw_compiler=shows))(torch.zeros(1))
    ['aten.sin.default', 'aten.add.Tensor']
    tensor([1.])
    """
    return AotAutograd(fw_compiler, bw_compiler, inference_compiler, decompositions, **options)


register_backend(inductor)
register_backend(eager, tags=("debug",))
register_backend(eager_noexcept, tags=("debug",))
register_backend(pre_dispatch_eager, tags=("debug",))
for _name in ("aot_eager", "aot_eager_decomp_partition", "aot_eager_decomp_partition_crossref",
              "aot_eager_decomp_partition_with_mode", "aot_eager_default_partitioner"):
    register_backend(aot_autograd(eager), name=_name, tags=("debug",))
register_backend(inductor, name="cudagraphs")
register_backend(inductor, name="openxla")
register_backend(inductor, name="tvm")
register_backend(inductor, name="xla", tags=("experimental",))


def attach(captured, backend, settings: Any = None) -> None:
    """Lets a backend make a captured program: its forward part, and the backward one if it takes that."""
    from ...jit.graphs.graph_modules import graph_module

    trace, forward, backward = captured.trace, captured.forward, captured.backward
    examples = []
    for operand in forward.starts:
        part = captured.parts.get(operand)
        array = trace.inputs[-1 - operand] if part is None else part.array(trace.inputs)
        examples.append(wrap(Storage(captured.geometry_of(operand), array)))
    takes_both = isinstance(backend, AotAutograd)
    compiler, table = backend, None
    if takes_both:
        compiler = backend.inference if backward is None else backend.forward
        table = backend.decompositions
    module = _renamed(graph_module(captured), "arg" if backward is None else "primals", takes_both)
    _replace(captured, forward, compiler, module, examples, settings, table)
    if takes_both and backward is not None and backend.backward is not eager:
        examples = [_fake(captured.geometry_of(o)) for o in backward.starts]
        module = graph_module(captured, backward=True)
        _replace(captured, backward, backend.backward, module, examples, settings, table)


def _replace(captured, lowered, compiler, module, examples, settings, decompositions=None):
    """Puts what a compiler makes of a part of a program in its place."""
    from ...jit.graphs.graph_program import call_backend

    if lowered.places is not None:
        examples = [*examples, _numbers(captured.floats[lowered.places])]
    if decompositions:
        from ..._decomp import decomposed

        for node, operand in zip(module.graph.find_nodes(op="placeholder"), lowered.starts):
            node.meta["geometry"] = captured.geometry_of(operand)
        decomposed(module, decompositions)
    function = call_backend(compiler, module, examples, settings)
    boxed = getattr(function, "_boxed_call", False)
    roots = [captured.geometry_of(o) for o in lowered.starts]

    def program(kept, given, numbers):
        arrays: list = [None] * len(lowered.starts)
        for p, a in (*zip(lowered.kept, kept), *zip(lowered.donated, given)):
            arrays[p] = a
        inputs = [wrap(Storage(root, a)) for root, a in zip(roots, arrays)]
        if numbers is not None:
            inputs.append(_numbers(numbers))
        from ...autograd import no_grad

        with no_grad():
            outputs = function(inputs) if boxed else function(*inputs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [read(t).value() for t in outputs]

    lowered._jitted, lowered._of_backend = program, True


def _renamed(module, name, wanted):
    """A graph with PyTorch's names of inputs."""
    if wanted:
        for i, node in enumerate(module.graph.find_nodes(op="placeholder")):
            node.target = node.name = f"{name}_{i + 1}" if name == "primals" else f"{name}{i}_1"
        module.recompile()
    return module


def _fake(geometry):
    from ..._subclasses.fake_tensor import fake_like

    return fake_like(wrap(Storage(geometry)))


def _numbers(values):
    from ...eager.tensor import from_array

    return from_array(values)
