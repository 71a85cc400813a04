"""How a module's parameters, inputs and outputs are divided."""

from __future__ import annotations

from abc import ABC, abstractmethod

import ftorch as torch
from ftorch import nn

from .._api import DTensor, distribute_module, distribute_tensor
from .._redistribute import SumsTaken, gradient_placements
from ..placement_types import Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
]


class ParallelStyle(ABC):
    """What `parallelize_module` does to a module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        """The module, divided."""
        ...

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._shown().items())})"

    def _shown(self) -> dict:
        """What is printed: all that was given."""
        return {k: v for k, v in vars(self).items() if k != "src_data_rank"}


def _put(module, name, mesh, placements, source):
    p = module._parameters.get(name)
    if p is not None:
        made = distribute_tensor(p.detach(), mesh, placements, src_data_rank=source)
        module.register_parameter(name, nn.Parameter(made, p.requires_grad))


def _given(x, mesh, layouts, run_check=False):
    return x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, layouts, run_check=run_check)


def _moved(x, layouts):
    return x if tuple(x.placements) == tuple(layouts) else x.redistribute(placements=layouts)


class _LinearStyle(ParallelStyle):
    def __init__(self, given, wanted, output, use_local_output):
        self.input_layouts, self.desired_input_layouts = (given,), (wanted,)
        self.output_layouts, self.use_local_output = (output,), use_local_output

    def _shown(self):
        return {k: v for k, v in vars(self).items() if k in ("input_layouts", "output_layouts", "use_local_output")}

    def _inputs(self, module, inputs, mesh):
        x = _given(inputs[0], mesh, self.input_layouts)
        moved = _moved(x, self.desired_input_layouts)
        if moved is not x and moved.requires_grad and mesh._places is None:  # only the module's one call is given it
            placed = gradient_placements(x.placements)
            moved._sums_taken = SumsTaken(x._local_tensor, moved._local_tensor, mesh, tuple(x.shape), placed)
        return (moved, *inputs[1:])

    def _outputs(self, module, outputs, mesh):
        outputs = _moved(outputs, self.output_layouts)
        return outputs.to_local() if self.use_local_output else outputs

    def _partition(self, name, module, mesh):
        raise NotImplementedError

    def _apply(self, module, device_mesh):
        return distribute_module(module, device_mesh, self._partition, self._inputs, self._outputs)


class ColwiseParallel(_LinearStyle):
    """A `Linear` whose outputs, or an `Embedding` whose columns are divided."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output: bool = True):
        super().__init__(
            input_layouts or Replicate(), Replicate(), output_layouts or Shard(-1), use_local_output
        )

    def _outputs(self, module, outputs, mesh):
        wanted = [Shard(p.dim % outputs.dim()) if p.is_shard() else p for p in self.output_layouts]
        outputs = _moved(outputs, wanted)
        return outputs.to_local() if self.use_local_output else outputs

    def _partition(self, name, module, mesh):
        if isinstance(module, nn.Linear):
            for key in list(module._parameters):
                _put(module, key, mesh, [Shard(0)], self.src_data_rank)
        elif isinstance(module, nn.Embedding):
            for key in list(module._parameters):
                _put(module, key, mesh, [Shard(1)], self.src_data_rank)
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")


class RowwiseParallel(_LinearStyle):
    """A `Linear` whose inputs, or an `Embedding` whose rows are divided."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output: bool = True):
        super().__init__(
            input_layouts or Shard(-1), Shard(-1), output_layouts or Replicate(), use_local_output
        )

    def _inputs(self, module, inputs, mesh):
        x = inputs[0]
        layouts = [
            Shard(p.dim % x.dim()) if p.is_shard() else p for p in self.input_layouts
        ]
        x = _given(x, mesh, layouts)
        wanted = [Shard(x.dim() - 1)] if isinstance(module, nn.Linear) else [Replicate()]
        return (_moved(x, wanted), *inputs[1:])

    def _partition(self, name, module, mesh):
        if isinstance(module, nn.Linear):
            _put(module, "weight", mesh, [Shard(1)], self.src_data_rank)
            _put(module, "bias", mesh, [Replicate()], self.src_data_rank)
        elif isinstance(module, nn.Embedding):
            for key in list(module._parameters):
                _put(module, key, mesh, [Shard(0)], self.src_data_rank)
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")


class SequenceParallel(ParallelStyle):
    """A normalisation or dropout of which each process computes a part of the sequence."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _shown(self):
        return {"sequence_dim": self.sequence_sharding[0].dim, "use_local_output": self.use_local_output}

    def _apply(self, module, device_mesh):
        def inputs(m, given, mesh):
            x = _given(given[0], mesh, self.sequence_sharding)
            return (_moved(x, self.sequence_sharding), *given[1:])

        def outputs(m, got, mesh):
            return got.to_local() if self.use_local_output else got

        def partition(name, m, mesh):
            for key in list(m._parameters):
                _put(m, key, mesh, [Replicate()], self.src_data_rank)

        return distribute_module(module, device_mesh, partition, inputs, outputs)


def _listed(layouts):
    return (layouts,) if not isinstance(layouts, (tuple, list)) else tuple(layouts)


def _prepared(x, given, wanted, mesh, use_local):
    if given is None and not isinstance(x, DTensor) or not isinstance(x, torch.Tensor):
        return x
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, (given,))
    if wanted is not None:
        x = _moved(x, (wanted,))
    return x.to_local() if use_local else x


class PrepareModuleInput(ParallelStyle):
    """Makes a module's inputs `DTensor`s and moves them.

    Args:
        input_layouts: how the inputs lie; None: not a tensor to be prepared.
        desired_input_layouts: how they have to lie.
    """

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_output: bool = False):
        self.input_layouts = None if input_layouts is None else _listed(input_layouts)
        self.desired_input_layouts = (
            None if desired_input_layouts is None else _listed(desired_input_layouts)
        )
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _apply(self, module, device_mesh):
        def prepare(m, args, kwargs):
            if self.input_layouts is not None:
                if len(args) != len(self.input_layouts):
                    raise ValueError("module inputs and input_layouts should have same length!")
                args = tuple(
                    _prepared(x, a, b, device_mesh, self.use_local_output)
                    for x, a, b in zip(args, self.input_layouts, self.desired_input_layouts)
                )
            kwargs = {
                k: _prepared(v, self.input_kwarg_layouts.get(k), self.desired_input_kwarg_layouts.get(k),
                             device_mesh, self.use_local_output) if k in self.input_kwarg_layouts else v
                for k, v in kwargs.items()
            }
            return args, kwargs

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Makes a module's outputs `DTensor`s and moves them."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output: bool = True):
        self.output_layouts, self.desired_output_layouts = (
            _listed(output_layouts), _listed(desired_output_layouts),
        )
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module, device_mesh):
        def prepare(m, args, outputs):
            several = isinstance(outputs, (tuple, list))
            values = tuple(outputs) if several else (outputs,)
            if len(values) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            values = tuple(
                _prepared(x, a, b, device_mesh, self.use_local_output)
                for x, a, b in zip(values, self.output_layouts, self.desired_output_layouts)
            )
            return values if several else values[0]

        module.register_forward_hook(prepare)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` in one."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_input: bool = False, output_layouts,
                 desired_output_layouts, use_local_output: bool = True):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _shown(self):
        before, after = dict(self.prepare_module_input._shown()), self.prepare_module_output._shown()
        before["use_local_input"] = before.pop("use_local_output")
        return before | after

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module
