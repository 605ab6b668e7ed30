# expects: ENV002
"""A bug was hunted with anomaly detection, the bug is gone, and the switch is still on."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, STEPS = 32, 1000

torch.autograd.set_detect_anomaly(True)


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(1024, 64), torch.randint(0, 4, (1024,))
    for step in range(STEPS):
        start = BATCH * (step % 32)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs[start : start + BATCH]), labels[start : start + BATCH])
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
