"""Counts and times the optimizer steps of a training job, without a change to its code.

Python runs this file at its start when its folder is on PYTHONPATH, in the job and in every
process that the job starts. It does nothing but wait for PyTorch to be imported; then it hangs
hooks into it. `probe.json` beside this file says what is wanted (see `pitstop.runners.probing`).
At the last wanted step the measurements are written, and the process ends with success.

Whatever goes wrong in here is written to a file and otherwise ignored: a job must never fail,
and never train otherwise, because it is watched.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def chain():
    """Run the sitecustomize that this one hides, as Python would have done."""
    paths = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class Probe:
    """What one process has seen. All times are seconds of `time.perf_counter`."""

    def __init__(self, config):
        self.config = config
        self.out = os.path.normpath(os.path.join(HERE, config["out"]))
        self.pid = os.getpid()
        self.primary = None
        self.adapter = None
        self.ticks = []
        self.events = []
        self.losses = []
        self.loss_now = []
        self.unscaled = {}
        self.grad_norms = []
        self.data_wait = []
        self.samples = []
        self.tokens = []
        self.useful = []
        self.now = [0.0, None, None, None]
        self.hooks = 0.0
        self.parameters = None
        self.optimizer = ""
        self.start_peaks = None
        self.saves = 0
        self.profiler = None
        self.trace = None
        self.written = False
        self.problems = []

    # --- hooks ----------------------------------------------------------------------------------

    def guarded(self, function):
        """A hook that never raises, adds its time to `hooks`, and is silent in other processes."""

        def hook(*args, **keywords):
            if os.getpid() != self.pid or self.written:
                return None
            begin = time.perf_counter()
            try:
                return function(*args, **keywords)
            except Exception as error:
                self.problem(function.__name__, error)
                return None
            finally:
                self.hooks += time.perf_counter() - begin

        return hook

    def problem(self, where, error):
        """Remember what went wrong, a few times."""
        if len(self.problems) < 20:
            self.problems.append(f"{where}: {type(error).__name__}: {error}"[:300])

    def after_step(self, optimizer, *_):
        """An optimizer has made a step. Only the first that is seen counts."""
        if self.adapter is not None:
            return
        if self.primary is None:
            self.primary = id(optimizer)
            self.look_at(optimizer)
        if id(optimizer) == self.primary:
            self.tick(optimizer)

    def look_at(self, optimizer):
        """Count what is trained."""
        self.optimizer = type(optimizer).__name__
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.parameters = sum(p.numel() for p in parameters if p.requires_grad)

    def tick(self, optimizer=None):
        """The end of a step."""
        torch = sys.modules["torch"]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)
        self.ticks.append(time.perf_counter())
        self.losses.append(self.loss_now)
        self.loss_now = []
        self.unscaled.clear()
        if self.config["deterministic"] and optimizer is not None:
            self.grad_norms.append(self.norm(torch, optimizer))
        self.data_wait.append(self.now[0])
        self.samples.append(self.now[1])
        self.tokens.append(self.now[2])
        self.useful.append(self.now[3])
        self.now = [0.0, None, None, None]
        count = len(self.ticks)
        if count == max(1, self.config["warm_up"]):
            self.start_peaks = self.peaks(torch)
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                torch.cuda.reset_peak_memory_stats()
            if self.config["profile"]:
                self.start_profiler(torch)
        elif self.profiler is not None:
            self.profiler.step()
        if self.config["stop"] and count >= self.config["steps"]:
            self.stop()

    def norm(self, torch, optimizer):
        """The norm of all gradients as a tensor, or None when they are gone already."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        grads = [g.detach() for g in grads if g is not None and not g.is_sparse]
        if not grads:
            return None
        return torch.stack([g.float().norm() for g in grads]).norm()

    def before_backward(self, tensors):
        """Keep the loss that a backward pass starts from, on its device."""
        roots = (tensors,) if not isinstance(tensors, (list, tuple)) else tensors
        if len(roots) == 1 and hasattr(roots[0], "numel") and roots[0].numel() == 1:
            root = self.unscaled.get(id(roots[0]), roots[0])
            self.loss_now.append(root.detach().clone())

    def after_scale(self, scaled, outputs):
        """A loss was multiplied for fp16: remember what it was."""
        if hasattr(outputs, "numel") and outputs.numel() == 1:
            self.unscaled[id(scaled)] = outputs

    def after_batch(self, batch, waited):
        """A loader gave a batch."""
        self.now[0] += waited
        counts = batch_counts(batch)
        for index, value in enumerate(counts, 1):
            if value is not None:
                self.now[index] = (self.now[index] or 0) + value

    # --- profile --------------------------------------------------------------------------------

    def start_profiler(self, torch):
        """Profile three steps after two more to warm up."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self.profiler = torch.profiler.profile(
            activities=kinds,
            schedule=torch.profiler.schedule(wait=0, warmup=2, active=3, repeat=1),
            record_shapes=True,
            with_stack=self.config["stacks"],
            on_trace_ready=self.keep_trace,
        )
        self.profiler.start()

    def keep_trace(self, profiler):
        """Write the trace of the profiled steps."""
        name = f"trace_{self.rank()}_{self.pid}.json.gz"
        profiler.export_chrome_trace(os.path.join(self.out, name))
        self.trace = name

    # --- the end --------------------------------------------------------------------------------

    def rank(self):
        """This process's rank; looked up late, since some set it after they start."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK"):
            if os.environ.get(name, "").isdigit():
                return int(os.environ[name])
        return 0

    def world(self):
        """How many ranks there are."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_world_size()
        value = os.environ.get("WORLD_SIZE", "")
        return int(value) if value.isdigit() else 1

    def peaks(self, torch):
        """Peak bytes that tensors took and that the allocator held; None without CUDA."""
        if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
            return None
        return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]

    def stop(self):
        """All wanted steps are done: write, wait for the other ranks, leave with success."""
        self.write(stopped=True)
        self.wait_for_others()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(0)

    def wait_for_others(self):
        """Ranks of this machine reach the same step; whoever leaves first would end the rest."""
        local = os.environ.get("LOCAL_WORLD_SIZE", "")
        wanted = int(local) if local.isdigit() else 1
        until = time.monotonic() + 30
        while time.monotonic() < until:
            names = os.listdir(self.out)
            if sum(n.startswith("rank_") and n.endswith(".json") for n in names) >= wanted:
                return
            time.sleep(0.02)

    def at_exit(self):
        """The job ended by itself, before or without the last wanted step."""
        if os.getpid() == self.pid and self.ticks and not self.written:
            try:
                self.write(stopped=False)
            except Exception as error:
                self.problem("at_exit", error)
                note({"problems": self.problems}, self.out, f"problem_{self.pid}.json")

    def write(self, stopped):
        """Write everything to one file of this rank."""
        torch = sys.modules["torch"]
        hooks = self.hooks
        if self.profiler is not None:
            try:
                self.profiler.stop()
            except Exception as error:
                self.problem("profiler", error)
            self.profiler = None
        cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        if cuda:
            torch.cuda.synchronize()
        record = {
            "rank": self.rank(),
            "world": self.world(),
            "pid": self.pid,
            "host_ticks": self.ticks,
            "device_steps": self.device_steps(),
            "losses": [[number(loss) for loss in step] for step in self.losses],
            "grad_norms": [number(norm) for norm in self.grad_norms],
            "data_wait": self.data_wait,
            "samples": self.samples,
            "tokens": self.tokens,
            "useful_tokens": self.useful,
            "trainable_parameters": self.parameters,
            "optimizer": self.optimizer,
            "hook_seconds": hooks,
            "saves_blocked": self.saves,
            "stopped": stopped,
            "trace": self.trace,
            "start_peaks": self.start_peaks,
            "peaks": self.peaks(torch),
            "allocator": allocator(torch) if cuda else None,
            "peak_rss": peak_rss(),
            "environment": environment(torch),
            "problems": self.problems,
        }
        self.written = True
        note(record, self.out, f"rank_{record['rank']}_{self.pid}.json")

    def device_steps(self):
        """Seconds between ticks by the device's own clock, where every tick has an event."""
        if len(self.events) != len(self.ticks) or len(self.events) < 2:
            return None
        pairs = zip(self.events, self.events[1:])
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]

    def on_error(self, kind, error, trace):
        """An exception that nobody caught: write it down, then let Python go on."""
        import traceback

        lines = traceback.format_exception(kind, error, trace, limit=-40)
        record = {
            "rank": self.rank(),
            "pid": self.pid,
            "at": time.time(),
            "type": kind.__name__,
            "message": str(error)[:2000],
            "text": "".join(lines)[-20000:],
            "ticks": len(self.ticks),
        }
        note(record, self.out, f"error_{record['rank']}_{self.pid}.json")


