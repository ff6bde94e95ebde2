"""What a Relax launch is: mode, model, GPUs and their split, lengths; and what contradicts it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.rules.architecture import Architecture, LatentAttention
from pitstop.rules.job import TrainingJob, Word
from pitstop.rules.relax.arguments import Arguments, Given, json_of

ASSUMED_GPU, ASSUMED_GIB = "H20 96 GB", 95.6
"""What upstream assumes where nobody says which card it is."""

ASSUMED_PROMPT = 2048
_NAME = re.compile(
    r"^run[-_](?:relax[-_])?(?P<model>.+?)[-_](?P<gpus>\d+)x(?P<device>gpu|npu|klx|xpu|P800)"
    r"(?P<suffix>(?:[-_][A-Za-z0-9.]+)*)\.sh$",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)B(?:-?A(\d+(?:\.\d+)?)B)?", re.IGNORECASE)
_VISION = re.compile(r"vl|omni|qwen3\.?5|qwen3\.?6|kimi-k2|dotsocr", re.IGNORECASE)
_NO_VISION = re.compile(r"glm|llama|qwen3-\d", re.IGNORECASE)
_SFT = ("sft", "sft_loss", "sft-loss")
_SHARED = ("actor", "rollout", "genrm", "teacher")
"""Roles that take turns on the same GPUs in colocated mode."""


@dataclass(frozen=True, slots=True)
class ScriptName:
    """What a script's name says; a hint only."""

    model: str
    gpus: int
    device: str
    suffixes: frozenset[str]


def script_name(path: str) -> ScriptName | None:
    """The parts of `run-<model>-<N>x<device>[-<suffix>...].sh`, or None for another name."""
    match = _NAME.match(path.rsplit("/", 1)[-1])
    if match is None:
        return None
    suffixes = frozenset(re.split(r"[-_]", match["suffix"].lower())) - {""}
    return ScriptName(match["model"], int(match["gpus"]), match["device"].lower(), suffixes)


