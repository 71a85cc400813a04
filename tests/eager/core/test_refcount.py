"""The constants that donation rests on, and what happens where counts cannot be trusted."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import ftorch
from ftorch.eager.core import refcount

PACKAGE = Path(ftorch.__file__).parent


def test_counts_are_exact_here():
    assert refcount.RELIABLE
    assert refcount._measure() == (refcount.LOCAL, refcount.LISTED, refcount.ITEM, refcount.ATTRIBUTE)


def test_counts_are_compared_with_nothing_else():
    """No other file calls ``getrefcount`` but to compare it with a constant of `refcount`."""
    names = {"LOCAL", "LISTED", "ITEM", "ATTRIBUTE"}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if "getrefcount" not in text or path.name == "refcount.py":
            continue
        tree = ast.parse(text)
        uses = sum(isinstance(n, ast.Attribute) and n.attr == "getrefcount" for n in ast.walk(tree))
        compared = [
            n for n in ast.walk(tree) if isinstance(n, ast.Compare) and "getrefcount" in ast.unparse(n.left)
            and {c.id for c in ast.walk(n.comparators[0]) if isinstance(c, ast.Name)} & names
        ]
        assert len(compared) == uses, f"{path}: a count is compared with a number of its own"


PROGRAM = """
import sys
{before}
import ftorch as torch
from ftorch.eager.core import refcount
assert refcount.RELIABLE is {reliable}
w = torch.ones(64, 64, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    old = w.detach().clone()
    (w * w).sum().backward()
    kept = w.grad
    optimizer.step()
    assert (kept == 2 * old).all()
x = torch.arange(4.0)
y = x
x += 1
print(w.sum().item(), y.tolist(), torch.from_numpy(__import__("numpy").ones(3)).add_(1).tolist())
"""


def test_without_exact_counts_results_are_the_same():
    # An interpreter that counts one more for each argument, now and then: the test at import sees it.
    off = "count = sys.getrefcount; calls = [0]\n" \
          "def odd(x):\n    calls[0] += 1\n    return count(x) - (calls[0] % 7 == 0)\nsys.getrefcount = odd"
    found = []
    for before, reliable in (("", True), (off, False)):
        program = PROGRAM.format(before=before, reliable=reliable)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
