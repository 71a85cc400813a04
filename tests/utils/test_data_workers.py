"""Worker processes of the `DataLoader`."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.utils.data import DataLoader, TensorDataset
from ftorch.utils.data._utils import processes

from . import worker_datasets as datasets

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
ROOT = str(pathlib.Path(__file__).parents[2])


@pytest.fixture(autouse=True, params=["fork", "spawn"])
def start_method(request, monkeypatch):
    """Workers of this process and of the server, where a test names none."""
    of_context = processes._start_method
    monkeypatch.setattr(
        processes,
        "_start_method",
        lambda context: of_context(context) if context else request.param,
    )
    return request.param


def plain(value):
    """Tensors as lists, in containers."""
    if isinstance(value, (torch.Tensor, reference.Tensor)):
        return value.tolist(), str(value.dtype)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_are_those_of_one_process(workers):
    loader = DataLoader(datasets.Arrays(), batch_size=4, num_workers=workers)
    alone = DataLoader(datasets.Arrays(), batch_size=4)
    assert plain(list(loader)) == plain(list(alone))
    expected = reference.utils.data.DataLoader(datasets.Arrays(), batch_size=4)
    assert plain(list(loader)) == plain(list(expected))


def test_samples_without_batches():
    loader = DataLoader(datasets.Arrays(), batch_size=None, num_workers=2)
    expected = reference.utils.data.DataLoader(datasets.Arrays(), batch_size=None)
    assert plain(list(loader)) == plain(list(expected))


def test_shuffling_is_that_of_one_process():
    def order(workers):
        generator = torch.Generator().manual_seed(3)
        loader = DataLoader(range(20), shuffle=True, generator=generator, num_workers=workers)
        return [plain(list(loader)) for _ in range(2)]

    assert order(2) == order(0)


def test_workers_of_arrays_do_not_load_the_engine():
    script = """
        import sys
        sys.path[:0] = [{root!r}]
        from ftorch.utils.data import DataLoader
        from tests.utils.worker_datasets import Loaded
        print([b.tolist() for batch in DataLoader(Loaded(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
               for b in batch])
    """
    assert run_script(script) == "[[0, 0], [0, 0], [0, 0], [0, 0]]"


def test_batches_keep_their_values_while_files_are_written_again():
    loader = DataLoader(datasets.OfTwoSizes(), batch_size=None, num_workers=1)
    sizes = []
    batches = iter(loader)
    for i, batch in enumerate(batches):
        assert batch.shape == (2000 * (1 + i % 2),) and (batch == i).all()
        sizes.append(len(batches._pool.mappings[0]._mappings))
    assert max(sizes) <= loader.prefetch_factor + 2 < len(loader)
    held = list(loader)
    assert all((batch == i).all() for i, batch in enumerate(held))
    rows = [batch[:10] for batch in loader]  # views hold the memory, too
    assert all((row == i).all() for i, row in enumerate(rows))
    batches = iter(loader)
    arrays = [next(batches).numpy() for _ in range(20)]
    del batches
    assert all((array == i).all() for i, array in enumerate(arrays))


def test_installed_modules_are_imported_once_for_all_workers(tmp_path):
    (tmp_path / "of_the_user.py").write_text("")
    script = f"""
        import sys
        sys.path[:0] = [{{root!r}}, {str(tmp_path)!r}]
        from ftorch.utils.data import DataLoader
        from tests.utils.worker_datasets import Imports
        loader = DataLoader(Imports("of_the_user"), batch_size=None, num_workers=1, multiprocessing_context="spawn")
        print([sample for _ in range(3) for sample in loader])
    """
    assert run_script(script) == "[[0, 0], [1, 0], [1, 0]]"


def test_modules_that_start_threads_are_left_to_the_workers(tmp_path):
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,)).start()"
    (tmp_path / "with_thread.py").write_text(thread)
    (tmp_path / "without.py").write_text("")
    script = f"""
        import sys
        sys.path[:0] = [{{root!r}}, {str(tmp_path)!r}]
        from ftorch.utils.data._utils import imports
        imports.prepare(["with_thread"])
        imports.prepare(["without", "not_there"])
        print([name in sys.modules for name in ("with_thread", "without")])
    """
    assert run_script(script) == "[False, True]"


def test_tensors_from_workers():
    for _ in range(2):  # the second time the engine is loaded before the workers are forked
        loader = DataLoader(datasets.Tensors(), batch_size=3, num_workers=2)
        assert plain(list(loader)) == [
            ([[0, 1], [1, 2], [2, 3]], "torch.int64"), ([[3, 4], [4, 5], [5, 6]], "torch.int64"),
        ]


def test_tensors_to_workers():
    x = torch.arange(12.0).reshape(6, 2)
    dataset = TensorDataset(x, torch.arange(6).to(torch.bfloat16), x.t()[0])
    loader = DataLoader(dataset, batch_size=4, num_workers=1)
    assert plain(list(loader)) == plain(list(DataLoader(dataset, batch_size=4)))


def test_shared_storage_stays_shared():
    x = torch.zeros(4)

    def collate(samples):
        import ftorch

        x = ftorch.zeros(4)
        return x, x.view(2, 2), ftorch.nn.Parameter(ftorch.ones(2))

    ((a, b, p),) = DataLoader([x], collate_fn=collate, num_workers=1)
    a[0] = 5
    assert b[0, 0].item() == 5
    assert isinstance(p, torch.nn.Parameter)
    assert p.requires_grad


def test_graphs_are_refused():
    def collate(samples):
        import ftorch

        return ftorch.ones(2, requires_grad=True) * 2

    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(DataLoader(range(1), collate_fn=collate, num_workers=1))


def test_large_arrays():
    batches = list(DataLoader(datasets.Large(), batch_size=2, num_workers=2))
    expected = datasets.Large().rows
    expected[:, 0] = -1
    np.testing.assert_array_equal(torch.cat(batches).numpy(), expected)


def test_arrays_that_stay_arrays():
    loader = DataLoader(
        datasets.Large(), batch_size=2, num_workers=1, collate_fn=datasets.keep_list
    )
    (batch, *_) = loader
    assert isinstance(batch[0], np.ndarray)
    batch[0][:] = 7  # they are the caller's own


def test_streams():
    for persistent in (False, True):
        loader = DataLoader(
            datasets.Shards(), batch_size=2, num_workers=3, persistent_workers=persistent
        )
        for _ in range(2):
            # The order of torch.utils.data.DataLoader with the same dataset.
            assert [b.tolist() for b in loader] == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]


def test_persistent_workers_stay():
    loader = DataLoader(datasets.Arrays(), num_workers=2, persistent_workers=True)
    first = iter(loader)
    pids = [w.pid for w in first._workers]
    next(first)  # an epoch that is given up
    assert len(list(loader)) == 10
    assert [w.pid for w in loader._iterator._workers] == pids
    assert len(list(loader)) == 10


def test_results_in_any_order():
    loader = DataLoader(range(20), batch_size=2, num_workers=2, in_order=False)
    assert sorted(i for batch in loader for i in batch.tolist()) == list(range(20))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of PyTorch's workers
def test_random_generators_are_pytorchs():
    rows = {}
    for package in (torch, reference):
        package.manual_seed(5)
        loader = package.utils.data.DataLoader(
            datasets.Seeds(package.__name__), batch_size=None, num_workers=2,
            **({} if package is torch else {"multiprocessing_context": "fork"}),
        )
        rows[package] = list(loader)
    for ours, theirs in zip(rows[torch], rows[reference], strict=True):
        assert ours == theirs  # seed, Python's and NumPy's generator
    seeds = DataLoader(datasets.EngineSeeds(), batch_size=None, num_workers=2)
    assert [worker for worker, *_ in seeds] == [0, 1, 0, 1]
    assert all(seed == initial for _, seed, initial in seeds)


def test_worker_init_fn_and_local_functions():
    scale = 3

    def init(worker_id):
        info = torch.utils.data.get_worker_info()
        info.dataset.append(100 + info.id)

    def collate(samples):
        return [s * scale for s in samples]

    class Local(list):
        def __len__(self):
            return 2

    loader = DataLoader(Local([1, 2]), num_workers=1, worker_init_fn=init, collate_fn=collate)
    assert list(loader) == [[3], [6]]
    loader = DataLoader(
        Local([1, 2]), num_workers=1, worker_init_fn=init, collate_fn=collate, sampler=[2]
    )
    assert list(loader) == [[300]]


@pytest.mark.parametrize("where", ["init", "iter"])
def test_errors_before_the_first_batch(where):
    def init(worker_id):
        raise ValueError("in init")

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            raise ValueError("in iter")

    dataset = Stream() if where == "iter" else range(4)
    loader = DataLoader(dataset, num_workers=1, worker_init_fn=init if where == "init" else None)
    with pytest.raises(ValueError, match=rf"(?s)Caught ValueError in DataLoader worker process 0.*"
                                         rf"in {where}"):
        list(loader)


def test_errors_carry_the_traceback():
    loader = DataLoader(datasets.Failing("raise"), batch_size=2, num_workers=1)
    with pytest.raises(KeyError) as info:
        list(loader)
    text = str(info.value)
    assert text.startswith(
        "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call"
    )
    assert "in __getitem__" in text
    assert text.rstrip().endswith("KeyError: 'the key'")


def test_errors_that_cannot_be_made_again():
    with pytest.raises(RuntimeError, match="Caught Special in DataLoader worker process 0"):
        list(DataLoader(datasets.RaisesSpecial(""), num_workers=1))


def test_iteration_goes_on_after_an_error():
    iterator = iter(DataLoader(datasets.Failing("raise"), num_workers=2))
    seen = []
    while True:
        try:
            seen.append(next(iterator).item())
        except KeyError:
            seen.append("error")
        except StopIteration:
            break
    assert seen == [0, 1, 2, "error", 4, 5, 6, 7]


def test_results_that_cannot_be_sent():
    loader = DataLoader(datasets.Failing("unpicklable"), num_workers=1, batch_size=None)
    results = list(loader)  # by value: even this function travels
    assert callable(results[3])

    def collate(samples):
        return threading.Lock()

    with pytest.raises(TypeError, match="cannot pickle '_thread.lock' object"):
        list(DataLoader(range(2), collate_fn=collate, num_workers=1))


def test_datasets_that_cannot_be_pickled():
    """Children have them from this process, as in PyTorch, unless another start method is asked for."""

    class Stream(torch.utils.data.IterableDataset):
        def __init__(self):
            self.numbers, self.lock = (n * n for n in range(4)), threading.Lock()

        def __iter__(self):
            with self.lock:
                yield from self.numbers

    batches = DataLoader(Stream(), 2, num_workers=1, multiprocessing_context="fork")
    assert [batch.tolist() for batch in batches] == [[0, 1], [4, 9]]
    with pytest.raises((TypeError, AttributeError), match="(C|c)an(no|')t pickle"):
        iter(DataLoader(Stream(), num_workers=1, multiprocessing_context="spawn"))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("kill", r"DataLoader worker \(pid \d+\) is killed by signal: Killed. "),
        ("exit", r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code 3. "),
    ],
)
def test_dead_workers(action, message):
    iterator = iter(DataLoader(datasets.Failing(action), num_workers=1))
    with pytest.raises(RuntimeError, match=message):
        list(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_timeout():
    start = time.monotonic()
    iterator = iter(DataLoader(datasets.Failing("sleep"), num_workers=1, timeout=1.5))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1.5 seconds"):
        list(iterator)
    assert time.monotonic() - start < 10
    os.kill(iterator._workers[0].pid, signal.SIGKILL)  # no need to wait for it to be terminated


def test_workers_end_with_the_iterator():
    iterator = iter(DataLoader(range(100), num_workers=2))
    next(iterator)
    processes = list(iterator._workers)
    pids = [p.pid for p in processes]
    del iterator
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_many_small_and_few_large_messages_do_not_block():
    # Tasks and results that do not fit into a socket's buffer, both ways at once.
    sampler = [list(range(20_000)) for _ in range(30)]
    loader = DataLoader(
        range(20_000), batch_sampler=sampler, num_workers=1, prefetch_factor=30,
        collate_fn=datasets.keep_list,
    )
    assert [len(batch) for batch in loader] == [20_000] * 30
    words = DataLoader(["word" * 50] * 3000, batch_size=5, num_workers=1, prefetch_factor=600)
    assert sum(len(batch) for batch in words) == 3000


def test_more_batches_than_file_descriptors():
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        sys.path[:0] = [{root!r}]
        import numpy as np
        from ftorch.utils.data import DataLoader
        loader = DataLoader([np.full(3000, i) for i in range(200)], num_workers=1,
                            collate_fn=lambda samples: samples[0])
        batches = list(loader)
        print(len(batches), all((b == i).all() for i, b in enumerate(batches)))
    """
    assert run_script(script) == "200 True"


def test_script_without_a_main_guard():
    script = """
        import sys
        sys.path[:0] = [{root!r}]
        import numpy as np
        import ftorch as torch

        OFFSET = 10

        class Mine(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, i):
                return np.float32(helper(i))

        def helper(i):
            return i + OFFSET

        class Batch:
            def __init__(self, samples):
                self.samples = samples

        print([b.tolist() for b in torch.utils.data.DataLoader(Mine(), 2, num_workers=2)])
        loader = torch.utils.data.DataLoader(Mine(), 4, num_workers=1, collate_fn=Batch)
        print([isinstance(b, Batch) for b in loader])
    """
    assert run_script(script) == "[[10.0, 11.0], [12.0, 13.0]]\n[True]"


def test_context_is_checked():
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    loader = DataLoader(range(2), num_workers=1, multiprocessing_context=context)
    assert loader.multiprocessing_context is context
    assert len(list(loader)) == 2
    for bad, error in (("thread", ValueError), (object(), TypeError)):
        with pytest.raises(error, match="multiprocessing_context option should"):
            DataLoader(range(2), num_workers=1, multiprocessing_context=bad)
    with pytest.raises(ValueError, match="can only be used with multi-process loading"):
        DataLoader(range(2), multiprocessing_context="spawn")


def run_script(text):
    text = textwrap.dedent(text).format(root=ROOT)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("start_method", ["fork"], indirect=True)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_what_only_children_share(method, persistent):
    """Values, locks and queues of `multiprocessing`, and random numbers as those of other workers."""
    dataset = datasets.Counted(multiprocessing.get_context(method))
    loader = DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=persistent)
    for epoch in (1, 2):
        torch.manual_seed(epoch)
        batches = torch.cat(list(loader))
        assert dataset.count.value == 8 * epoch
        assert sorted(dataset.seen.get(timeout=20) for _ in range(8)) == list(range(8))
        if epoch == 1 or not persistent:
            reference.manual_seed(epoch)
            seed = reference.empty((), dtype=reference.int64).random_().item()
            reference.manual_seed(seed)  # of the first worker
            first = reference.arange(3.0) * 0 + reference.rand(3)
            np.testing.assert_array_equal(batches[0].numpy(), first.numpy())


@pytest.mark.parametrize("start_method", ["fork"], indirect=True)
def test_a_forked_worker_that_is_killed():
    dataset = datasets.Counted(multiprocessing.get_context("fork"))
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid \d+\) is killed by signal: Killed. "):
        list(DataLoader(dataset, sampler=[0, 1, 100, 3], num_workers=2))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of PyTorch's workers
