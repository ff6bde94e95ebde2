"""Bytes of state that optimizers keep, by what each keeps for each tensor.

Checked against the real optimizers (tests/rules/test_optimizers.py). Frameworks' names are mapped
to rows of `OPTIMIZERS`; an optimizer that is not known has no row, and nothing is assumed of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitstop.rules.tensors import Tensor

BLOCK = 1 + 4 / 256
"""One byte and its share of an fp32 scale per block of 256 (bitsandbytes/optim/optimizer.py)."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What one optimizer keeps.

    `moments` elements of `element` bytes for each parameter (None: of the weight's own format,
    or fp32 where the step runs on an fp32 copy). `keeps_small`: tensors with fewer elements, and
    embeddings, keep fp32 moments. `factored`: rows and columns instead of whole matrices.
    `low_rank`: matrices keep their moments for a projection of some rank, and the projector.
    `matrix_moments`: instead of `moments` for linear layers. `scratch` elements of the weight's
    format per parameter live during the step. `paged` state may move to the host.
    `fused_backward`: each gradient is used up at once. `by_block`: one block of layers at a time
    is trained. `source` is where this is seen.
    """

    moments: float
    element: float | None = None
    keeps_small: int = 0
    factored: bool = False
    low_rank: bool = False
    matrix_moments: float | None = None
    scratch: float = 0.0
    paged: bool = False
    fused_backward: bool = False
    by_block: bool = False
    source: str = ""


BNB = "bitsandbytes/optim"
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": Optimizer(2, source="torch/optim/adamw.py"),
    "adamw_foreach": Optimizer(2, scratch=1, source="torch/optim/adamw.py, _multi_tensor_adamw"),
    "adamw_bf16": Optimizer(2, 2, source="torchdistx AnyPrecisionAdamW"),
    "adamw_8bit": Optimizer(2, BLOCK, 4096, source=f"{BNB}/adamw.py"),
    "adamw_4bit": Optimizer(2, 0.5 + 4 / 128, 4096, source="torchao/optim/subclass_4bit.py"),
    "adamw_torchao_8bit": Optimizer(2, BLOCK, 4096, source="torchao/optim/subclass_8bit.py"),
    "paged_adamw": Optimizer(2, 4, paged=True, source=f"{BNB}/adamw.py"),
    "paged_adamw_8bit": Optimizer(2, BLOCK, 4096, paged=True, source=f"{BNB}/adamw.py"),
    "ademamix": Optimizer(3, 4, source="arXiv 2409.03137"),
    "ademamix_8bit": Optimizer(3, BLOCK, 4096, source=f"{BNB}/ademamix.py"),
    "adam_mini": Optimizer(1, source="arXiv 2406.16793: second moments per block only"),
    "lion": Optimizer(1, source="arXiv 2302.06675"),
    "lion_8bit": Optimizer(1, BLOCK, 4096, source=f"{BNB}/lion.py"),
    "paged_lion": Optimizer(1, 4, paged=True, source=f"{BNB}/lion.py"),
    "paged_lion_8bit": Optimizer(1, BLOCK, 4096, paged=True, source=f"{BNB}/lion.py"),
    "sgd": Optimizer(0, source="torch/optim/sgd.py"),
    "sgd_momentum": Optimizer(1, source="torch/optim/sgd.py"),
    "adagrad": Optimizer(1, source="torch/optim/adagrad.py"),
    "rmsprop": Optimizer(1, source="torch/optim/rmsprop.py"),
    "adafactor": Optimizer(1, 4, factored=True, source="transformers/optimization.py"),
    "schedule_free": Optimizer(2, source="schedulefree/adamw_schedulefree.py"),
    "schedule_free_sgd": Optimizer(1, source="schedulefree/sgd_schedulefree.py"),
    "galore": Optimizer(2, low_rank=True, source="arXiv 2403.03507; galore_torch/adamw.py"),
    "galore_8bit": Optimizer(2, BLOCK, 4096, low_rank=True, source="galore_torch/adamw8bit.py"),
    "apollo": Optimizer(2, low_rank=True, source="arXiv 2412.05270; apollo_torch"),
    "muon": Optimizer(2, matrix_moments=1, source="torch/optim/_muon.py, AdamW for the rest"),
    "lomo": Optimizer(0, fused_backward=True, source="arXiv 2306.09782"),
    "adalomo": Optimizer(1, 4, factored=True, fused_backward=True, source="arXiv 2310.10195"),
    "badam": Optimizer(2, 4, by_block=True, source="arXiv 2404.02827"),
}

_NAMES: dict[str, str] = {
    "adam": "adamw", "adamw_torch": "adamw_foreach", "adamw_torch_fused": "adamw",
    "adamw_torch_npu_fused": "adamw", "adamw_torch_xla": "adamw", "adamw_hf": "adamw",
    "adamw_apex_fused": "adamw", "fused_adam": "adamw", "fusedadam": "adamw", "cpu_adam": "adamw",
    "deepspeedcpuadam": "adamw", "onebitadam": "adamw", "zerooneadam": "adamw",
    "stable_adamw": "adamw", "nadam": "adamw", "radam": "adamw", "lamb": "adamw",
    "adamw_anyprecision": "adamw_bf16", "adamw_bnb_8bit": "adamw_8bit",
    "adamw_torch_8bit": "adamw_torchao_8bit", "adamw_torch_4bit": "adamw_4bit",
    "paged_adamw_32bit": "paged_adamw", "paged_ademamix_32bit": "ademamix",
    "paged_ademamix_8bit": "ademamix_8bit", "lion_32bit": "lion", "paged_lion_32bit": "paged_lion",
    "rmsprop_bnb": "rmsprop", "rmsprop_bnb_32bit": "rmsprop",
    "galore_adamw": "galore", "galore_adamw_8bit": "galore_8bit", "apollo_adamw": "apollo",
    "grokadamw": "ademamix", "schedule_free_adamw": "schedule_free",
    "schedule_free_radam": "schedule_free",
}  # fmt: skip


def optimizer_named(name: str, *, fused: bool | None = None) -> str | None:
    """The row of `OPTIMIZERS` for a framework's name; None for one that is not known. `fused`
    False is PyTorch's multi-tensor step, which needs scratch memory."""
    word = re.sub(r"[- .]", "_", name.strip().lower())
    key = _NAMES.get(word, word)
    if key not in OPTIMIZERS:
        return None
    if key == "adamw" and word in ("adam", "adamw") and fused is False:
        return "adamw_foreach"
    return "adamw" if key == "adamw_foreach" and fused else key


def state_bytes(
    optimizer: Optimizer, trained: Iterable[Tensor], weight: float, rank: int = 128
) -> float:
    """Bytes of state for the trained tensors. `weight` is bytes per element of what the step
    updates (4 with an fp32 copy); `rank` is that of low-rank projections."""
    return sum(_of_one(optimizer, tensor, weight, rank) * tensor.count for tensor in trained)


def _of_one(optimizer: Optimizer, tensor: Tensor, weight: float, rank: int) -> float:
    element = weight if optimizer.element is None else optimizer.element
    if tensor.elements < optimizer.keeps_small or (
        optimizer.keeps_small and tensor.kind == "embedding"
    ):
        element = 4.0
    moments = optimizer.moments
    if optimizer.matrix_moments is not None and tensor.kind == "linear":
        moments = optimizer.matrix_moments
    shape = tensor.shape
    if optimizer.factored and len(shape) > 1:
        rows, columns = tensor.elements / shape[-1], tensor.elements / shape[-2]
        return moments * element * (rows + columns)
    if optimizer.low_rank and tensor.kind == "linear":
        kept = min(rank, *shape)
        return element * moments * kept * max(shape) + weight * kept * min(shape)
    return moments * element * tensor.elements
