"""Datasets for the tests of worker processes, which import this module but not the tests."""

import os
import sys
import time

import numpy as np

from ftorch.utils.data import Dataset, IterableDataset, get_worker_info


class Arrays(Dataset):
    """Samples of every kind that needs no tensors."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return np.full(3, i, np.float32), i, i / 2, {"text": f"x{i}", "flag": i % 2 == 0}


class Loaded(Dataset):
    """Whether the tensor engine is loaded in the process."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return int("jax" in sys.modules), int("ftorch.eager.tensor" in sys.modules)


class OfTwoSizes(Dataset):
    """Samples whose batches travel in files, every other one twice as large."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return np.full(2000 * (1 + i % 2), i, np.float32)


class Imports(Dataset):
    """Whether modules are there before a sample imports them: an installed one, and the user's own."""

    def __init__(self, own):
        self.own = own

    def __len__(self):
        return 1

    def __getitem__(self, i):
        import importlib

        names = ("wave", self.own)
        found = [int(name in sys.modules) for name in names]
        for name in names:
            importlib.import_module(name)
        return found


class Tensors(Dataset):
    """Samples made by the engine in the worker."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        import ftorch as torch

        return torch.tensor([i, i + 1])


class Seeds(Dataset):
    """The seed of a worker of either package, and numbers of Python's and NumPy's generators."""

    def __init__(self, package):
        self.package = package

    def __len__(self):
        return 4

    def __getitem__(self, i):
        import importlib
        import random

        info = importlib.import_module(f"{self.package}.utils.data").get_worker_info()
        return info.id, info.seed, random.random(), float(np.random.rand())


class EngineSeeds(Dataset):
    """A worker, its seed, and what the engine's generator was seeded with."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        import ftorch as torch

        info = get_worker_info()
        return info.id, info.seed, torch.initial_seed()


class Failing(Dataset):
    """Fails at 3 in the way that it is told to."""

    def __init__(self, action):
        self.action = action

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:
            match self.action:
                case "raise":
                    raise KeyError("the key")
                case "kill":
                    os.kill(os.getpid(), 9)
                case "exit":
                    os._exit(3)
                case "sleep":
                    time.sleep(60)
                case "unpicklable":
                    return lambda: (yield)
        return i


class Large(Dataset):
    """Samples of a megabyte, in an array that all workers share."""

    def __init__(self):
        self.rows = np.arange(8 * 250_000, dtype=np.float32).reshape(8, -1)

    def __len__(self):
        return 8

    def __getitem__(self, i):
        self.rows[i, 0] = -1  # a private copy of the page
        return self.rows[i]


class Shards(IterableDataset):
    """0 to 9, shared between the workers."""

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, 10, step))


def keep_list(samples):
    """A collate function that collates nothing."""
    return samples


class Special(Exception):
    """An exception that needs two arguments."""

    def __init__(self, a, b):
        super().__init__(a, b)


class RaisesSpecial(Failing):
    """Raises `Special`."""

    def __getitem__(self, i):
        raise Special(1, 2)


class Counted(Dataset):
    """Counts its samples where all processes see it: in what only children can share."""

    def __init__(self, context):
        self.count, self.lock, self.seen = context.Value("i", 0), context.Lock(), context.Queue()

    def __len__(self):
        return 8

    def __getitem__(self, i):
        import ftorch as torch

        if i == 100:
            os.kill(os.getpid(), 9)
        with self.lock:
            self.count.value += 1
            self.seen.put(i)
        return torch.arange(3.0) * i + torch.rand(3)


SETTING = [1]


class Settings:
    """What a module was set to, and how many threads compute, in the worker."""

    def __init__(self, torch):
        self.torch = torch

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return SETTING[0], self.torch.get_num_threads()
