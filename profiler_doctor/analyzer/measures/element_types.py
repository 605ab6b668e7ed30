"""The element types of tensors: what the profiler calls them, how wide they are, and what peaks call them."""

from __future__ import annotations

WIDTHS = {
    "double": 8, "long int": 8, "long": 8, "unsigned long": 8, "float": 4, "int": 4, "unsigned int": 4, "half": 2,
    "c10::Half": 2, "c10::BFloat16": 2, "short int": 2, "short": 2, "unsigned short": 2, "bool": 1, "unsigned char": 1,
    "signed char": 1, "char": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1, "c10::complex<float>": 8, "c10::complex<double>": 16, "c10::complex<c10::Half>": 4,
}  # fmt: skip
"""Bytes of one element."""
FLOATING = {"double": "fp64", "float": "fp32", "half": "fp16", "c10::Half": "fp16", "c10::BFloat16": "bf16"}
"""Type → its name among the peaks; the eight-bit floats are all fp8."""
SCALAR_TYPES = {
    "0": "unsigned char", "1": "signed char", "2": "short int", "3": "int", "4": "long int", "5": "c10::Half",
    "6": "float", "7": "double", "9": "c10::complex<float>", "10": "c10::complex<double>", "11": "bool",
    "15": "c10::BFloat16", "23": "c10::Float8_e5m2", "24": "c10::Float8_e4m3fn",
}  # fmt: skip
"""The number by which an op is told a type (c10::ScalarType) → the type."""


def width(kind: str) -> int | None:
    """Bytes of one element; None for what is no type of tensor."""
    return WIDTHS.get(kind)


def peak_name(kind: str) -> str:
    """What the peaks call the type; "" for one that they do not have."""
    if kind.startswith("c10::Float8"):
        return "fp8"
    return "int8" if kind in ("signed char", "unsigned char") else FLOATING.get(kind, "")


def promoted(kinds: list[str]) -> str:
    """The type of a result of tensors of these types: floats before integers, then the wider; two halves make float."""
    floats = [kind for kind in kinds if kind in FLOATING or "complex" in kind]
    among = sorted(floats or kinds, key=lambda kind: WIDTHS.get(kind, 0))
    if len({FLOATING.get(kind, kind) for kind in among if WIDTHS.get(kind) == WIDTHS.get(among[-1])}) > 1:
        return "float"
    return among[-1]