class Run:
    """One launch. Numbers that cannot be told are None, and rules that need them are silent."""

    def __init__(
        self,
        job: TrainingJob,
        gpu: str | None = None,
        memory: float | None = None,
        text: str = "",
    ) -> None:
        launch = job.launch
        words: tuple[Word, ...] = launch.args if launch is not None else ()
        self.job = job
        self.text = text
        self.args = Arguments(words)
        self.script = launch.location.path if launch is not None else job.id
        self.env = dict(launch.env) if launch is not None else {}
        paths = (word.location.path for word in words)
        self.model_file = next((path for path in paths if "/models/" in path), "")
        self.gpu = gpu or ASSUMED_GPU
        self.gpu_assumed = gpu is None
        self.gpu_gib = memory if memory is not None else ASSUMED_GIB

    @property
    def condition(self) -> str | None:
        """The branch of the script that starts it."""
        return self.job.launch.condition if self.job.launch is not None else None

    @functools.cached_property
    def name(self) -> ScriptName | None:
        """What the script's name says."""
        return script_name(self.script)

    @functools.cached_property
    def debug(self) -> bool:
        """A debug, smoke or profiling script by its name: findings about speed do not count."""
        words = set(re.split(r"[-_/.]", self.script.lower()))
        few = self.args.whole("num-rollout")
        return bool(words & {"debug", "smoke", "ci", "profile", "profiling"}) or (
            few is not None and few <= 20
        )

    @functools.cached_property
    def device(self) -> str:
        """gpu, npu or klx."""
        said = self.name.device if self.name else ""
        if said == "npu" or "-npu" in self.script:
            return "npu"
        if said in ("klx", "xpu", "p800"):
            return "klx"
        backend = self.args.value("sglang-attention-backend")
        return {"ascend": "npu", "kunlun": "klx"}.get(str(backend), "gpu")

    # --- roles and mode -------------------------------------------------------------------------

    @functools.cached_property
    def resource(self) -> dict[str, int] | None:
        """GPUs of each role in --resource; None when it is not given or cannot be read."""
        given = self.args.at("resource")
        if given is None or not given.known or not given.values:
            return None
        try:
            data = json_of(given.values[0].text)
        except ValueError:
            return None
        if not isinstance(data, dict):
            return None
        found = {}
        for role, value in data.items():
            if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], int)):
                return None
            found[str(role)] = value[1]
        return found

    def role(self, name: str) -> int:
        """GPUs of a role; 0 where it is not listed."""
        return (self.resource or {}).get(name, 0)

    @functools.cached_property
    def mode(self) -> str:
        """hybrid, fully-async, sft, colocate or split-sync."""
        if self.args.on("hybrid"):
            return "hybrid"
        if self.args.on("fully-async"):
            return "fully-async"
        if self.args.value("loss-type") in _SFT:
            return "sft"
        return "colocate" if self.args.on("colocate") else "split-sync"

    @property
    def rl(self) -> bool:
        """Reinforcement learning, with a rollout."""
        return self.mode != "sft"

    @functools.cached_property
    def gpus_per_node(self) -> int:
        """GPUs of each node."""
        return self.args.whole("num-gpus-per-node") or 8

    @functools.cached_property
    def world(self) -> int | None:
        """GPUs that train."""
        if self.resource is not None and "actor" in self.resource:
            return self.resource["actor"]
        if self.args.given("resource"):
            return None
        nodes = self.args.whole("actor-num-nodes")
        each = self.args.whole("actor-num-gpus-per-node")
        return nodes * each if nodes and each else None

    @functools.cached_property
    def rollout_gpus(self) -> int | None:
        """GPUs that generate."""
        if self.mode == "colocate" and not self.role("genrm") and not self.role("teacher"):
            return self.world
        return self.role("rollout") or self.args.whole("rollout-num-gpus")

    @functools.cached_property
    def total_gpus(self) -> int | None:
        """GPUs of the whole job."""
        roles = self.resource
        if roles is None:
            return self.world
        if self.mode in ("colocate", "sft"):
            shared = max(roles.get(role, 0) for role in _SHARED)
            return shared + sum(n for role, n in roles.items() if role not in _SHARED)
        return sum(roles.values())

    # --- parallel sizes -------------------------------------------------------------------------

    @functools.cached_property
    def tp(self) -> int | None:
        """Tensor parallel size."""
        return self.args.whole("tensor-model-parallel-size")

    @functools.cached_property
    def pp(self) -> int | None:
        """Pipeline parallel size."""
        return self.args.whole("pipeline-model-parallel-size")

    @functools.cached_property
    def cp(self) -> int | None:
        """Context parallel size; with the dynamic kind, what the longest sample needs."""
        if self.args.on("dynamic-context-parallel"):
            longest, budget = self.args.whole("rollout-max-context-len"), self.tokens
            if not longest or not budget:
                return None
            return 1 << max(0, math.ceil(math.log2(math.ceil(longest / budget))))
        return self.args.whole("context-parallel-size")

    @functools.cached_property
    def ep(self) -> int | None:
        """Expert parallel size."""
        return self.args.whole("expert-model-parallel-size")

    @functools.cached_property
    def etp(self) -> int | None:
        """Expert tensor parallel size: that of tensors where nothing is said."""
        return self.args.whole("expert-tensor-parallel-size", self.tp)

    @functools.cached_property
    def dp(self) -> int | None:
        """Data parallel size, where it comes out whole."""
        split = _product(self.tp, self.pp, self.cp)
        if not split or not self.world or self.world % split:
            return None
        return self.world // split

    # --- model ----------------------------------------------------------------------------------

    @functools.cached_property
    def moe(self) -> bool:
        """Mixture of experts."""
        experts = self.args.whole("num-experts")
        if experts is not None:
            return experts > 1
        match = _SIZE.search(self.model_name)
        return bool(match and match.group(2))

    @functools.cached_property
    def model_name(self) -> str:
        """From the model's configuration file, else the script's name."""
        if self.model_file:
            return self.model_file.rsplit("/", 1)[-1].removesuffix(".sh")
        return self.name.model if self.name else ""

    @functools.cached_property
    def vision_checkpoint(self) -> bool:
        """A checkpoint whose configuration has a text part of its own, by its name."""
        name = self.model_name
        return _VISION.search(name) is not None and _NO_VISION.match(name) is None

    @functools.cached_property
    def modality(self) -> str:
        """text, mm (images, sound) or video."""
        given = self.args.at("multimodal-keys")
        if given is None or not given.values:
            return "text"
        try:
            keys = json_of(given.values[0].text) if given.known else {}
        except ValueError:
            keys = {}
        return "video" if isinstance(keys, dict) and "video" in keys else "mm"

    @functools.cached_property
    def shape(self) -> Architecture | None:
        """The model's shape from its own options; None when one that is needed is not known."""
        return model_shape(self.args, self.model_name)

    @functools.cached_property
    def parameters(self) -> int | None:
        """Parameters of the model: of its shape, else by its name."""
        if self.shape is not None:
            return self.shape.parameters
        match = _SIZE.search(self.model_name)
        return int(float(match.group(1)) * 1e9) if match else None

    # --- lengths and batches --------------------------------------------------------------------

    @functools.cached_property
    def answer(self) -> int | None:
        """The longest answer, in tokens."""
        return self.args.whole("rollout-max-response-len")

    @functools.cached_property
    def tokens(self) -> int | None:
        """Tokens that a GPU takes in one micro batch."""
        return self.args.whole("max-tokens-per-gpu")

    @functools.cached_property
    def longest(self) -> int | None:
        """Tokens of the longest sample."""
        if self.mode == "sft":
            return self.args.whole("seq-length") or _product(self.tokens, self.cp)
        context = self.args.whole("rollout-max-context-len")
        if context:
            return context
        prompt = self.args.whole("rollout-max-prompt-len", ASSUMED_PROMPT)
        return prompt + self.answer if prompt and self.answer else None

    @functools.cached_property
    def samples(self) -> int:
        """Answers to each prompt."""
        return self.args.whole("n-samples-per-prompt") or 1

    @functools.cached_property
    def prompts(self) -> int | None:
        """Prompts of one rollout."""
        found = self.args.whole("rollout-batch-size")
        if found is None and not self.args.given("rollout-batch-size") and self.batch:
            return self.batch // self.samples
        return found

    @functools.cached_property
    def batch(self) -> int | None:
        """Samples of one training step."""
        return self.args.whole("global-batch-size")

    @functools.cached_property
    def samples_per_step(self) -> int | None:
        """Samples of one rollout."""
        return _product(self.prompts, self.samples)

    @functools.cached_property
    def engine_gpus(self) -> int | None:
        """GPUs of one engine."""
        return self.args.whole("rollout-num-gpus-per-engine")

    @functools.cached_property
    def engines(self) -> int | None:
        """Engines that generate."""
        if not self.rollout_gpus or not self.engine_gpus or self.rollout_gpus % self.engine_gpus:
            return None
        return self.rollout_gpus // self.engine_gpus

    @functools.cached_property
    def true_on_policy(self) -> bool | None:
        """Whether one rollout is exactly one training step, so that no old log-probabilities are
        needed."""
        if self.args.on("true-on-policy-mode"):
            return True
        if self.mode != "fully-async":
            return False
        if self.samples_per_step is None or self.batch is None:
            return None
        return self.samples_per_step == self.batch

    @functools.cached_property
    def kl(self) -> bool:
        """Whether a reference model is asked for."""
        coefficient = self.args.number("kl-coef")
        return self.args.on("use-kl-loss") or bool(coefficient)

    # --- words ----------------------------------------------------------------------------------

    def place(self, *names: str) -> Given | None:
        """Where one of these options is written, else where the launch names its roles."""
        found = (self.args.at(name) for name in (*names, "resource"))
        return next((given for given in found if given is not None), None)

    def context_line(self) -> str:
        """One line: model, GPUs, mode, parallel sizes, length, card."""
        size = f" {self.parameters / 1e9:.1f}B" if self.parameters else ""
        kind = "MoE" if self.moe else "dense"
        nodes = ""
        if self.total_gpus:
            count = math.ceil(self.total_gpus / self.gpus_per_node)
            each = min(self.total_gpus, self.gpus_per_node)
            nodes = f"{self.total_gpus} GPUs ({count} x {each})"
        sizes = "/".join(
            f"{name}{value if value is not None else '?'}"
            for name, value in zip(
                ("TP", "PP", "CP", "EP", "ETP"),
                (self.tp, self.pp, self.cp, self.ep, self.etp),
                strict=True,
            )
        )
        card = f"{self.gpu}{' (assumed)' if self.gpu_assumed else ''}"
        parts = (
            f"{self.model_name or 'unknown model'}{size} {kind} {self.modality}",
            nodes,
            self.mode,
            sizes,
            f"answers up to {self.answer}" if self.answer else "",
            card,
        )
        return " · ".join(part for part in parts if part)

    def contradictions(self) -> Iterator[str]:
        """Where the script's name says something else than its options."""
        name = self.name
        if name is None:
            return
        if self.total_gpus and name.gpus != self.total_gpus:
            yield f"the name says {name.gpus} GPUs, the roles add up to {self.total_gpus}"
        said = name.suffixes & {"async", "hybrid", "colocate", "colocated"}
        wanted = {
            "hybrid": {"hybrid"},
            "fully-async": {"async"},
            "colocate": {"colocate", "colocated"},
        }.get(self.mode, set())
        if said and wanted and not said & wanted and self.condition is None:
            yield f"the name says {' '.join(sorted(said))}, the options say {self.mode}"


