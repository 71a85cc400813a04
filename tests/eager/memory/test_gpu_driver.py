"""Small arrays of a GPU are read as `numpy.asarray` reads them; where there is none, by that."""

import threading

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


class _Library:
    """A driver whose device is the host."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        def answer(*given):
            self.asked.append(name)
            if name == "cuStreamCreate":
                given[0]._obj.value = 1 + self.asked.count(name)
            elif name == "cuMemcpyDtoH_v2":
                gpu_driver.ctypes.memmove(*given)
            return 0

        self.__dict__[name] = answer
        return answer


def test_threads_take_each_others_streams(monkeypatch):
    """One that has ended leaves none behind."""
    library, refused = _Library(), []
    monkeypatch.setattr(gpu_driver.ctypes, "CDLL", lambda name: library)
    driver = gpu_driver._Driver(0)

    class Array:
        def __init__(self, values):
            self.values, self.shape, self.dtype = values, values.shape, values.dtype

        def __dlpack__(self, stream):
            assert stream == 2
            if refused:
                raise BufferError(refused[0])
            return object()

        def block_until_ready(self):
            library.asked.append("block_until_ready")

        def unsafe_buffer_pointer(self):
            return self.values.ctypes.data

    values, found = np.arange(3.0), []
    for reason in ([], [], ["a dtype that it has not"], []):
        refused[:] = reason
        thread = threading.Thread(target=lambda: found.append(driver.copy(Array(values))))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(found, [values] * 4)
    assert [library.asked.count(n) for n in ("cuStreamCreate", "cuStreamQuery", "block_until_ready")] == [1, 3, 1]


def test_who_waits_for_a_stream_is_interrupted(monkeypatch):
    """And by the driver itself only for what a device has to do beside what is known."""
    library, left = _Library(), [3]
    monkeypatch.setattr(gpu_driver.ctypes, "CDLL", lambda name: library)
    driver = gpu_driver._Driver(0)

    def query(_):
        library.asked.append("cuStreamQuery")
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt  # as a signal's handler between two questions
        return gpu_driver._NOT_READY if left[0] > 0 else 0

    library.cuStreamQuery = driver._query = query

    class Array:
        def is_ready(self):
            return False

        def __dlpack__(self, stream):
            return object()

    with pytest.raises(KeyboardInterrupt):
        driver.wait(Array())
    assert "cuCtxSynchronize" not in library.asked
    left[0] = -5
    assert driver.wait(Array()) and driver.wait(None)
    assert [library.asked.count(n) for n in ("cuStreamCreate", "cuStreamQuery", "cuCtxSynchronize")] == [1, 4, 2]


def test_long_waits_rest(monkeypatch):
    library, now, rests = _Library(), [0.0], []
    monkeypatch.setattr(gpu_driver.ctypes, "CDLL", lambda name: library)

    class Time:
        @staticmethod
        def perf_counter():
            now[0] += 1e-3
            return now[0]

        @staticmethod
        def sleep(seconds):
            rests.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(gpu_driver, "time", Time)
    driver = gpu_driver._Driver(0)
    driver._query = lambda _: gpu_driver._NOT_READY if now[0] < 60 else 0
    assert driver._is_done(1)
    assert rests[0] < 1e-4 and max(rests) <= gpu_driver._LONGEST_REST and now[0] < 60.2
