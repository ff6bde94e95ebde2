"""What the probe hangs into which module, when a job imports it.

Each function gets the probe and the module, right after the module was loaded and before anybody
else sees it, so that names imported from it later are already the wrapped ones.
"""

import functools
import os
import time


def seed_of(probe):
    """The wanted seed, another for each rank, as unseeded ranks would have."""
    rank = os.environ.get("RANK", "")
    return probe.config["seed"] + (int(rank) if rank.isdigit() else 0)


def seed_python(probe):
    """Seed Python's own generator; a job that seeds does so later and has the last word."""
    import random

    random.seed(seed_of(probe))


def into_torch(probe, torch):
    """Seeds, so that both of two runs begin alike where the job itself does not seed."""
    if probe.config["seed"] is not None:
        torch.manual_seed(seed_of(probe))
    if probe.config["deterministic"]:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True


def into_numpy(probe, numpy):
    """NumPy's global generator is seeded, too."""
    if probe.config["seed"] is not None:
        numpy.random.seed(seed_of(probe))


def into_inductor(probe, config):
    """A compiled model draws the same dropout masks as the eager one."""
    if probe.config["deterministic"]:
        config.fallback_random = True


def into_optimizer(probe, module):
    """Every optimizer of PyTorch and whatever is derived from it.

    https://docs.pytorch.org/docs/stable/optim.html, torch/optim/optimizer.py
    """
    module.register_optimizer_step_post_hook(probe.guarded(probe.after_step, begins=True))


def into_autograd(probe, module):
    """`loss.backward()` looks this function up when it is called."""
    record_roots(probe, module, "backward")


def into_megatron(probe, module):
    """Megatron-LM calls the engine itself, from a function of its own."""
    if hasattr(module, "custom_backward"):
        record_roots(probe, module, "custom_backward")


def record_roots(probe, module, name):
    """Keep the losses that a function starts its backward passes from."""
    if not probe.config["losses"]:
        return
    real, hook = getattr(module, name), probe.guarded(probe.before_backward, begins=True)

    @functools.wraps(real)
    def backward(tensors, *args, **keywords):
        hook(tensors)
        return real(tensors, *args, **keywords)

    setattr(module, name, backward)


def into_scaler(probe, module):
    """fp16 multiplies the loss; what is compared is the loss before that."""
    real, hook = module.GradScaler.scale, probe.guarded(probe.after_scale)

    @functools.wraps(real)
    def scale(self, outputs):
        scaled = real(self, outputs)
        hook(scaled, outputs)
        return scaled

    module.GradScaler.scale = scale


def into_loader(probe, module):
    """The time that the training loop waits for each batch."""
    iterator = module._BaseDataLoaderIter
    real, hook = iterator.__next__, probe.guarded(probe.after_batch)

    @functools.wraps(real)
    def following(self):
        begin = time.perf_counter()
        batch = real(self)
        hook(batch, time.perf_counter() - begin)
        return batch

    iterator.__next__ = following


def into_saving(probe, module):
    """Checkpoints of `torch.save`."""
    block(probe, module, "save", 1, "f")


def into_safetensors(probe, module):
    """Checkpoints of the other format, and so those of `save_pretrained`."""
    block(probe, module, "save_file", 1, "filename")


def block(probe, module, name, place, keyword):
    """Do not write a checkpoint to a path: an empty file stands where none was.

    What is written before the first step is no checkpoint but data prepared for the job, and
    is written.
    """
    if not probe.config["block_saves"]:
        return
    real = getattr(module, name)

    @functools.wraps(real)
    def saved(*args, **keywords):
        target = args[place] if len(args) > place else keywords.get(keyword)
        if not probe.ticks or not isinstance(target, (str, os.PathLike)):
            return real(*args, **keywords)
        probe.saves += 1
        with open(target, "ab"):
            return None

    setattr(module, name, saved)


def into_sharded_saving(probe, module):
    """Checkpoints that all ranks write together (torch.distributed.checkpoint)."""
    if not probe.config["block_saves"]:
        return
    import concurrent.futures

    def done():
        future = concurrent.futures.Future()
        future.set_result(None)
        return future

    for name, instead in (("save", lambda: None), ("async_save", done)):
        if hasattr(module, name):
            setattr(module, name, skipping(probe, getattr(module, name), instead))


def skipping(probe, real, instead):
    """A function that is not called any more once the job has made a step."""

    @functools.wraps(real)
    def skipped(*args, **keywords):
        if not probe.ticks:
            return real(*args, **keywords)
        probe.saves += 1
        return instead()

    return skipped


def into_deepspeed(probe, module):
    """DeepSpeed steps its optimizer once for each group of parameters: its own step counts.

    It scales the loss for fp16 and for accumulation inside `backward`; what is kept is the loss
    that it was given, divided by the micro batches (deepspeed/runtime/engine.py).
    """
    engine = module.DeepSpeedEngine
    step, backward = engine._take_model_step, engine.backward
    before = probe.guarded(probe.before_engine_step)
    after = probe.guarded(probe.after_engine_step)
    given, passed = probe.guarded(probe.loss_given, begins=True), probe.guarded(probe.loss_passed)

    @functools.wraps(step)
    def take_model_step(self, *args, **keywords):
        before(self)
        result = step(self, *args, **keywords)
        after()
        return result

    @functools.wraps(backward)
    def engine_backward(self, loss, *args, **keywords):
        given(loss, self)
        try:
            return backward(self, loss, *args, **keywords)
        finally:
            passed()

    engine._take_model_step = take_model_step
    if probe.config["losses"]:
        engine.backward = engine_backward


def into_trainer(probe, module):
    """Optimizers without steps of their own (LOMO and its like step inside `backward`) are
    counted by the Trainer of transformers."""
    handler = module.CallbackHandler
    real, hook = handler.on_step_end, probe.guarded(probe.after_trainer_step)

    @functools.wraps(real)
    def on_step_end(self, *args, **keywords):
        result = real(self, *args, **keywords)
        hook()
        return result

    handler.on_step_end = on_step_end


MODULES = {
    "torch": into_torch,
    "numpy": into_numpy,
    "torch._inductor.config": into_inductor,
    "torch.optim.optimizer": into_optimizer,
    "torch.autograd": into_autograd,
    "torch.amp.grad_scaler": into_scaler,
    "torch.utils.data.dataloader": into_loader,
    "torch.serialization": into_saving,
    "torch.distributed.checkpoint.state_dict_saver": into_sharded_saving,
    "safetensors.torch": into_safetensors,
    "transformers.trainer_callback": into_trainer,
    "deepspeed.runtime.engine": into_deepspeed,
    "megatron.core.pipeline_parallel.schedules": into_megatron,
}
