"""Small arrays of a GPU are read as `numpy.asarray` reads them; where there is none, by that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ftorch.eager.memory import gpu_driver


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2), (300, 300)])
def test_elements(dtype, shape):
    values = np.arange(np.prod(shape)).reshape(shape) % 3
    array = jax.device_put(jnp.asarray(values).astype(dtype), jax.devices()[0])
    found = gpu_driver.elements(array)
    assert found.dtype == array.dtype and found.shape == shape
    np.testing.assert_array_equal(found, np.asarray(array))


def test_of_a_trace():
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(gpu_driver.elements)(jnp.ones(2))


def test_a_driver_that_does_not_answer_is_not_asked(monkeypatch):
    class Device:
        platform, local_hardware_id = "gpu", 0

        class client:  # noqa: N801
            platform_version = "cuda 13000"

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(gpu_driver.ctypes, "CDLL", missing)
    assert gpu_driver._driver(Device()) is None