@pytest.mark.parametrize("start_method", ["fork"], indirect=True)
def test_forked_workers_have_what_modules_were_set_to(monkeypatch):
    monkeypatch.setattr(datasets, "SETTING", [7])
    rows = [
        list(
            library.utils.data.DataLoader(
                datasets.Settings(library),
                batch_size=None,
                num_workers=2,
                multiprocessing_context="fork",
            )
        )
        for library in (torch, reference)
    ]
    assert rows[0] == rows[1] == [[7, 1], [7, 1]]


def test_values_that_were_pending():
    x = torch.arange(1000.0)
    pending = torch.nn.functional.conv1d((x * 3).view(1, 1, -1), torch.ones(1, 1, 3))[0, 0]
    batches = list(DataLoader(TensorDataset(pending[:6]), batch_size=3, num_workers=2))
    assert [batch.tolist() for (batch,) in batches] == [[9, 18, 27], [36, 45, 54]]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("start_method", ["fork"], indirect=True)
def test_workers_end_while_later_ones_live():
    """They have no ends of each other's sockets, and a child's garbage ends nobody else's workers."""
    first = iter(DataLoader(range(8), num_workers=2))
    later = iter(DataLoader(range(8), num_workers=2))
    processes_of_first, begun = list(first._workers), time.monotonic()
    next(first)
    del first
    assert time.monotonic() - begun < 4
    assert [process.exitcode for process in processes_of_first] == [0, 0]
    child = os.fork()
    if not child:
        try:
            later._shutdown_workers()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [int(x) for x in later] == list(range(8))
