# expects: PYB006
"""A classifier is trained on one sample after the other, though the whole batch is there as one tensor."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, STEPS = 32, 800


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(196, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(512, 196), torch.randint(0, 10, (512,))
    for _ in range(STEPS):
        chosen = torch.randint(0, len(images), (BATCH,))
        x, y = images[chosen], labels[chosen]
        optimizer.zero_grad()
        loss = torch.zeros(())
        for i in range(BATCH):
            loss = loss + F.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        (loss / BATCH).backward()
        optimizer.step()
    print(f"loss {loss.item() / BATCH:.3f}")


if __name__ == "__main__":
    main()
