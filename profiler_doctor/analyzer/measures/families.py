"""What kind of work an op does, by its name: the families that a step is split into."""

from __future__ import annotations

import re

WORD = r"(?<![a-zA-Z0-9])(?:{})(?![a-zA-Z0-9])"
"""Whole words of a name: `mm` but not `comm`, in place or not."""


def _words(*words: str) -> str:
    return WORD.format("|".join(words))


FAMILIES = {
    "scalar reads": _words("item", "local_scalar_dense", "is_nonzero", "equal"),
    "attention": "scaled_dot_product|(?:flash|efficient|multi_head|flex|paged)_attention|sage_?attn",
    "convolution": "conv(?!ert)",
    "recurrent cells": "lstm|gru|rnn|thnn_fused",
    "matmul": "linear|matmul|einsum|scaled_mm|qgemm|"
    + _words("(?:add|b|baddb)?mm", "addbmm", "v?dot", "addr", "(?:add)?mv"),
    "normalization": "(?:batch|layer|group|instance|rms|local_response|weight)_?norm|softmax",
    "pooling and resampling": "pool|upsample|interpolate|grid_sampl|affine_grid|pixel_(?:un)?shuffle",
    "embedding and indexing": "embedding|index|gather|scatter|masked_select|nonzero|topk|sort|unique|searchsorted"
    "|bincount|bucketize|one_hot|tril|triu|diag|" + _words("take", "take_along_dim"),
    "loss": "loss|cross_entropy|kl_div|cosine_similarity|cdist",
    "random numbers": "dropout|bernoulli|multinomial|(?<![a-z])rand|normal_|uniform_|exponential_",
    "copies and layout": "copy|contiguous|clone|reorder|repeat|flip|lift_fresh|im2col|col2im|convert|to_dense"
    "|pin_memory|_pad_|" + _words("to", "cat", "concat", "[hvd]?stack", "pad", "roll"),
    "views": "transpose|permute|reshape|view|expand|slice|select|split|chunk|narrow|squeeze|as_strided|flatten|unbind"
    "|detach|alias|resolve_|movedim|unfold|broadcast_in_dim|" + _words("t", "T"),
    "creation": "empty|zeros|ones|full|linspace|(?<!masked_)fill|resize|scalar_tensor|new_|"
    + _words("arange", "eye", "zero", "set", "tensor"),
    "reduction": "^_*(?:(?:nan)?(?:sum|mean|median)|prod|std|var|var_mean|std_mean|norm|max|min|a(?:min|max)|aminmax"
    "|arg(?:min|max)|any|all|mode|quantile|logsumexp|count_nonzero|cum(?:sum|prod)|linalg_vector_norm)_?$",
    "optimizer": "foreach|fused_(?:adam|sgd|adagrad)|amp_(?:update|non_finite)",
    "communication": "all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_(?!in_dim)|record_param_comms",
    "compiled code": "Torch-Compiled|CompiledF|TorchDynamo|inductor|triton|AOTDispatcher|aoti",
}  # fmt: skip
"""Family → what the names of its ops hold; the first that matches."""
PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in FAMILIES.items())
OTHER_ATEN = "pointwise"
"""Most of what is left of ATen works on each element by itself."""
OTHER = "other ops"


def family_of(name: str) -> str:
    """The family of an op."""
    space, _, own = name.rpartition("::")
    if space in ("c10d", "nccl", "gloo"):
        return "communication"
    found = next((family for family, pattern in PATTERNS if pattern.search(own)), None)
    return found or (OTHER_ATEN if space in ("aten", "prims") else OTHER)