def note(record, folder, name):
    """Write a JSON file, whole or not at all."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)


def number(value):
    """A tensor's value as a float."""
    return None if value is None else float(value)


def batch_counts(batch):
    """Samples, tokens and tokens that are not padding of a batch, each None when not known."""
    mapping = batch if hasattr(batch, "keys") else {}
    ids = mapping.get("input_ids") if hasattr(mapping, "get") else None
    mask = mapping.get("attention_mask") if hasattr(mapping, "get") else None
    tokens = ids.numel() if hasattr(ids, "numel") else None
    useful = None
    if hasattr(mask, "is_cuda") and not mask.is_cuda:
        useful = int(mask.sum())
    first = ids if hasattr(ids, "shape") else first_tensor(batch, 3)
    samples = first.shape[0] if first is not None and len(first.shape) else None
    return samples, tokens, useful


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


def peak_rss():
    """Most bytes of memory that this process held."""
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except Exception:
        return None


def allocator(torch):
    """How often the allocator had to give memory back and try again."""
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
    if torch.cuda.is_available():
        found["gpus"] = [
            torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
        ]
        found["cudnn"] = torch.backends.cudnn.version()
    for name in ("transformers", "accelerate", "deepspeed", "lightning", "trl", "peft"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = str(getattr(module, "__version__", "?"))
    return found


# --- what is hung into which module ---------------------------------------------------------------


def into_torch(probe, torch):
    """Seeds, so that both of two runs begin alike where the job itself does not seed."""
    if probe.config["seed"] is not None:
        torch.manual_seed(probe.config["seed"])
    if probe.config["deterministic"]:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True


def into_numpy(probe, numpy):
    """NumPy's global generator is seeded, too."""
    if probe.config["seed"] is not None:
        numpy.random.seed(probe.config["seed"])


def into_inductor(probe, config):
    """A compiled model draws the same dropout masks as the eager one."""
    if probe.config["deterministic"]:
        config.fallback_random = True


def into_optimizer(probe, module):
    """Every optimizer of PyTorch and whatever is derived from it."""
    module.register_optimizer_step_post_hook(probe.guarded(probe.after_step))


def into_autograd(probe, module):
    """`loss.backward()` looks this function up when it is called."""
    if not probe.config["losses"]:
        return
    real, hook = module.backward, probe.guarded(probe.before_backward)

    def backward(tensors, *args, **keywords):
        hook(tensors)
        return real(tensors, *args, **keywords)

    module.backward = backward


def into_scaler(probe, module):
    """fp16 multiplies the loss; what is compared is the loss before that."""
    real, hook = module.GradScaler.scale, probe.guarded(probe.after_scale)

    def scale(self, outputs):
        scaled = real(self, outputs)
        hook(scaled, outputs)
        return scaled

    module.GradScaler.scale = scale


def into_loader(probe, module):
    """The time that the training loop waits for each batch."""
    iterator = module._BaseDataLoaderIter
    real, hook = iterator.__next__, probe.guarded(probe.after_batch)

    def following(self):
        begin = time.perf_counter()
        batch = real(self)
        hook(batch, time.perf_counter() - begin)
        return batch

    iterator.__next__ = following


def into_saving(probe, module, name="save", place=1):
    """Checkpoints are not written: an empty file stands where one would be."""
    if not probe.config["block_saves"]:
        return
    real = getattr(module, name)

    def saved(*args, **keywords):
        target = args[place] if len(args) > place else keywords.get("f", keywords.get("filename"))
        if os.getpid() != probe.pid or not isinstance(target, (str, os.PathLike)):
            return real(*args, **keywords)
        probe.saves += 1
        with open(target, "wb"):
            return None

    setattr(module, name, saved)


def into_safetensors(probe, module):
    """The same for the other format."""
    into_saving(probe, module, "save_file")


def into_deepspeed(probe, module):
    """DeepSpeed steps its optimizer once for each group of parameters: its own step counts."""
    engine = module.DeepSpeedEngine
    real = engine._take_model_step
    hook = probe.guarded(lambda: probe.tick())

    def step(self, *args, **keywords):
        result = real(self, *args, **keywords)
        if probe.adapter is None:
            probe.adapter = "deepspeed"
            probe.guarded(probe.look_at)(self.optimizer)
        hook()
        return result

    engine._take_model_step = step


MODULES = {
    "torch": into_torch,
    "numpy": into_numpy,
    "torch._inductor.config": into_inductor,
    "torch.optim.optimizer": into_optimizer,
    "torch.autograd": into_autograd,
    "torch.amp.grad_scaler": into_scaler,
    "torch.utils.data.dataloader": into_loader,
    "torch.serialization": into_saving,
    "safetensors.torch": into_safetensors,
    "deepspeed.runtime.engine": into_deepspeed,
}


class Finder:
    """Lets modules load as ever, and hangs the hooks in when they have."""

    def __init__(self, probe):
        self.probe = probe
        self.waiting = dict(MODULES)

    def find_spec(self, name, path=None, target=None):
        """Find a module of the table by the other finders, and wrap its loader."""
        install = self.waiting.pop(name, None)
        if install is None:
            return None
        spec = None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        real = spec.loader.exec_module

        def exec_module(module):
            real(module)
            try:
                install(self.probe, module)
            except Exception as error:
                self.probe.problem(name, error)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            self.waiting[name] = install
        return spec


def watch():
    """Read what is wanted, and wait for PyTorch."""
    import atexit

    with open(os.path.join(HERE, "probe.json"), encoding="utf-8") as file:
        probe = Probe(json.load(file))
    if not os.path.isdir(probe.out):
        return
    if probe.config["seed"] is not None:
        import random

        random.seed(probe.config["seed"])
    sys.meta_path.insert(0, Finder(probe))
    atexit.register(probe.at_exit)
    hook = sys.excepthook

    def excepthook(kind, error, trace):
        try:
            probe.on_error(kind, error, trace)
        except Exception as problem:
            probe.problem("excepthook", problem)
        hook(kind, error, trace)

    sys.excepthook = excepthook
    try:
        import faulthandler
        import signal

        faulthandler.register(signal.SIGUSR1)
    except Exception as error:
        probe.problem("faulthandler", error)


def begin():
    """Watch, where this file lies in a job; elsewhere it is only read."""
    if not os.path.exists(os.path.join(HERE, "probe.json")):
        return
    try:
        watch()
    except Exception as error:
        with open(os.path.join(HERE, "failed_{}.txt".format(os.getpid())), "w") as log:
            log.write("{}: {}\n".format(type(error).__name__, error))
    chain()


if __name__ == "sitecustomize":
    begin()
