"""How work for an accelerator is planned and compiled: on the emulated one, in a process of its own."""

import subprocess
import sys
import textwrap

HEAD = """
from tests.accelerator import emulated
emulated.install()
import ftorch as torch
torch.set_default_device("cuda")
"""


def run(program):
    """What a program prints, line by line."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_are_tried_out_for_convolutions_and_where_that_is_asked_for():
    program = """
        from ftorch.eager.runtime import compilation
        made, jitted = [], compilation._CudaProgram._jitted
        compilation._CudaProgram._jitted = lambda self, tries: (made.append(tries), jitted(self, tries))[1]

        def tried(function):
            made.clear()
            function().cpu()
            return made[-1]

        x, image = torch.ones(4, 4), torch.ones(1, 2, 5, 5)
        linear, convolution = torch.nn.Linear(4, 4), torch.nn.Conv2d(2, 2, 3)
        compiled = torch.compile(convolution)
        print(tried(lambda: linear(x).relu().sum()))
        print(tried(lambda: convolution(image).relu().sum()), tried(lambda: compiled(image)))
        with torch.backends.cudnn.flags(benchmark=True):
            print(tried(lambda: linear(x).sigmoid().sum()))
        print(tried(lambda: linear(x).tanh().sum()))
    """
    assert run(program) == ["False", "True True", "True", "False"]


def test_products_and_convolutions_are_as_precise_as_is_set():
    """As in PyTorch: products of float32 unless they may be TF32, convolutions TF32 unless they may not."""
    program = """
        import re
        from ftorch.eager.runtime import compilation
        texts, called = [], compilation._CudaProgram.__call__
        compilation._CudaProgram.__call__ = lambda self, *operands: (
            texts.append(self.lower(*operands).as_text()), called(self, *operands))[1]

        x, image = torch.ones(4, 4), torch.ones(1, 2, 5, 5)
        linear, convolution = torch.nn.Linear(4, 4), torch.nn.Conv2d(2, 2, 3)

        def found():
            texts.clear()
            (x @ x + linear(x)).relu().cpu()
            convolution(image).sum().backward()
            convolution.weight.grad.add(1).relu().cpu()
            text = "".join(texts)
            return [
                sorted({*re.findall(kind + r".*?precision(?:_config)? *= *\\[(?:#stablehlo<precision )?(\\w+)", text)})
                for kind in ("stablehlo.dot_general", "stablehlo.convolution")]

        print(found())
        with torch.backends.cudnn.flags(allow_tf32=False):
            print(found())
        torch.set_float32_matmul_precision("high")
        print(found())
    """
    assert run(program) == [
        "[['HIGHEST'], ['HIGH']]", "[['HIGHEST'], ['HIGHEST']]", "[['HIGH'], ['HIGH']]",
    ]


def test_what_was_traced_with_another_precision_is_traced_again():
    """Also programs that sizes share; what is recorded already is as precise as was set when it was called."""
    program = """
        import re
        from ftorch.eager.runtime import compilation
        texts, called = [], compilation._CudaProgram.__call__
        compilation._CudaProgram.__call__ = lambda self, *operands: (
            texts.append(self.lower(*operands).as_text()), called(self, *operands))[1]

        def function(x):
            return (x @ x.t()).relu().sum()

        compiled, w = torch.compile(function, dynamic=True), torch.ones(3, 2, 1, 1)

        def found():
            text = "".join(texts)
            texts.clear()
            return " ".join(sorted({*re.findall(r"precision(?:_config)? *= *\\[(?:#stablehlo<precision )?(\\w+)", text)}))

        def all_found():
            said = []
            calls = function, compiled, lambda x: torch.nn.functional.conv2d(x.view(1, 2, -1, 4), w).sum()
            for call in calls:
                for n in (6, 8, 10, 12):
                    call(torch.ones(n, 4)).cpu()
                said.append(found())
            return said

        print(all_found())
        torch.set_float32_matmul_precision("high")
        print(all_found())
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        print(all_found())
        x = torch.ones(4, 4) + 0
        y = x @ x
        torch.set_float32_matmul_precision("high")
        y.cpu()
        print(found())
    """
    assert run(program) == [
        "['HIGHEST', 'HIGHEST', 'HIGH']", "['HIGH', 'HIGH', 'HIGH']", "['HIGHEST', 'HIGHEST', 'HIGHEST']", "HIGHEST",
    ]


def test_memory_that_nobody_else_holds_is_taken_over():
    program = """
        from ftorch.eager.runtime import program
        donated, compile_code = [], program.compile_code
        program.compile_code = lambda code, live, given, *rest: (
            donated.append(given), compile_code(code, live, given, *rest))[1]

        x, row = torch.zeros(300, 200), torch.ones(200)
        kept = None
        for i in range(8):
            if i == 4:
                kept = x.detach().jax()
            x[i] = row
            y = x[i] + 1
            torch.cuda.synchronize()
        print(donated, x.sum().item(), kept.sum(), y.sum().item())
    """
    assert run(program) == ["[(), (0,), ()] 1600.0 800.0 400.0"]


def test_new_sizes_are_planned_by_their_class():
    program = """
        from ftorch.eager.autograd import derivative_kernels
        from ftorch.eager.call import planning

        traced = []
        for module, name in ((planning, "abstract_results"), (derivative_kernels, "used_operands")):
            real = getattr(module, name)
            setattr(module, name, lambda *given, real=real, name=name: (traced.append(name), real(*given))[1])
        net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 5))
        for batch in range(9, 15):
            traced.clear()
            x = torch.arange(batch * 6.0).reshape(batch, 6)
            loss = torch.nn.functional.cross_entropy(net(x), torch.zeros(batch, dtype=torch.long))
            loss.backward()
            torch.cuda.synchronize()
            print(len(traced), loss.device.type, loss.item() > 0)
    """
    first, *others = run(program)
    assert int(first.split()[0]) > 0
    assert others[-2:] == ["0 cuda True"] * 2


def test_synchronizing_does_not_need_the_last_result():
    program = """
        from ftorch.eager.runtime import program

        x = torch.ones(4, 4) + 1
        torch.cuda.synchronize()
        [latest] = program.latest.values()
        print(latest() is not None)
        latest().delete()
        torch.cuda.synchronize()
        del x
        torch.cuda.synchronize()
        print((torch.ones(2) * 3).tolist())
    """
    assert run(program) == ["True", "[3.0, 3.0]"]


def test_the_memory_that_is_asked_for_is_the_devices():
    program = """
        from ftorch.eager.memory import gpu_driver
        from ftorch.eager.runtime import program

        program._LARGE = 1 << 10
        asked = []
        gpu_driver.available = lambda device: (asked.append(device), 1 << 10)[1]
        x = torch.ones(100, 100)
        for _ in range(3):
            x.mul_(2).add_(1)
            torch.cuda.synchronize()
        print({str(device) for device in asked}, x[0, 0].item())
    """
    assert run(program) == ["{'cpu:0'} 15.0"]  # the one that plays the GPU
