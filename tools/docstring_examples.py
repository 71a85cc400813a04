"""Runs the examples in the installed PyTorch's docstrings in PyTorch and in ftorch, and compares what they print.

    python tools/docstring_examples.py [MODULE ...] [--jobs 2] [--json report.json] [--show 20] [--only NAME ...]

The docstrings are read from the installation and nothing of them is kept. A docstring's examples are one
program. It is run twice in PyTorch: a statement counts if it runs there, both times with the same output.
A docstring passes if each statement that counts also runs in ftorch and prints the same (numbers to four
digits). Addresses, and the package's own name, are no difference.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import importlib
import importlib.abc
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections import Counter, defaultdict

# What needs another machine, a network, or is the test suite of PyTorch itself.
SKIPPED = re.compile(
    r"torch\.(testing\._internal|_inductor|_dynamo|_vendor|_export|_C\b|_refs|_prims|_decomp|cuda|xpu|mtia|"
    r"distributed|hub|_functorch|_higher_order_ops|_numpy|ao|contrib|csrc|utils\.(tensorboard|hipify|"
    r"benchmark|_sympy|bundled_inputs|mobile_optimizer|serialization|model_dump|show_pickle|cpp_extension|"
    r"bottleneck|viz|throughput_benchmark)|onnx\._internal|compiler|backends\._|profiler\._)"
)
SECONDS = 20


# --- finding docstrings


def modules(prefix="torch"):
    """The public modules of the installed PyTorch, by name."""
    root = importlib.import_module(prefix)
    yield prefix, root
    for info in pkgutil.walk_packages(getattr(root, "__path__", ()), prefix + ".", onerror=lambda _: None):
        if SKIPPED.match(info.name) or any(p.startswith("_") for p in info.name.split(".")[1:]):
            continue
        if info.name.endswith("__main__"):
            continue
        try:
            yield info.name, importlib.import_module(info.name)
        except BaseException:
            continue


def docstrings(names):
    """{full name: docstring with examples} of modules, their functions, classes and methods."""
    found: dict[str, tuple] = {}
    seen: set[str] = set()

    def add(name, thing):
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str) and ">>>" in text and text not in seen:
            seen.add(text)
            found[name] = text, getattr(thing, "__module__", None) or "torch"

    for name, module in modules():
        if names and not any(name == n or name.startswith(n + ".") for n in names):
            continue
        add(name, module)
        for key, thing in sorted(vars(module).items(), key=lambda item: item[0]):
            home = getattr(thing, "__module__", None) or ""
            if key.startswith("_") or not (home.startswith("torch") or not home):
                continue
            if inspect.isclass(thing):
                add(f"{name}.{key}", thing)
                for k, member in sorted(vars(thing).items()):
                    if not k.startswith("_"):
                        add(f"{name}.{key}.{k}", member)
            elif callable(thing):
                add(f"{name}.{key}", thing)
    return found


# --- running them


class _Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets ``import torch.x`` give ``ftorch.x``."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torch" or fullname.startswith("torch."):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def create_module(self, spec):
        return importlib.import_module("f" + spec.name)

    def exec_module(self, module):
        sys.modules["torch" + module.__name__.removeprefix("ftorch")] = module


def _reset(torch, defaults):
    torch.manual_seed(0)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_printoptions(profile="default")
    torch.use_deterministic_algorithms(False)
    with contextlib.suppress(Exception):
        torch.set_default_device("cpu")
        torch.set_default_device(None)
    import random

    import numpy

    random.seed(0)
    numpy.random.seed(0)


def _timeout(*_):
    raise TimeoutError("the time for an example is over")


def run_text(torch, name, text, module):
    """[(source, output, error or None)] of the statements of a docstring."""
    try:
        examples = doctest.DocTestParser().get_examples(textwrap.dedent(text))
    except ValueError:
        examples = _loosely(text)
    rows = []
    scope = {"torch": torch, "__name__": "__main__"}
    for key, path in (("nn", "nn"), ("F", "nn.functional"), ("optim", "optim"), ("Tensor", "Tensor")):
        with contextlib.suppress(AttributeError):
            thing = torch
            for part in path.split("."):
                thing = getattr(thing, part)
            scope[key] = thing
    for path in (name, module):  # what the docstring's modules have is at hand, as in their own doctests
        parts = path.split(".")
        for n in range(len(parts), 1, -1):
            with contextlib.suppress(ImportError):
                home = importlib.import_module(".".join(parts[:n]))
                for key, thing in vars(home).items():
                    if not key.startswith("_"):
                        scope.setdefault(key, thing)
                break
    import linecache

    for i, example in enumerate(examples):
        out, error = io.StringIO(), None
        file = f"<example {name} {i}>"
        linecache.cache[file] = (len(example.source), None, example.source.splitlines(True), file)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            with contextlib.redirect_stdout(out), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(example.source, file, "single"), scope)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            error = f"{type(e).__name__}: {e}"[:600]
            if not isinstance(e, SyntaxError | NameError) and os.environ.get("EXAMPLES_TRACE"):
                traceback.print_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        rows.append((example.source, out.getvalue()[:20000], error))
        if error and error.startswith("TimeoutError"):
            break
    return rows


def _loosely(text):
    """The examples of a docstring whose layout doctest refuses."""
    examples, lines = [], []
    for line in [*text.splitlines(), ""]:
        line = line.strip()
        if line.startswith(">>>") or not line.startswith("..."):
            if lines:
                examples.append(doctest.Example("\n".join(lines) + "\n", ""))
            lines = []
        if line.startswith((">>>", "...")):
            lines.append(line[4:])
    return examples


def work(library, source, target):
    """Runs docstrings of a file that are not yet in another, in a process of its own."""
    if library == "ftorch":
        sys.meta_path.insert(0, _Renamed())
    torch = importlib.import_module("torch")
    signal.signal(signal.SIGALRM, _timeout)
    with open(source) as file:
        texts = json.load(file)
    done = set()
    if os.path.exists(target):
        with open(target) as file:
            done = {json.loads(line)["name"] for line in file}
    with open(target, "a") as file:
        for name, (text, module) in texts.items():
            if name in done:
                continue
            print(json.dumps({"name": name, "rows": None}), file=file, flush=True)
            _reset(torch, None)
            rows = run_text(torch, name, text, module)
            print(json.dumps({"name": name, "rows": rows}), file=file, flush=True)


def run_library(library, texts, folder, tag):
    """{name: rows} for all docstrings; a process that dies is followed by one for the rest."""
    source, target = os.path.join(folder, f"texts{tag}"), os.path.join(folder, f"{library}{tag}")
    with open(source, "w") as file:
        json.dump(texts, file)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join((here, os.environ.get("PYTHONPATH", ""))))
    environment["CUDA_VISIBLE_DEVICES"] = ""
    scratch = os.path.join(folder, f"scratch-{library}-{tag}")
    os.makedirs(scratch, exist_ok=True)
    for _ in range(40):
        try:
            process = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--work", library, source, target], cwd=scratch,
                env=environment, timeout=3600, stdin=subprocess.DEVNULL,
                stderr=None if os.environ.get("EXAMPLES_TRACE") else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            continue
        if process.returncode == 0:
            break
    rows: dict = {}
    if os.path.exists(target):
        with open(target) as file:
            for line in file:
                found = json.loads(line)
                rows[found["name"]] = found["rows"]
    return rows


# --- comparing

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)")


def plain(text):
    """An output without what differs by run or by the package's name."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text)
    text = re.sub(r"\bftorch\b", "torch", text)
    text = re.sub(r"\+torch[\d.]+", "", text)
    return " ".join(text.split())


