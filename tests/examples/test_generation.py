"""examples/serve_llm.py says in both libraries the same, however it generates, by one program a token."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import sys

import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.runtime.counters import stats

PATH = pathlib.Path(__file__).parents[2] / "examples" / "serve_llm.py"


def _load(library):
    """The example with its imports of ftorch replaced."""
    source = PATH.read_text().replace("import ftorch", f"import {library}").replace("from ftorch", f"from {library}")
    name = f"serve_llm_in_{library}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(source, str(PATH), "exec"), module.__dict__)
    return module


mine, theirs = _load("ftorch"), _load("torch")
PROMPT, COUNT = [5, 17, 80, 3, 41], 20
CACHES = ["GrowingCache", "StaticCache", "SlidingCache", "QuantizedCache"]


@pytest.fixture(scope="module")
def models():
    """(the module of the example, a model, a smaller one) in each library, with the same weights."""
    made = []
    reference.manual_seed(0)
    for example, library in ((theirs, reference), (mine, ftorch)):
        config = example.Config()
        model, draft = (example.GPT(c).eval() for c in (config, dataclasses.replace(config, depth=1)))
        if made:
            state = {k: library.tensor(v.numpy()) for k, v in made[0][1].state_dict().items()}
            model.load_state_dict(state)
        draft.load_state_dict(model.state_dict(), strict=False)
        made.append((example, model, draft))
    return made


@pytest.mark.parametrize("kind", CACHES)
def test_caches(models, kind):
    def said(example, model, _):
        return example.generate(model, getattr(example, kind)(model.config), PROMPT, COUNT)

    assert said(*models[1]) == said(*models[0])


@pytest.mark.parametrize(
    "how", [{"temperature": 0.8}, {"top_k": 5}, {"top_p": 0.7}, {"top_k": 9, "top_p": 0.9}], ids=str
)
def test_sampling_draws_what_pytorch_draws(models, how):
    def said(example, model, _):
        (reference if example is theirs else ftorch).manual_seed(3)
        return example.generate(model, example.StaticCache(model.config), PROMPT, 12, **how)

    assert said(*models[1]) == said(*models[0])


def test_speculation_and_beams(models):
    found = [example.speculate(model, draft, PROMPT, COUNT) for example, model, draft in models]
    assert found[1] == found[0]
    example, model, _ = models[1]
    assert found[1][0] == example.generate(model, example.GrowingCache(model.config), PROMPT, COUNT)
    (ours, our_score), (text, score) = (e.search(m, PROMPT, 8) for e, m, _ in models[::-1])
    assert ours == text and abs(our_score - score) < 1e-3


def test_packed_texts_see_themselves_only(models):
    texts = [[5, 17, 80], [3, 41, 9, 9, 1], [7]]
    scores = []
    for example, model, _ in models:
        torch = reference if example is theirs else ftorch
        tokens = torch.tensor([sum(texts, [])])
        positions = torch.tensor([[i for text in texts for i in range(len(text))]])
        attention = example.PackedAttention([len(text) for text in texts])
        with torch.no_grad():
            scores.append(model(tokens, positions, attention).numpy()[0])
        if torch is ftorch:
            call = torch.compile(lambda t, p, m=model, a=attention: m(t, p, a), fullgraph=True)
            with torch.no_grad():
                np.testing.assert_allclose(call(tokens, positions).numpy()[0], scores[1], rtol=1e-3, atol=1e-4)
            alone = model(torch.tensor([texts[1]]), example.positions_of(0, 5), example.GrowingCache(model.config))
            np.testing.assert_allclose(scores[1][3:8], alone.detach().numpy()[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pages", [64, 12], ids=["room", "preempted"])
def test_the_engine_says_what_requests_alone_get(models, pages):
    example, model, _ = models[1]
    engine = example.Engine(model, rows=3, pages=pages)
    texts = [[1 + (7 * i + j) % 90 for j in range(2 + 3 * i % 8)] for i in range(7)]
    first = [engine.submit(text, 6 + i) for i, text in enumerate(texts[:4])]
    for _ in range(3):
        engine.step()
    requests = first + [engine.submit(text, 25) for text in texts[4:]]  # while others run
    engine.run()
    other, reference_model, _ = models[0]
    for request, text in zip(requests, texts, strict=True):
        cache = other.GrowingCache(reference_model.config)
        assert request.tokens == other.generate(reference_model, cache, text, request.count)
    assert len(engine.free_pages) == pages - 1 and len(engine.free_rows) == 3
    assert engine.steps < sum(r.count for r in requests)
    with pytest.raises(ValueError, match="in all"):
        engine.submit([1] * 100, 100)


@pytest.mark.parametrize("kind", ["StaticCache", "SlidingCache", "QuantizedCache"])
def test_a_token_is_one_program_that_writes_the_cache_in_place(models, kind):
    example, model, _ = models[1]
    config = dataclasses.replace(model.config, longest=512)
    cache = getattr(example, kind)(config)
    step = example.make_step(model, cache, compiled=True)
    buffers = [b for b in cache.buffers() if b.numel() > 1 << 12]
    token, position = ftorch.tensor([[3]]), ftorch.tensor([[0]])
    for i in range(6):
        if i == 3:
            where = [b.data_ptr() for b in buffers]
            compiled = stats.compilations
        step(token, position + i).tolist()
    assert stats.compilations == compiled
    assert [b.data_ptr() for b in buffers] == where
