"""Create the configuration file that a job lacks, and make the job use it: one change of two files.

Keys that a file leaves out keep their defaults, so that only those that matter stand in it. A YAML
file says why in a comment. In DeepSpeed's JSON a key of its own at the top says it: DeepSpeed looks
the keys up that it knows and leaves others alone (deepspeed/runtime/config.py, 0.19), whereas
sections refuse unknown keys and transformers reads no comments.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pitstop.rules.finding import Scalar
from pitstop.rules.job import MultiNode, TrainingJob
from pitstop.rules.job_facts import gpu_count
from pitstop.transforms import edit_shell
from pitstop.transforms.command_settings import commands
from pitstop.transforms.edit_shell import Target
from pitstop.transforms.edited_tree import EditedTree, tree_of_job
from pitstop.transforms.patch import Changed, Outcome, Patch, Refused
from pitstop.transforms.set_knob import set_knob

if TYPE_CHECKING:
    from pitstop.rules.facts import ProjectFacts

_WHY = {
    1: "Each GPU keeps a share of the optimizer state.",
    2: "Each GPU keeps a share of gradients and optimizer state.",
    3: "Each GPU keeps a share of weights, gradients and optimizer state.",
}
_FSDP = """\
# Each GPU keeps a share of weights, gradients and optimizer state; layers are gathered when needed.
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
num_machines: 1
num_processes: {processes}
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
"""


def creations() -> Mapping[str, Callable[..., Outcome]]:
    """Every creation by its name in a plan."""
    return {
        "create_deepspeed_config": create_deepspeed_config,
        "create_fsdp_config": create_fsdp_config,
    }


# --- DeepSpeed -------------------------------------------------------------------------------


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
    path = _free(f"ds_zero{stage}{'_offload' if offload else ''}.json", job, facts)
    if isinstance(path, Refused):
        return path
    outcome = set_knob(job, "sharding.config", _from_here(path, job), facts)
    if not isinstance(outcome, Changed):
        return outcome
    text = json.dumps(deepspeed_config(stage, offload=offload), indent=2) + "\n"
    return _proved(outcome, path, text, job, facts, {"sharding.stage": stage})


def deepspeed_config(stage: int, *, offload: bool) -> dict[str, Any]:
    """The keys of a ZeRO stage. What the trainer of transformers fills in is "auto"
    (integrations/deepspeed.py); overlap_comm keeps its default, which differs between releases
    because some of them lost gradients with it."""
    zero: dict[str, Any] = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return {
        "_comment": _WHY[stage],
        "zero_optimization": zero,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


# --- FSDP ------------------------------------------------------------------------------------


def create_fsdp_config(job: TrainingJob, facts: ProjectFacts) -> Outcome:
    """A configuration of accelerate for FSDP, for a job that `accelerate launch` starts without
    one on one machine. Refused where a file of the name is there already."""
    launch, processes = job.launch, gpu_count(job)
    if launch is None or launch.launchers[-1:] != ("accelerate",):
        return Refused("the job is not started by accelerate launch")
    if launch.multi_node is not MultiNode.SINGLE or processes is None:
        return Refused("the number of processes of this one machine is not known")
    if any(word.text.startswith("--config_file") for word in launch.launcher_args):
        return Refused("the job has a configuration of accelerate")
    found = commands(job, facts)
    path = _free("fsdp.yaml", job, facts)
    if isinstance(found, Refused):
        return found
    if isinstance(path, Refused):
        return path
    target = Target(found, launch.location, launch.launcher_args, launch.entry_location)
    outcome = edit_shell.set_flag(target, "--config_file", _from_here(path, job))
    if not isinstance(outcome, Changed):
        return outcome
    text = _FSDP.format(processes=processes)
    return _proved(outcome, path, text, job, facts, {"parallel.strategy": "fsdp2"})


# --- the file and the proof ------------------------------------------------------------------


def _free(name: str, job: TrainingJob, facts: ProjectFacts) -> str | Refused:
    """A path beside the configuration file of the job, else where its command runs."""
    cwd = job.launch.cwd if job.launch else ""
    folder = posixpath.dirname(job.configs[0]) if job.configs else cwd
    path = posixpath.join(folder, name)
    return Refused(f"{path} is there already") if path in facts.tree.paths else path


def _from_here(path: str, job: TrainingJob) -> str:
    """The path as the program opens it: from the folder in which its command runs."""
    return posixpath.relpath(path, job.launch.cwd or "." if job.launch else ".")


def _proved(
    use: Changed,
    path: str,
    text: str,
    job: TrainingJob,
    facts: ProjectFacts,
    wanted: Mapping[str, Scalar],
) -> Outcome:
    """The change, if the job read anew follows the file to what is wanted."""
    from pitstop.rules.facts import gather

    tree = EditedTree(tree_of_job(job, facts), use.patch.edits, ((path, text),))
    found = [j for j in gather(tree, hardware=job.hardware).jobs if path in j.files]
    if not any(_start(j) == _start(job) for j in found):
        return Refused(f"the job would not find {path}")
    for knob, value in wanted.items():
        if any(j.value(knob) != value for j in found):
            return Refused(f"{knob} would not be decided by {path}")
    return Changed(Patch(use.patch.edits, new_files=((path, text),)))


def _start(job: TrainingJob) -> tuple[str | None, str | None]:
    """What stays of a job when it gets another configuration file: its script and program."""
    return job.launch.location.path if job.launch else None, job.entry
