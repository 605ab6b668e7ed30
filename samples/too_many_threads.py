# expects: ENV001
"""Somebody read that more threads are faster, and gave each op four times as many as there are CPUs."""

import os

import torch
from torch import nn

BATCH, BATCHES = 64, 600


def main() -> None:
    torch.set_num_threads(4 * (os.cpu_count() or 1))
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]).eval()
    inputs = torch.randn(BATCH, 512)
    total = torch.zeros(512)
    with torch.inference_mode():
        for _ in range(BATCHES):
            total += model(inputs).mean(0)
    print("mean output:", (total / BATCHES).norm().item())


if __name__ == "__main__":
    main()
