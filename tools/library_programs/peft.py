# needs: peft transformers
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
base = LlamaForCausalLM(LlamaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                    intermediate_size=32))
model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
ids = torch.randint(0, 50, (2, 5))
model(input_ids=ids, labels=ids).loss.backward()
assert sum(p.requires_grad for p in model.parameters()) == 4
print("done")
