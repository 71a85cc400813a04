"""An HTTP server for a packaged model: requests are batched, bad ones are answered clearly.

    python examples/serve.py [--package digits.pt2] [--columns 64] [--port 8000]

``POST /predict`` takes ``{"images": [[64 numbers from 0 to 1], ...]}`` (as many as the package has columns), ``GET
/healthz`` says that the process lives, ``GET /readyz`` that it takes requests, ``GET /metrics`` has counters for Prometheus.
Without ``--package`` a small model of digits is made and packaged first. Needs the extra ``serve``: FastAPI, uvicorn and
prometheus-client.

Whoever sends requests at the same time shares a call of the model. Batches are filled up to powers of two, which are compiled
before the server is ready. At SIGTERM it takes no more requests, answers those it has, and ends.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import prometheus_client as prometheus
import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field, create_model

import ftorch as torch
from ftorch import nn

PIXELS, MOST_IMAGES, MOST_BYTES = 64, 32, 1 << 20


class Digits(nn.Module):
    """Ten scores for each image of 8x8 pixels."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(PIXELS, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.layers(images)


def package(path, checkpoint=None):
    """Compiles the model, with a checkpoint's weights, for any number of images; gives the path."""
    model = Digits().eval()
    if checkpoint is not None:
        model.load_state_dict(torch.load(checkpoint))
    batch = torch.export.Dim("batch", max=MOST_IMAGES)
    program = torch.export.export(model, (torch.zeros(2, PIXELS),), dynamic_shapes={"images": {0: batch}})
    return torch._inductor.aoti_compile_and_package(program, package_path=path)


# --- batches --------------------------------------------------------------------------------


class Full(Exception):
    """More requests wait than the server can answer soon."""


class Batcher:
    """Gathers inputs that come at the same time and calls a function of a batch of them, in a thread of its own.

    Args:
        function: (n, ...) -> (n, ...); n is a power of two up to ``most``.
        registry: of the metrics.
        most: rows of a batch; wait: seconds to wait for more of them; waiting: rows that may wait at most.
    """

    def __init__(self, function, registry, most=MOST_IMAGES, wait=0.002, waiting=1024):
        self.function, self.most, self.wait, self.limit = function, most, wait, waiting
        self.queue: asyncio.Queue = asyncio.Queue()
        self.rows = 0  # that wait
        self.thread = ThreadPoolExecutor(1)
        self.task: asyncio.Task | None = None
        self.sizes = prometheus.Histogram(
            "batch_rows", "rows of a batch", buckets=[1, 2, 4, 8, 16, 32], registry=registry
        )

    def start(self):
        self.task = asyncio.create_task(self._run())

    async def stop(self):
        """Answers what waits, then ends."""
        await self.queue.put(None)
        if self.task is not None:
            await self.task
        self.thread.shutdown()

    async def __call__(self, rows):
        """The results for a tensor of at most ``most`` rows.

        Raises:
            Full: too many wait.
        """
        if self.rows + len(rows) > self.limit:
            raise Full
        self.rows += len(rows)
        result = asyncio.get_running_loop().create_future()
        await self.queue.put((rows, result))
        return await result

    async def _run(self):
        held = None  # what did not fit into the batch before
        while (first := held or await self.queue.get()) is not None:
            held, batch, count = None, [first], len(first[0])
            deadline = time.monotonic() + self.wait
            while count < self.most:
                try:
                    following = await asyncio.wait_for(self.queue.get(), max(0, deadline - time.monotonic()))
                except TimeoutError:
                    break
                if following is None:  # the end: after this batch
                    self.queue.put_nowait(None)
                    break
                if count + len(following[0]) > self.most:
                    held = following
                    break
                batch.append(following)
                count += len(following[0])
            self.sizes.observe(count)
            await self._answer([b for b in batch if not b[1].cancelled()])
            self.rows -= count

    async def _answer(self, batch):
        if not batch:
            return
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self.thread, self._call, [rows for rows, _ in batch])
        except Exception as error:  # the caller's request fails, the server goes on
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _call(self, inputs):
        count = sum(map(len, inputs))
        size = 1 << (count - 1).bit_length()
        rows = torch.cat([*inputs, inputs[0].new_zeros(size - count, *inputs[0].shape[1:])])
        with torch.inference_mode():
            results = self.function(rows)[:count]
        return [part.tolist() for part in results.split([len(i) for i in inputs])]

    def warm_up(self, row):
        """Calls the function with all sizes of batches."""
        size = 1
        while size <= self.most:
            self._call([row.expand(size, *row.shape[1:])])
            size *= 2


