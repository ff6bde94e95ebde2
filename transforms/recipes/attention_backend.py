"""The attention that a loaded model uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pitstop.rules.pysource import Call
from pitstop.transforms.patch import Refused
from pitstop.transforms.pretrained import loading_calls, mentions
from pitstop.transforms.recipe import Case, Example, Numerics, Recipe, Refusal
from pitstop.transforms.syntax_ops import Keyword, Op

_OWN_BIAS = re.compile(r"(?<![a-z])(?:m?t5|umt5|flan-t5|gemma-?[23])(?![a-z])", re.IGNORECASE)
_HALF = ("torch.bfloat16", "torch.float16", "bfloat16", "float16", "auto")
_HEAD = """\
import tempfile
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
)
folder = tempfile.mkdtemp()
LlamaForCausalLM(config).save_pretrained(folder)
"""
_TAIL = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(3):
    tokens = torch.randint(0, 64, (2, 16))
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""


class AttentionBackend(Recipe):
    """Load models with a fused attention.

    `attn_implementation="eager"` in `from_pretrained` becomes the argument `backend`. "sdpa" needs
    no package; "flash_attention_2" is also written where nothing is, since it pays off beyond
    SDPA with long or packed sequences, and needs 16-bit weights and a GPU of capability 8.0.

    Refused where attention weights are read, and for architectures that add a bias or a cap which
    the fused functions do not have.
    """

    id = "attention-backend"
    numerics = Numerics.EQUIVALENT
    requires = ("transformers>=4.36",)
    answers = ("GEN-D01", "HF-F01", "HF-F02")
    arguments = {"backend": "sdpa"}  # noqa: RUF012 - as its annotation in the base says
    sources = ("https://huggingface.co/docs/transformers/attention_interface",)
    examples = (
        Example(
            f"""\
{_HEAD}model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
{_TAIL}""",
            f"""\
{_HEAD}model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa")
{_TAIL}""",
        ),
        Example(
            """\
import torch
from transformers import AutoModelForCausalLM as Model

model = Model.from_pretrained(
    "Qwen/Qwen2.5-7B",
    torch_dtype=torch.bfloat16,  # as trained
)
""",
            """\
import torch
from transformers import AutoModelForCausalLM as Model

model = Model.from_pretrained(
    "Qwen/Qwen2.5-7B",
    torch_dtype=torch.bfloat16,  # as trained
    attn_implementation="flash_attention_2",
)
""",
            {"backend": "flash_attention_2"},
            runs=False,
        ),
    )
    refuses = (
        Refusal(
            """\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", attn_implementation="eager")
weights = model(**batch, output_attentions=True).attentions
""",
            "attention weights",
        ),
        Refusal(
            """\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("google/gemma-2-9b", attn_implementation="eager")
""",
            "google/gemma-2-9b",
        ),
    )

    def rewrite(self, case: Case) -> Iterator[Op | Refused]:
        """The keyword of each loading call."""
        backend = str(case.args["backend"])
        for call in loading_calls(case):
            given = call.argument("attn_implementation")
            written = given is not None and given.origin == "literal" and given.name_at is not None
            if given is not None and (not written or given.value != "eager"):
                continue
            if given is None and (backend == "sdpa" or call.open_ended):
                continue  # SDPA is the default
            reason = _reason(case, call, backend)
            yield (
                Refused(reason)
                if reason
                else Keyword(call.node, "attn_implementation", f'"{backend}"')
            )


def _reason(case: Case, call: Call, backend: str) -> str | None:
    if mentions(case.module, "output_attentions"):
        return "attention weights are read"
    model = call.argument("pretrained_model_name_or_path", 0)
    name = model.value if model is not None and isinstance(model.value, str) else ""
    if _OWN_BIAS.search(name):
        return f"{name} computes attention with a bias or cap that fused functions do not have"
    if not backend.startswith("flash_attention"):
        return None
    have = case.hardware.capability
    if have is not None and have < (8, 0):
        return "FlashAttention needs a GPU of compute capability 8.0"
    dtype = call.argument("torch_dtype") or call.argument("dtype")
    if dtype is None or dtype.value not in _HALF:
        return "FlashAttention needs weights loaded in 16 bits"
    return None
