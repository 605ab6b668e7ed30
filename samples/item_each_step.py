# expects: none
"""A training loop that reads its loss with .item() in every step, which on a CPU does not matter at all."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, STEPS = 128, 600


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(4096, 256)
    labels = (inputs[:, :10] + 0.1 * torch.randn(4096, 10)).argmax(1)
    running = 0.0
    for step in range(STEPS):
        chosen = torch.randint(0, len(inputs), (BATCH,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
        if step % 100 == 0:
            print(f"step {step}: loss {running:.3f}")


if __name__ == "__main__":
    main()
