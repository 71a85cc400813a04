"""Which types lists and dictionaries have in a program, and what it may then do with them."""

import pytest

from tests.oracle import LIBRARIES

PROGRAMS = [
    "def f():\n    x = [1]\n    if 1 == 1:\n        x = [1.0]\n    return x",
    "def f():\n    x = [1]\n    for i in range(3):\n        x = ['a']\n    return x",
    "def f():\n    x = []\n    if 1 == 1:\n        x = [1,2,3]\n    return",
    "def f():\n    x = {}\n    if 1 == 1:\n        x = {'a':1}\n    return",
    "def f():\n    x = [1]\n    if 1 == 1:\n        x = []\n    return x",
    "def f():\n    x: List[int] = []\n    if 1 == 1:\n        x = [1]\n    return x",
    "def f():\n    x: List[Optional[int]] = []\n    if 1 == 1:\n        x = [1, None]\n    return x",
    "def f():\n    x: List[Optional[int]] = []\n    if 1 == 1:\n        x = [1]\n    return x",
    "def f():\n    x: List[Tuple[int,str]] = []\n    if 1 == 1:\n        x = [(1,'a')]\n    return x",
    "def f():\n    x: Dict[str, List[int]] = {}\n    if 1 == 1:\n        x = {'a': [1]}\n    return x",
    "def f():\n    x = (1,'a')\n    if 1 == 1:\n        x = (2, 'b')\n    return x",
    "def f():\n    x = (1,'a')\n    if 1 == 1:\n        x = (2, 3)\n    return x",
    "def f():\n    x = [[1]]\n    if 1 == 1:\n        x = [[1.0]]\n    return x",
    "def f():\n    x: List[int] = [1,2]\n    y: List[Optional[int]] = x\n    return y",
    "def f(x: List[int]):\n    y: List[float] = x\n    return y",
    "def f():\n    y: List[float] = [1, 2]\n    return y",
    "def f():\n    y: List[Optional[int]] = [i for i in range(3)]\n    return y",
    "def f():\n    x: Dict[str,int] = {'a':1}\n    y: Dict[str,Optional[int]] = x\n    return y",
    "def f():\n    b: int = [2,3]\n    return b",
    "def f():\n    b: List[int] = [2.0,3.0]\n    return b",
    "def f():\n    b: Dict[str,int] = {'a':1.0}\n    return b",
    "def f():\n    b: Dict[int,int] = {'a':1}\n    return b",
    "def f():\n    b: Dict[str,Optional[int]] = {'a':1}\n    return b",
    "def f():\n    b: Dict[str,Optional[int]] = {'a':1,'b':None}\n    return b",
    "def f():\n    x = {'a':1, 2:2}\n    return x",
    "def f():\n    x = {'a':1}\n    x[1] = 2\n    return x",
    "def f():\n    x = {1:1}\n    x['a'] = 2\n    return x",
    "def f():\n    x = {1:1}\n    return x['a']",
    "def f():\n    x = [1,2]\n    return 'a' in x",
    "def f():\n    x = {'a':2}\n    return 1 in x",
    "def f():\n    x = {'a':2}\n    return 1 not in x",
    "def f():\n    x = [1,2]\n    return x['a']",
    "def f():\n    x = [1,2]\n    return x[1.0]",
    "def f():\n    x = [1,2]\n    return x.pop('a')",
    "def f():\n    x = [1,2]\n    return x.index('a')",
    "def f():\n    x = [1,2]\n    x.insert(0, 'a')\n    return x",
    "def f():\n    x = [1,2]\n    return x + ['a']",
    "def f():\n    x = [1,2]\n    return x == ['a']",
    "def f():\n    x = {'a':1}\n    return x.get(1)",
    "def f():\n    x = {'a':1}\n    return x.pop(1)",
    "def f():\n    x = {'a':1}\n    x.update({1:2})\n    return x",
    "def f(x: Tensor):\n    return tuple(x.size())", "def f(x: Tensor):\n    return tuple(x)",
    "def f():\n    return tuple([1, 2])",
    "def f():\n    return tuple()", "def f():\n    return tuple((1, 2), (3, 4))", "def f():\n    return tuple('ab')",
    "def f():\n    x = {'a':1}\n    return x.get('b', 'c')",
]
LISTS = {
    "in": lambda x: "a" in x, "get": lambda x: x[7], "set": lambda x: x.__setitem__(0, "a"),
    "far": lambda x: x.__setitem__(9, 1),
    "count": lambda x: x.count("a"), "remove": lambda x: x.remove("a"), "absent": lambda x: x.remove(10),
    "append": lambda x: x.append("a"), "insert": lambda x: x.insert(0, "a"), "pop": lambda x: x.pop(77),
    "extend": lambda x: x.extend(["a"]), "slice": lambda x: list(x[1:]), "short": lambda x: x.__setitem__(slice(0, 2), [7]),
    "long": lambda x: x.__setitem__(slice(0, 1), [7, 8]), "equal": lambda x: x.__setitem__(slice(0, 2), [7, 8]),
    "del": lambda x: x.__delitem__(10), "counted": lambda x: x.count(2), "removed": lambda x: x.remove(2),
}
DICTS = {
    "in": lambda x: "a" in x, "has": lambda x: (1 in x, 9 in x), "get": lambda x: x["a"], "none": lambda x: x[9],
    "set": lambda x: x.__setitem__("a", 1), "value": lambda x: x.__setitem__(1, "a"), "del": lambda x: x.__delitem__(10),
    "other": lambda x: x.__delitem__("a"), "gone": lambda x: x.__delitem__(1),
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_give_the_same_or_are_refused_with_the_same_words(text):
    def program(t):
        try:
            return t.jit.CompilationUnit(f"{text}\n").f(*([[1, 2, 3]] if "f(x: List[int])" in text else []))
        except RuntimeError as error:
            return str(error).strip().partition("\n")[0]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize(("actions", "name"), [*(("list", n) for n in LISTS), *(("dict", n) for n in DICTS)])
def test_containers_that_programs_share_check_what_they_get(actions, name):
    def program(t):
        made = t.jit.script([1, 2, 3] if actions == "list" else {1: 2, 3: 4})
        try:
            found = (LISTS if actions == "list" else DICTS)[name](made)
        except Exception as error:  # noqa: BLE001
            found = type(error).__name__, str(error)
        return found, list(made)

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("arguments", ["", "1, [2]", "2, 3", "[2, 3]", "2"])
def test_older_constructors(arguments):
    def program(t):
        torch = t  # noqa: F841  (programs find it here)
        try:
            made = t.jit.CompilationUnit(f"def f():\n    return torch.LongTensor({arguments})\n").f()
        except RuntimeError as error:
            return str(error).strip().partition("\n  File")[0]
        return made.shape, str(made.dtype), made.tolist() if arguments == "[2, 3]" else None

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


PAIR = """
def f(x: Tensor, size: Optional[Union[int, Tuple[Optional[int], Optional[int]]]]):
    if size is None:
        size = int(x.max()) + 1
    if isinstance(size, (tuple, list)):
        n, m = size
        if n is None:
            n = 1
        if m is None:
            m = int(x.max()) + 1
        size = (n, m)
    else:
        size = (size, size)
    return tuple(size) + x.size()[1:], max(size), tuple((1, x))
"""


@pytest.mark.parametrize("size", [None, 3, (2, None), (None, 4), (5, 6)])
def test_tuples_are_what_is_left_of_a_union(size):
    def program(t):
        *found, (one, x) = t.jit.CompilationUnit(PAIR).f(t.arange(4.0).reshape(4, 1), size)
        return found, one, x.tolist()

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
