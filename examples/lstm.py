"""A language model of characters with a two-layer LSTM, truncated backpropagation and clipping.

    python examples/lstm.py
"""

from common import main, text

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class LanguageModel(nn.Module):
    """Embedding, LSTM, and the probabilities of the next character."""

    def __init__(self, characters, width):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, codes, state=None):
        y, state = self.lstm(self.embedding(codes), state)
        return self.head(y), state


@torch.no_grad()
def sample(model, characters, start, length=120):
    """Text that begins with one character, the next ones drawn from the model."""
    code, state, written = torch.tensor([[characters.index(start)]]), None, start
    for _ in range(length):
        logits, state = model(code, state)
        code = torch.multinomial(logits[:, -1].softmax(-1), 1)
        written += characters[code.item()]
    return repr(written)


def trainer(width=128, batch=16, length=32):
    codes, characters = text(torch)
    model = LanguageModel(len(characters), width)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    lines = codes[: len(codes) // batch * batch].view(batch, -1)  # each row is read from left to right
    position, state = 0, None

    def step():
        nonlocal position, state
        if position + length >= lines.shape[1]:
            position, state = 0, None
        part = lines[:, position : position + length + 1]
        position += length
        optimizer.zero_grad()
        logits, state = model(part[:, :-1], state)
        state = tuple(s.detach() for s in state)
        loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step, lambda: sample(model, characters, "T")


if __name__ == "__main__":
    main(torch, trainer, 600, __doc__)