def same(a, b):
    """Whether two outputs are the same, numbers to four digits."""
    a, b = plain(a), plain(b)
    if a == b:
        return True
    if _NUMBER.sub("#", a).replace(" ", "") != _NUMBER.sub("#", b).replace(" ", ""):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(x == y or abs(float(x) - float(y)) <= 2e-4 * max(1, abs(float(x))) for x, y in pairs)


def judge(first, second, found):
    """(whether a docstring counts, its first difference or None)."""
    counts = False
    for i, (source, output, error) in enumerate(first or ()):
        if error or second is None or i >= len(second) or second[i][2] or plain(second[i][1]) != plain(output):
            continue
        counts = True
        if found is None or i >= len(found):
            return True, ("did not finish", source, output, "")
        if found[i][2]:
            return True, (found[i][2], source, output, "")
        if not same(output, found[i][1]):
            return True, ("prints something else", source, output, found[i][1])
    return counts, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("modules", nargs="*", help="modules of PyTorch (all public ones)")
    parser.add_argument("--only", nargs="*", help="docstrings by their full names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", help="where a report with every difference goes")
    parser.add_argument("--show", type=int, default=20, help="differences to print")
    parser.add_argument("--known", help="a report whose outputs of PyTorch are used again")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = docstrings(options.modules)
    if options.only:
        texts = {n: t for n, t in texts.items() if n in options.only}
    known = {}
    if options.known and os.path.exists(options.known):
        with open(options.known) as file:
            known = json.load(file)["pytorch"]
    names = list(texts)
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, dict] = {"a": {}, "b": {}, "ftorch": {}}
        new = [n for n in names if n not in known]
        jobs = [("ftorch", names[i :: options.jobs], f"f{i}", "ftorch") for i in range(options.jobs)]
        jobs += [("torch", new[i :: options.jobs], f"{t}{i}", t) for i in range(options.jobs) for t in "ab" if new]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(options.jobs) as pool:
            made = [
                (key, pool.submit(run_library, library, {n: texts[n] for n in chosen}, folder, tag))
                for library, chosen, tag, key in jobs
            ]
            for key, future in made:
                runs[key].update(future.result())
    for name, (first, second) in known.items():
        runs["a"].setdefault(name, first)
        runs["b"].setdefault(name, second)
    passed, counted, differences = Counter(), Counter(), []
    for name in names:
        counts, difference = judge(runs["a"].get(name), runs["b"].get(name), runs["ftorch"].get(name))
        module = ".".join(name.split(".")[:2]) if name.count(".") > 1 else "torch"
        counted[module] += counts
        passed[module] += counts and difference is None
        if difference:
            differences.append((name, *difference))
    kinds = defaultdict(list)
    for name, what, *_ in differences:
        kinds[re.sub(r"'[^']*'|\d+", "*", what)[:90]].append(name)
    print(f"{'module':32} passed  counted")
    for module in sorted(counted):
        if counted[module]:
            print(f"{module:32} {passed[module]:6} {counted[module]:8}")
    total, good = sum(counted.values()), sum(passed.values())
    print(f"{'all':32} {good:6} {total:8}  {100 * good / max(total, 1):.1f} %")
    for what, which in sorted(kinds.items(), key=lambda item: -len(item[1]))[: options.show]:
        print(f"{len(which):4}  {what}   {', '.join(which[:4])}")
    if options.json:
        report = {
            "passed": passed, "counted": counted, "differences": differences,
            "pytorch": {n: [runs["a"].get(n), runs["b"].get(n)] for n in names},
        }
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