def _product(*values: int | None) -> int | None:
    found = 1
    for value in values:
        if value is None:
            return None
        found *= value
    return found


def model_shape(args: Arguments, family: str) -> Architecture | None:
    """The shape that Megatron's architecture options describe; None when one is missing."""
    layers, hidden = args.whole("num-layers"), args.whole("hidden-size")
    heads, vocabulary = args.whole("num-attention-heads"), args.whole("vocab-size")
    if not (layers and hidden and heads and vocabulary):
        return None
    experts = args.whole("num-experts") or 0
    latent = None
    if args.on("multi-latent-attention"):
        latent = LatentAttention(
            args.whole("q-lora-rank"),
            args.whole("kv-lora-rank") or 512,
            args.whole("qk-head-dim") or 128,
            args.whole("qk-pos-emb-head-dim") or 64,
            args.whole("v-head-dim") or 128,
        )
    width = args.whole("ffn-hidden-size") or 4 * hidden
    return Architecture(
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=args.whole("num-query-groups") or heads,
        head_dim=args.whole("kv-channels") or hidden // heads,
        intermediate=width,
        vocabulary=vocabulary,
        tied=not args.on("untie-embeddings-and-output-weights"),
        gated=args.on("swiglu"),
        experts=experts,
        top_k=(args.whole("moe-router-topk") or 2) if experts else 0,
        expert_intermediate=(args.whole("moe-ffn-hidden-size") or width) if experts else 0,
        shared=(args.whole("moe-shared-expert-intermediate-size") or 0) if experts else 0,
        moe_layers=layers - dense_layers(args, layers) if experts else 0,
        latent=latent,
        output_gate=args.on("attention-output-gate"),
    )


def dense_layers(args: Arguments, layers: int) -> int:
    """Layers without experts, of `--moe-layer-freq` where that is a list; 0 where it cannot be
    read (most models have experts in all or all but a few)."""
    text = str(args.value("moe-layer-freq") or "")
    match = re.fullmatch(r"\(?\[0\]\*(\d+)\+\[1\]\*\d+\)?", text.replace(" ", ""))
    if match:
        return min(layers, int(match.group(1)))
    if text.startswith("[") and set(text) <= set("[]01, "):
        return text.count("0")
    return 0
