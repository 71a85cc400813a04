# needs: x-transformers
import torch
from x_transformers import Decoder, TransformerWrapper

torch.manual_seed(0)
net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=Decoder(dim=16, depth=1, heads=2))
net(torch.randint(0, 20, (2, 8))).square().mean().backward()
print("done")