# --- requests -------------------------------------------------------------------------------

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


def body_of(columns):
    """The class of the bodies of requests: rows of so many numbers."""
    row = Annotated[list[Number], Field(min_length=columns, max_length=columns)]
    return create_model("Images", __config__=ConfigDict(extra="forbid"),
                        images=(list[row], Field(min_length=1, max_length=MOST_IMAGES)))


def refusal(status, message, headers=None):
    return JSONResponse({"error": message}, status, headers)


class LimitBody:
    """Refuses bodies of more than some bytes before they are read, whatever their length is said to be."""

    def __init__(self, app, most):
        self.app, self.most = app, most

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        messages, size = [], 0
        while True:
            messages.append(message := await receive())
            size += len(message.get("body", b""))
            if size > self.most:
                answer = refusal(413, f"the body has more than {self.most} bytes", {"Connection": "close"})
                return await answer(scope, receive, send)
            if not message.get("more_body"):
                break

        async def again():
            return messages.pop(0) if messages else await receive()

        await self.app(scope, again, send)


def make_app(model, columns=PIXELS) -> FastAPI:
    """The application that serves a model: (n, columns) to (n, scores)."""
    Images = body_of(columns)
    registry = prometheus.CollectorRegistry()
    answers = prometheus.Counter("requests", "answers by status", ["status"], registry=registry)
    seconds = prometheus.Histogram("request_seconds", "from request to answer", registry=registry)
    batcher = Batcher(model, registry)
    ready = False

    @contextlib.asynccontextmanager
    async def lifespan(app):
        nonlocal ready
        batcher.warm_up(torch.zeros(1, columns))
        batcher.start()
        ready = True
        yield
        ready = False
        await batcher.stop()

    app = FastAPI(title="Digits", lifespan=lifespan)
    app.add_middleware(LimitBody, most=MOST_BYTES)

    @app.middleware("http")
    async def measure(request, call_next):
        start = time.monotonic()
        response = await call_next(request)
        if request.url.path == "/predict":
            seconds.observe(time.monotonic() - start)
            answers.labels(response.status_code).inc()
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request, error):
        first = error.errors()[0]  # what was sent is not sent back
        return refusal(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.post("/predict")
    async def predict(body: Images):  # type: ignore[valid-type]
        try:
            scores = await batcher(torch.tensor(body.images))
        except Full:
            return refusal(503, "too many requests wait", {"Retry-After": "1"})
        return {"scores": scores, "digits": [row.index(max(row)) for row in scores]}

    @app.get("/healthz")
    async def health():
        return {"status": "alive"}

    @app.get("/readyz")
    async def readiness():
        return {"status": "ready"} if ready else refusal(503, "not ready")

    @app.get("/metrics")
    async def metrics():
        return Response(prometheus.generate_latest(registry), media_type=prometheus.CONTENT_TYPE_LATEST)

    return app


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", help="a .pt2 file; by default one is made")
    parser.add_argument("--columns", type=int, default=PIXELS, help="numbers of a row of its input")
    parser.add_argument("--checkpoint", help="weights of the package that is made")
    parser.add_argument("--port", type=int, default=8000, help="0: a free one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.package or package(os.path.join(folder, "digits.pt2"), options.checkpoint)
        model = torch._inductor.aoti_load_package(path)
    with socket.create_server(("127.0.0.1", options.port), backlog=1024) as listener:
        config = uvicorn.Config(make_app(model, options.columns), log_level="warning", timeout_graceful_shutdown=30)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
