"""What the inputs and outputs of an exported graph are (``torch.export.graph_signature``)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class SymIntArgument:
    """A symbolic size, by the name of its node."""

    name: str


@dataclass
class SymFloatArgument:
    """A symbolic float, by the name of its node."""

    name: str


@dataclass
class SymBoolArgument:
    """A symbolic truth, by the name of its node."""

    name: str


@dataclass
class TokenArgument:
    """What orders effects, by the name of its node."""

    name: str


@dataclass
class CustomObjArgument:
    """An object of a registered class, by the name of its node, with the full name of the class."""

    name: str
    class_fqn: str
    fake_val: object = None


@dataclass
class ConstantArgument:
    """A Python constant."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = TensorArgument | SymIntArgument | SymFloatArgument | ConstantArgument


class InputKind(enum.Enum):
    """What a placeholder stands for."""

    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


class OutputKind(enum.Enum):
    """What an output of the graph is."""

    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


@dataclass
class InputSpec:
    """One placeholder.

    Attributes:
        target: the parameter's, buffer's or constant's name.
        persistent: of a buffer.
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self):
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self):
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """One output; ``target`` is what a mutation is written back to."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self):
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Which outputs are gradients."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _targets(specs) -> Mapping[str, str]:
    """{node: parameter, buffer, constant or input} of some specs."""
    return MappingProxyType({s.arg.name: s.target for s in specs})


@dataclass
class ExportGraphSignature:
    """The meaning of a graph's placeholders and outputs, in order.

    >>> import ftorch as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
    >>> program.graph_signature.user_inputs, program.graph_signature.inputs_to_parameters
    (('input',), mappingproxy({'p_weight': 'weight', 'p_bias': 'bias'}))
    """

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _inputs(self, *kinds):
        return [s for s in self.input_specs if s.kind in kinds]

    def _outputs(self, *kinds):
        return [s for s in self.output_specs if s.kind in kinds]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(s.target for s in self._inputs(InputKind.PARAMETER) if s.target)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers."""
        return tuple(s.target for s in self._inputs(InputKind.BUFFER) if s.target)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The names of the buffers that are in no state dict."""
        return tuple(
            s.target for s in self._inputs(InputKind.BUFFER) if not s.persistent and s.target
        )

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the constants."""
        return tuple(s.target for s in self._inputs(InputKind.CONSTANT_TENSOR) if s.target)

    lifted_custom_objs = property(lambda self: ())
    input_tokens = property(lambda self: ())
    output_tokens = property(lambda self: ())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The nodes of the user's inputs; constants stand for themselves."""
        return tuple(_value(s.arg) for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The nodes of the user's outputs; constants stand for themselves."""
        return tuple(
            _value(s.arg) for s in self._outputs(OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        )

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """{placeholder: parameter}."""
        return _targets(self._inputs(InputKind.PARAMETER))

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """{placeholder: buffer}."""
        return _targets(self._inputs(InputKind.BUFFER))

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """{placeholder: constant}."""
        return _targets(self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """{output: buffer that it is written to}."""
        return _targets(self._outputs(OutputKind.BUFFER_MUTATION))

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """{output: parameter that it is written to}."""
        return _targets(self._outputs(OutputKind.PARAMETER_MUTATION))

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """{output: user input that it is written to}."""
        return _targets(self._outputs(OutputKind.USER_INPUT_MUTATION))

    backward_signature = property(lambda self: None)
    assertion_dep_token = property(lambda self: None)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Renames a node in all specs."""
        for spec in (*self.input_specs, *self.output_specs):
            if spec.arg.name == old:
                spec.arg.name = new

    def __str__(self):
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _value(argument):
    return argument.value if isinstance(argument, ConstantArgument) else argument.name


__all__ = [
    "ArgumentSpec", "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature",
    "InputKind", "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
    "TensorArgument", "TokenArgument",
]
