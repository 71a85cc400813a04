# needs: litgpt
import torch
from litgpt import GPT, Config
from litgpt.generate.base import generate

for name in ("pythia-14m", "Llama-2-7b-hf", "Gemma-2b", "phi-1_5"):
    torch.manual_seed(0)
    config = Config.from_name(
        name, n_layer=2, n_embd=32, n_head=4, block_size=32, padded_vocab_size=64, vocab_size=64, intermediate_size=48,
        n_query_groups=4, head_size=None,
    )
    model = GPT(config)
    tokens = torch.randint(0, 64, (2, 8))
    logits = model(tokens)
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    model.set_kv_cache(1)
    with torch.no_grad():
        found = generate(model, tokens[0], 14, temperature=0.0)
        model.clear_kv_cache()
        print(name, found.tolist())
        # The cache changes nothing: each token is the likeliest after those before.
        assert found[8:].tolist() == model(found[None])[0, 7:-1].argmax(-1).tolist()
