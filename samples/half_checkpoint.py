# expects: PRC005
"""A checkpoint saved in float16 for a GPU is loaded and run on a CPU as it is."""

import io

import torch
from torch import nn

BATCH, BATCHES = 8, 600


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16 * 16, 64),
    )


def saved_for_a_gpu() -> io.BytesIO:
    torch.manual_seed(0)
    file = io.BytesIO()
    torch.save(network().half().state_dict(), file)
    file.seek(0)
    return file


def main() -> None:
    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    weights = torch.load(saved_for_a_gpu(), map_location="cpu", weights_only=True)
    model = network().half().eval()
    model.load_state_dict(weights)
    signals = torch.randn(BATCH, 16, 32, 32).half()
    total = torch.zeros(64)
    with torch.inference_mode():
        for _ in range(BATCHES):
            total += model(signals).float().mean(0)
    print("mean output:", (total / BATCHES).norm().item())


if __name__ == "__main__":
    main()
