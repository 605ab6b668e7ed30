# expects: OPT004
"""ResNet-50 as it is often served: random weights, evaluation mode, and the graph for a backward pass kept anyway.

Besides, its convolutions run in NCHW and its batch norms are not folded into them.
"""

import torch
from torch import Tensor, nn

BATCH, SIZE, BATCHES = 1, 64, 600


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up, and the way around."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int = 1) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + identity)


class ResNet50(nn.Module):
    """Stages of 3, 4, 6 and 3 bottlenecks."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.channels = 64
        self.layer1 = self.stage(64, 3, stride=1)
        self.layer2 = self.stage(128, 4, stride=2)
        self.layer3 = self.stage(256, 6, stride=2)
        self.layer4 = self.stage(512, 3, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512 * Bottleneck.expansion, classes)

    def stage(self, width: int, blocks: int, stride: int) -> nn.Sequential:
        layers = []
        for number in range(blocks):
            layers.append(Bottleneck(self.channels, width, stride if number == 0 else 1))
            self.channels = width * Bottleneck.expansion
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a worker a core, as servers on CPUs are run
    model = ResNet50().eval()
    images = torch.randn(BATCH, 3, SIZE, SIZE)
    counts = torch.zeros(1000, dtype=torch.long)
    for _ in range(BATCHES):
        scores = model(images)
        counts[scores.argmax(1)] += 1
    print("most frequent class:", counts.argmax().item())


if __name__ == "__main__":
    main()
