"""Types that `jit.script` finds, what it refuses because of them, and what calls from Python convert."""

import enum
import re

import pytest
import torch as pt

import ftorch as ft

from .. import typed
from ..both import mine, of_ftorch, same, saved

MINE = of_ftorch("typed")


def _schema(function):
    return re.sub(r"___torch_mangle_\d+\.|_of_ftorch", "", str(function.schema)).replace("tests.jit.", "")


@pytest.mark.parametrize("name", list(typed.ACCEPTED))
def test_types_are_found(name):
    reference, scripted = pt.jit.script(getattr(typed, name)), ft.jit.script(getattr(MINE, name))
    assert _schema(scripted) == _schema(reference)
    for args in typed.ACCEPTED[name]:
        same(scripted(*_own(args)), reference(*args))


def _own(args):
    return [MINE.Pair(*mine(tuple(a))) if isinstance(a, typed.Pair) else mine(a) for a in args]


@pytest.mark.parametrize("name", typed.REFUSED)
def test_what_does_not_fit_is_refused(name):
    with pytest.raises(RuntimeError) as expected:
        pt.jit.script(getattr(typed, name))
    with pytest.raises(RuntimeError) as found:
        ft.jit.script(getattr(MINE, name))
    wanted, text = str(expected.value).split("\n"), str(found.value).split("\n")
    essential = [line for line in wanted if line.strip() and "File" not in line][:2]
    assert [line for line in text if line.strip() and "File" not in line][:2] == essential
    marked = [next(i for i, line in enumerate(t) if "<--- HERE" in line) for t in (wanted, text)]
    assert re.sub("of_ftorch", "", text[marked[1] - 1]).strip() == wanted[marked[0] - 1].strip() or (
        name in ("one_branch", "two_types")  # the branches are shown first there
        or "~~" in wanted[marked[0] - 1]
    )


VALUES = [1, 1.5, True, "a", None, (1, 2), [1, 2], (1.0, 2.0), 1j, range(2), pt.tensor(2), pt.tensor(2.5),
          pt.tensor(True), pt.ones(2), pt.ones(2).size()]
KINDS = ["int", "float", "bool", "complex", "str", "Tuple[int, int]", "List[int]", "List[float]",
         "Optional[float]"]


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_are_converted(kind):
    source = f"def f(x: {kind}) -> {kind}:\n  return x\n"
    theirs, own = pt.jit.CompilationUnit(source).f, ft.jit.CompilationUnit(source).f
    for value in VALUES:
        try:
            expected = theirs(value)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                own(mine(value))
        else:
            same(own(mine(value)), expected, f"{kind} {value!r}")


def test_objects_of_script_classes():
    for module, torch in ((typed, pt), (MINE, ft)):
        box = module.Box(3)
        opened = torch.jit.script(module.opened)(box)
        assert (opened.x, opened.area, opened.items, box.x) == (5, 10, [2], 3)
        opened.add(1)
        assert torch.jit.script(module.opened)(opened).items == [2, 1, 2]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def names(c: Colour):
    return [x.name for x in Colour], c == Colour.RED, c.value


def test_enumerations_of_several_programs():
    first, second = ft.jit.script(names), ft.jit.script(names)
    expected = pt.jit.script(names)
    for c in Colour:
        assert first(c) == second(c) == expected(c)


def test_keyword_only_arguments():
    theirs, own = pt.jit.script(typed.keyword), ft.jit.script(MINE.keyword)
    same(own(mine(pt.ones(1)), y=3), theirs(pt.ones(1), y=3))
    for args in ((), (1,)):
        with pytest.raises(RuntimeError) as expected:
            theirs(pt.ones(1), *args)
        with pytest.raises(RuntimeError) as found:
            own(mine(pt.ones(1)), *args)
        assert str(found.value) == str(expected.value)


class Holder(pt.nn.Module):
    __constants__ = ("k",)

    def __init__(self):
        super().__init__()
        self.k, self.f, self.numbers = 3, 1.5, [1]
        self.declared = pt.jit.Attribute({}, dict[str, int])

    def forward(self, x):
        self.declared["a"] = 2
        return x * self.k + self.f


class Own(ft.nn.Module):
    __constants__ = ("k",)
    forward = Holder.forward

    def __init__(self):
        super().__init__()
        self.k, self.f, self.numbers = 3, 1.5, [1]
        self.declared = ft.jit.Attribute({}, dict[str, int])


@pytest.mark.parametrize("name, value", [("k", 9), ("f", "a"), ("f", 2), ("numbers", (3, 4)), ("numbers", ["a"]),
                                         ("declared", {"b": 1}), ("declared", {1: 1})])
def test_attributes_keep_their_types(name, value):
    theirs, own = pt.jit.script(Holder()), ft.jit.script(Own())
    same(own(mine(pt.ones(1))), theirs(pt.ones(1)))
    try:
        setattr(theirs, name, value)
    except RuntimeError as expected:
        with pytest.raises(RuntimeError) as found:
            setattr(own, name, value)
        assert str(found.value).partition(":")[0] == str(expected).partition(":")[0]
    else:
        setattr(own, name, value)
    assert getattr(own, name) == getattr(theirs, name)


@pytest.mark.parametrize(
    "name", ["refined", "collected", "iterated", "arithmetic", "indexed", "methods", "functionals"]
)
def test_files_with_found_types(name):
    loaded = pt.jit.load(saved(ft.jit.script(getattr(MINE, name)), ft.jit.save))
    reference = pt.jit.script(getattr(typed, name))
    for args in typed.ACCEPTED[name]:
        same(loaded(*args), reference(*args))


def undefined_inside(x):
    return nothing_of_this_name(x)  # noqa: F821


def calls_it(x):
    return undefined_inside(x)


def test_errors_say_who_called():
    texts = []
    for torch in (pt, ft):
        with pytest.raises(RuntimeError) as found:
            torch.jit.script(calls_it)
        texts.append(str(found.value).strip())
    assert texts[0] == texts[1]


def prints(x: list[str], d: dict[str, float]):
    print(x, d, (1, "a"), None, "b")
    return x


def test_printing(capfd):
    pt.jit.script(prints)(["a", "b"], {"k": 1.5})
    expected = capfd.readouterr().out
    ft.jit.script(prints)(["a", "b"], {"k": 1.5})
    assert capfd.readouterr().out == expected


def test_extra_files_that_are_missing():
    import io

    found = []
    for torch in (pt, ft):
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(torch.nn.Identity()), buffer, _extra_files={"a": "text"})
        extra = {"a": "", "b": "x"}
        torch.jit.load(io.BytesIO(buffer.getvalue()), _extra_files=extra)
        found.append(extra)
    assert found[0] == found[1]


def test_variables_of_loops_are_gone_behind_them():
    """A later loop may give a variable of the same name another type, as einops does."""
    import ftorch as torch

    def f(names: list[str], numbers: list[int]) -> int:
        total = 0
        for item in names:
            total += len(item)
        for item in numbers:
            total += item
        return total

    assert torch.jit.script(f)(["ab", "c"], [4, 5]) == 12
