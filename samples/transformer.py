# expects: ATT001
"""A small language model whose attention is written out: scores, mask, softmax and weighted sum as separate ops."""

import math

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH, BATCHES = 1000, 128, 4, 4, 192, 4, 400


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("seen", torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(~self.seen[:length, :length], float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.blocks(x))


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    model = LanguageModel().eval()
    text = torch.randint(0, VOCABULARY, (64, LENGTH + 1))
    surprise = 0.0
    for number in range(BATCHES):
        batch = text[torch.arange(number, number + BATCH) % len(text)]
        logits = model(batch[:, :-1])
        surprise += nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).item()
    print(f"perplexity {math.exp(surprise / BATCHES):.0f}")


if __name__ == "__main__":
    main()
