"""Operations and bytes of an op by its shapes: by hand, and against torch's own counter."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.costs import Cost, cost
from profiler_doctor.analyzer.measures.element_types import promoted
from profiler_doctor.analyzer.measures.operands import Operand
from profiler_doctor.analyzer.measures.roofline import op_costs
from profiler_doctor.analyzer.reading import read

BF16 = "c10::BFloat16"


def tensor(*dims: int, kind: str = "float", strides: tuple[int, ...] | None = None) -> Operand:
    return Operand(dims, kind, strides, "")


def number(value: str) -> Operand:
    return Operand((), "Scalar", None, value)


NOTHING = Operand((), "", None, "")
ONE = (number("[1, 1]"), number("[0, 0]"), number("[1, 1]"))
BY_HAND = [
    ("aten::mm", (tensor(4, 8), tensor(8, 3)), Cost("matmul", "float", 192, 4 * (32 + 24 + 12))),
    ("aten::addmm", (tensor(3), tensor(4, 8), tensor(8, 3)), Cost("matmul", "float", 192, 4 * (3 + 32 + 24 + 12))),
    ("aten::bmm", (tensor(5, 4, 8, kind=BF16), tensor(5, 8, 3, kind=BF16)), Cost("matmul", BF16, 960, 2 * 5 * 68)),
    (
        "aten::baddbmm",
        (tensor(5, 4, 3), tensor(5, 4, 8), tensor(5, 8, 3)),
        Cost("matmul", "float", 960, 4 * 5 * (12 + 32 + 24 + 12)),
    ),
    ("aten::mv", (tensor(4, 8), tensor(8)), Cost("matmul", "float", 64, 4 * (32 + 8 + 4))),
    (
        "aten::linear",
        (tensor(2, 5, 8), tensor(3, 8), tensor(3)),
        Cost("matmul", "float", 2 * 10 * 3 * 8, 4 * (80 + 24 + 3 + 30)),
    ),
    # 8x8 image, 3x3 kernel, stride 2, padding 1: 4x4 places in each of 2 images
    (
        "aten::conv2d",
        (
            tensor(2, 3, 8, 8),
            tensor(6, 3, 3, 3),
            NOTHING,
            number("[2, 2]"),
            number("[1, 1]"),
            number("[1, 1]"),
            number("1"),
        ),
        Cost("convolution", "float", 2 * 2 * 16 * 162, 4 * (384 + 162 + 2 * 6 * 16)),
    ),
    # cudnn has no bias, and names the padding before the stride
    (
        "aten::cudnn_convolution",
        (tensor(2, 3, 8, 8), tensor(6, 3, 3, 3), number("[1, 1]"), number("[2, 2]"), number("[1, 1]"), number("1")),
        Cost("convolution", "float", 2 * 2 * 16 * 162, 4 * (384 + 162 + 2 * 6 * 16)),
    ),
    # depthwise: 4 groups, the weight has one input channel; no padding and dilation 2 leave 4x4
    (
        "aten::conv2d",
        (
            tensor(4, 8, 8),
            tensor(4, 1, 3, 3),
            NOTHING,
            number("[1, 1]"),
            number("[0, 0]"),
            number("[2, 2]"),
            number("4"),
        ),
        Cost("convolution", "float", 2 * 16 * 36, 4 * (256 + 36 + 64)),
    ),
    (
        "aten::conv1d",
        (tensor(1, 2, 10), tensor(3, 2, 3), tensor(3), number("[1]"), number("same"), number("[1]"), number("1")),
        Cost("convolution", "float", 2 * 10 * 18, 4 * (20 + 18 + 3 + 30)),
    ),
    # transposed: the weight is laid on each of 4x4 inputs; (4-1)*2 - 2*1 + 3 + 1 = 8 out
    (
        "aten::conv_transpose2d",
        (
            *(tensor(1, 6, 4, 4), tensor(6, 3, 3, 3), NOTHING, number("[2, 2]"), number("[1, 1]"), number("[1, 1]")),
            *(number("1"), number("[1, 1]")),
        ),
        Cost("convolution", "float", 2 * 16 * 162, 4 * (96 + 162 + 3 * 64)),
    ),
    (
        "aten::scaled_dot_product_attention",
        (tensor(2, 4, 10, 16, kind=BF16), tensor(2, 4, 20, 16, kind=BF16), tensor(2, 4, 20, 16, kind=BF16)),
        Cost("attention", BF16, 4 * 2 * 4 * 10 * 20 * 16, 2 * 8 * (160 + 320 + 320 + 160)),
    ),
    ("aten::add", (tensor(4, 1), tensor(5), number("1")), Cost("pointwise", "float", 20, 4 * (4 + 5 + 20))),
    ("aten::mul", (tensor(4, 5, kind=BF16), tensor(4, 5)), Cost("pointwise", "float", 20, 20 * (2 + 4 + 4))),
    ("aten::gt", (tensor(10), tensor(10)), Cost("pointwise", "bool", 10, 10 * (4 + 4 + 1))),
    ("aten::add_", (tensor(10, kind=BF16), tensor(10)), Cost("pointwise", BF16, 10, 10 * (2 + 4 + 2))),
    ("aten::copy_", (tensor(10, kind=BF16), tensor(10)), Cost("pointwise", BF16, 10, 10 * (4 + 2))),
    ("aten::zero_", (tensor(10),), Cost("pointwise", "float", 10, 40)),
    ("aten::_to_copy", (tensor(10), number("15")), Cost("pointwise", BF16, 10, 10 * (4 + 2))),
    ("aten::mul", (tensor(4, 5), tensor(4, 5, strides=(1, 0))), Cost("pointwise", "float", 20, 4 * (20 + 4 + 20))),
]


@pytest.mark.parametrize(("name", "given", "expected"), BY_HAND)
def test_a_cost_is_what_paper_says(name: str, given: tuple[Operand, ...], expected: Cost) -> None:
    assert cost(name, given) == expected


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("aten::softmax", (tensor(10),)),
        ("aten::mm", (tensor(4, 8),)),
        ("aten::mm", (tensor(4, 8), tensor(7, 3))),
        ("aten::mm", (tensor(4, 8, kind="some::type"), tensor(8, 3, kind="some::type"))),
        ("aten::conv2d", (tensor(2, 3, 8, 8), tensor(6, 3, 3, 3))),
        ("aten::conv2d", (tensor(2, 3, 8, 8), tensor(6, 3, 3, 3), NOTHING, NOTHING, NOTHING, NOTHING)),
        ("aten::add", (number("1"), number("2"))),
        ("aten::add", (tensor(3), tensor(4))),
        ("mine::add", (tensor(3), tensor(3))),
    ],
)
def test_what_the_shapes_do_not_tell_has_no_cost(name: str, given: tuple[Operand, ...]) -> None:
    assert cost(name, given) is None


def test_which_gradients_a_convolution_works_out_is_told_by_its_mask() -> None:
    def flops(mask: str) -> int:
        arguments = (NOTHING, *ONE, number("False"), number("[0, 0]"), number("1"), number(mask))
        found = cost(
            "aten::convolution_backward", (tensor(2, 6, 6, 6), tensor(2, 3, 8, 8), tensor(6, 3, 3, 3), *arguments)
        )
        return found.flops if found else -1

    assert flops("[True, True, True]") == 2 * 2 * (2 * 36) * 162
    assert flops("[False, True, False]") == 2 * (2 * 36) * 162
    assert flops("") == -1


def test_two_halves_of_different_kind_make_a_float() -> None:
    assert promoted([BF16, BF16]) == BF16
    assert promoted([BF16, "c10::Half"]) == "float"
    assert promoted(["long int", BF16]) == BF16
    assert promoted(["int", "long int"]) == "long int"


def test_torchs_own_counter_agrees_forward_and_backward(tmp_path: Path) -> None:
    """It knows no attention on a CPU, and counts the weight gradient of a grouped convolution once per group."""
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter")
    functional = torch.nn.functional
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.Conv2d(8, 8, 3, dilation=2, padding="same"),
        torch.nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1),
        torch.nn.Flatten(2),
        torch.nn.Linear(400, 16),
    )

    def step() -> None:
        tokens = layers(torch.randn(2, 3, 17, 17)).reshape(2, 2, 2, 16)
        attended = functional.scaled_dot_product_attention(tokens, tokens, tokens)
        torch.bmm(attended.flatten(0, 1), attended.flatten(0, 1).transpose(1, 2)).sum().backward()

    with counter.FlopCounterMode(display=False) as expected:
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recording:
        step()
    recording.export_chrome_trace(str(tmp_path / "trace.json"))

    table = op_costs(read(tmp_path / "trace.json"))

    assert table.loc[table["kind"].isin(["matmul", "convolution"]), "flops"].sum() == expected.get_total_flops()
    assert table.loc[table["kind"] == "attention", "op"].str.contains("_scaled_dot_product_").tolist() == [True, True]
