# needs: transformers
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

torch.manual_seed(0)
small = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
llama = LlamaForCausalLM(LlamaConfig(**small, num_key_value_heads=1, max_position_embeddings=64)).eval()
ids = torch.randint(3, 50, (2, 5))
mask = torch.ones_like(ids)
options = dict(attention_mask=mask, max_new_tokens=6, pad_token_id=0)
greedy = llama.generate(ids, do_sample=False, **options)
assert greedy.shape == (2, 11)
assert llama.generate(ids, do_sample=False, use_cache=False, **options).equal(greedy)
torch.manual_seed(1)
sampled = llama.generate(ids, do_sample=True, top_k=5, **options)
torch.manual_seed(1)
assert llama.generate(ids, do_sample=True, top_k=5, **options).equal(sampled)
assert llama.generate(ids, num_beams=2, do_sample=False, **options).shape[0] == 2
eager = LlamaForCausalLM(LlamaConfig(**small, num_key_value_heads=1, max_position_embeddings=64,
                                     attn_implementation="eager")).eval()
eager.load_state_dict(llama.state_dict())
with torch.no_grad():
    assert torch.allclose(eager(ids).logits, llama(ids).logits, atol=1e-5)
with tempfile.TemporaryDirectory() as folder:
    llama.save_pretrained(folder)
    again = LlamaForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        assert torch.allclose(again(ids).logits, llama(ids).logits, atol=1e-6)

bert = BertForSequenceClassification(BertConfig(**small, num_labels=3))
optimizer = torch.optim.AdamW(bert.parameters(), lr=1e-2)
losses = []
for _ in range(4):
    loss = bert(ids, labels=torch.tensor([0, 2])).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
gpt = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32))
gpt.gradient_checkpointing_enable()
gpt.train()
gpt(ids, labels=ids).loss.backward()
print("done", greedy[0].tolist())
