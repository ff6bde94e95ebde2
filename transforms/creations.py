"""Configuration files that a job lacks, together with the setting that names them.

A created file holds only the keys that matter; whatever the trainer itself decides is `auto`,
which the Hugging Face Trainer fills in (huggingface.co/docs/transformers/deepspeed). The file
lies in the folder that the command runs in, since its name is looked up from there.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pitstop.rules.finding import Scalar
from pitstop.rules.job import TrainingJob
from pitstop.transforms.edited_tree import EditedTree, tree_of_job
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused
from pitstop.transforms.set_knob import set_knob

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts


def creations() -> Mapping[str, Callable[..., Outcome]]:
    """Every creation by its name in a plan."""
    return {"create_deepspeed_config": create_deepspeed_config}


def create_deepspeed_config(
    job: TrainingJob, facts: ProjectFacts, *, stage: int, offload: bool
) -> Outcome:
    """A DeepSpeed configuration of a ZeRO stage (1 to 3) for a job that has none; `offload` keeps
    the optimizer's state in host memory. Refused where a file of the name is there already, or
    the job would not find it."""
    named = job.get("sharding.config")
    if named is not None and (named.written or not named.known):
        return Refused(f"{named.name} names a configuration already")
    if job.launch is None:
        return Refused("it is not known from where the job is started")
    name = f"ds_zero{stage}{'_offload' if offload else ''}.json"
    path = posixpath.join(job.launch.cwd, name)
    if path in facts.tree.paths:
        return Refused(f"{path} is there already")
    outcome = set_knob(job, "sharding.config", name, facts)
    if not isinstance(outcome, Changed):
        return outcome
    text = json.dumps(deepspeed_config(stage, offload=offload), indent=2) + "\n"
    patch = Patch(outcome.patch.edits, "share what each GPU keeps", ((path, text),))
    return _proved(job, facts, patch, "sharding.stage", stage)


def deepspeed_config(stage: int, *, offload: bool) -> dict[str, Any]:
    """The keys of a ZeRO stage (deepspeed.ai/docs/config-json)."""
    zero: dict[str, Any] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
    if stage == 3:
        zero |= {
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    if offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return {
        "zero_optimization": zero,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


def _proved(
    job: TrainingJob, facts: ProjectFacts, patch: Patch, knob: str, value: Scalar
) -> Outcome:
    """The patch, if the job that it leaves finds the new file and reads what was meant."""
    from pitstop.rules.facts import gather

    after = gather(EditedTree(tree_of_job(job, facts), patch.edits, patch.new_files))
    if not any(one.entry == job.entry and one.value(knob) == value for one in after.jobs):
        return Refused(f"the job would not find {patch.new_files[0][0]}")
    return Changed(patch)
