"""Finding out what a call depends on runs no code of the objects that it looks at."""

import threading
import types

import pytest

import ftorch as torch
from ftorch.jit.capture import static_attributes

ASKED = []


class Meta(type):
    def __getattribute__(cls, name):
        ASKED.append(f"class {name}")
        return type.__getattribute__(cls, name)


class Touchy(metaclass=Meta):
    """Says that it was asked for anything, as ``torch.distributed.reduce_op``, which warns."""

    kind = 3

    def __init__(self, scale):
        object.__setattr__(self, "scale", scale)

    @property
    def __class__(self):
        ASKED.append("__class__")
        return dict

    def __getattribute__(self, name):
        ASKED.append(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other):
        ASKED.append("==")
        return True

    __hash__ = None


class TouchySlots:
    __slots__ = ("scale", "__own")

    def __init__(self, scale):
        self.scale, self.__own = scale, scale

    def __getattribute__(self, name):
        ASKED.append(name)
        return object.__getattribute__(self, name)

    def own(self):
        return self.__own


class TouchyList(list):
    def __len__(self):
        ASKED.append("len")
        return list.__len__(self)

    def __iter__(self):
        ASKED.append("iter")
        return list.__iter__(self)

    def __getattribute__(self, name):
        ASKED.append(name)
        return object.__getattribute__(self, name)


class TouchyModule(types.ModuleType):
    def __getattribute__(self, name):
        ASKED.append(name)
        return types.ModuleType.__getattribute__(self, name)


class TouchyNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def __getattribute__(self, name):
        ASKED.append(name)
        return super().__getattribute__(name)


class TouchyLocal(threading.local):
    def __getattribute__(self, name):
        ASKED.append(name)
        return super().__getattribute__(name)


def touchy_module():
    module = TouchyModule("touchy_module")
    module.scale = 2.0
    return module


MAKERS = {
    "object": lambda: Touchy(2.0), "slots": lambda: TouchySlots(2.0), "list": lambda: TouchyList([2.0]),
    "module": touchy_module, "class": lambda: Touchy, "net": TouchyNet, "local": TouchyLocal,
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_call_holds_and_does_not_use_is_not_asked(name):
    held = MAKERS[name]()
    box = [held]
    space = types.SimpleNamespace(held=held, rest=1)

    def function(x, given):
        if x.shape[0] > 5:
            return held.scale, box, space.held.kind, given  # not reached: the names are in the code
        return x * space.rest

    compiled = torch.compile(function)
    ASKED.clear()
    for _ in range(3):
        assert compiled(torch.ones(2), held).tolist() == [1.0, 1.0]
    assert ASKED == []


@pytest.mark.parametrize("name", ["object", "slots", "module"])
def test_what_a_call_reads_is_still_seen(name):
    held = MAKERS[name]()

    def function(x):
        return x * held.scale

    compiled = torch.compile(function)
    assert [compiled(torch.ones(1)).item() for _ in range(2)] == [2.0, 2.0]
    object.__setattr__(held, "scale", 5.0)
    assert [compiled(torch.ones(1)).item() for _ in range(2)] == [5.0, 5.0]


def test_slots_of_a_private_name_are_seen():
    held = TouchySlots(2.0)

    def function(x):
        return x * held.own()

    compiled = torch.compile(function)
    assert compiled(torch.ones(1)).item() == 2.0
    held.__init__(7.0)
    assert compiled(torch.ones(1)).item() == 7.0


def test_attributes_as_they_lie():
    held = Touchy(2.0)
    ASKED.clear()
    assert static_attributes.attribute(held, "scale") == 2.0
    assert static_attributes.attribute(held, "kind") == 3
    assert static_attributes.attribute(held, "none", "missing") == "missing"
    assert static_attributes.scope_of(held) == {"scale": 2.0}
    assert static_attributes.module_of(Touchy) == __name__
    assert ASKED == []


def test_an_optimizer_whose_groups_are_anothers_is_seen():
    inner = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)

    class Outer(torch.optim.Optimizer):
        """As accelerate's."""

        def __init__(self):
            self.optimizer = inner

        @property
        def param_groups(self):
            return self.optimizer.param_groups

        @property
        def state(self):
            return self.optimizer.state

    outer = Outer()

    def function(x):
        return x * outer.param_groups[0]["lr"]

    compiled = torch.compile(function)
    assert compiled(torch.ones(1)).item() == 1.0
    inner.param_groups[0]["lr"] = 4.0
    assert compiled(torch.ones(1)).item() == 4.0
