"""What a process of a job is: its rank, memory, versions, and the sizes of its batches.

These functions only look. Each takes what it looks at, or finds it in `sys.modules`, so that it
never imports what the job has not.
"""

import json
import os
import sys

RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK")


def note(record, folder, name):
    """Write a JSON file, whole or not at all."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)


def group():
    """torch.distributed where its processes have met, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def rank():
    """This process's rank; looked up late, since some set it after they start."""
    met = group()
    if met is not None:
        return met.get_rank()
    for name in RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def world():
    """How many ranks there are."""
    met = group()
    return met.get_world_size() if met is not None else count_of("WORLD_SIZE", 1)


def ranks_here():
    """How many ranks this machine has; all of them where nothing says less."""
    return count_of("LOCAL_WORLD_SIZE", 0) or world()


def count_of(name, default):
    """A whole number in an environment variable."""
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else default


def in_loader_worker():
    """Whether this process only loads data for another."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def peaks(torch):
    """Peak bytes that tensors took and that the allocator held; None without CUDA."""
    if not torch.cuda.is_initialized():
        return None
    return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


def peak_rss():
    """Most bytes of memory that this process held."""
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except Exception:
        return None


def allocator(torch):
    """How often the allocator had to give memory back and try again, and failed; None without
    CUDA."""
    if not torch.cuda.is_initialized():
        return None
    found = torch.cuda.memory_stats()
    return {"retries": found.get("num_alloc_retries", 0), "ooms": found.get("num_ooms", 0)}


def environment(torch):
    """Versions and devices; nothing that names a person or a machine."""
    found = {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "gpus": [],
    }
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        found["gpus"] = [torch.cuda.get_device_name(index) for index in devices]
        found["cudnn"] = torch.backends.cudnn.version()
    for name in ("transformers", "accelerate", "deepspeed", "lightning", "trl", "peft"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "?"))
    return found


def value_of(tensor):
    """A copy of a loss that costs no wait: a number on the host, a tensor on a device."""
    if tensor.device.type == "cpu" and type(tensor).__name__ == "Tensor":
        return tensor.item()
    return tensor.detach().clone()


def number(value):
    """A tensor's value as a float."""
    return None if value is None else float(value)


def norm(torch, optimizer):
    """The norm of all gradients as a tensor, or None when they are gone already."""
    grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
    grads = [g.detach() for g in grads if g is not None and not g.is_sparse]
    if not grads:
        return None
    norms = [g.float().norm() for g in grads]
    return torch.stack([one.to(norms[0].device) for one in norms]).norm()


def batch_counts(batch):
    """Samples, tokens and tokens that are not padding of a batch, each None when not known.

    Tokens are counted in every entry named `input_ids` or `..._input_ids` (pairs of answers),
    those that are not padding where all masks lie on the host: elsewhere it would make it wait.
    """
    if not hasattr(batch, "items"):
        return samples_of(first_tensor(batch, 3)), None, None
    ids = entries(batch, "input_ids")
    masks = entries(batch, "attention_mask")
    tokens = sum(one.numel() for one in ids) if ids else None
    useful = None
    if masks and len(masks) == len(ids) and not any(mask.is_cuda for mask in masks):
        useful = sum(int(mask.sum()) for mask in masks)
    return samples_of(ids[0] if ids else first_tensor(batch, 3)), tokens, useful


def entries(batch, name):
    """The tensors of a mapping whose key is the name or ends in it."""
    return [
        value
        for key, value in batch.items()
        if str(key).endswith(name) and hasattr(value, "is_cuda")
    ]


def samples_of(tensor):
    """The length of its first dimension."""
    return tensor.shape[0] if tensor is not None and len(tensor.shape) else None


def first_tensor(batch, depth):
    """The first tensor in nested lists, tuples and mappings."""
    if hasattr(batch, "numel") and hasattr(batch, "shape"):
        return batch
    if depth and hasattr(batch, "values"):
        batch = list(batch.values())
    if depth and isinstance(batch, (list, tuple)):
        for one in batch[:8]:
            found = first_tensor(one, depth - 1)
            if found is not None:
                return found
    return None
