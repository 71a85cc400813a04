"""The processes that the tests of this folder share."""

import pytest

from .pool import Pool


@pytest.fixture(scope="session")
def two():
    """A pool of two processes."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def four():
    """A pool of four processes."""
    pool = Pool(4)
    yield pool
    pool.close()
