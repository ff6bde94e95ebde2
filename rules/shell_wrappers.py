"""Commands that start another command: which of their words belong to them.

The tables list only options that take their value as a separate word; every other word that
begins with a dash is taken for a switch. Sources: the manual pages of the programs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pitstop.rules.job import Word

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`valued` options take the next word; `operands` words come before the command;
    `marker` says that the command follows that word; `text` that it is given as shell text;
    `verbs` that only these subcommands start anything; `assigns` that `A=1` may come first."""

    valued: frozenset[str] = frozenset()
    operands: int = 0
    marker: str | None = None
    text: bool = False
    verbs: frozenset[str] = frozenset()
    assigns: bool = False


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SRUN = _options(
    "-A --account -b --begin -c --cpus-per-task -C --constraint -d --dependency -D --chdir"
    " -e --error -G --gpus --gpus-per-node --gpus-per-task --gres -i --input -J --job-name"
    " --jobid -L --licenses -m --distribution --mem --mem-per-cpu --mem-per-gpu --mpi -n --ntasks"
    " --ntasks-per-node --ntasks-per-gpu -N --nodes -o --output -p --partition -q --qos"
    " -r --relative -t --time -T --threads -w --nodelist -x --exclude --export --cpu-bind"
    " --gpu-bind --container-image --container-mounts --container-workdir --container-name"
    " --het-group --network --reservation --signal --comment --task-prolog --task-epilog"
)
_MPI = _options(
    "-n -np --np -c -N -npernode --npernode -ppn -ppr -H -host --host -hosts --hosts -f"
    " -hostfile --hostfile -machinefile --machinefile -rf --rankfile --map-by --bind-to"
    " -bind-to -map-by --rank-by -x -wdir --wdir -wd -path --path -prefix --prefix"
    " -env -genv -launcher --launcher -iface -p"
)
_DOCKER = _options(
    "-v --volume -e --env --env-file -w --workdir -u --user --gpus --name --shm-size --network"
    " --net --ipc --ulimit -p --publish --entrypoint -h --hostname -m --memory --cpus --mount"
    " --runtime --device --label -l --cap-add --security-opt --pid --add-host --platform --pull"
    " --log-opt --log-driver --restart --tmpfs --cpuset-cpus --memory-swap"
)
_SINGULARITY = _options(
    "-B --bind -H --home --pwd -W --workdir --env --env-file --overlay -o --network --scratch -S"
)

WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(_options("-u --unset -C --chdir"), assigns=True),
    "nohup": Wrapper(),
    "exec": Wrapper(_options("-a")),
    "time": Wrapper(_options("-f --format -o --output")),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "setsid": Wrapper(),
    "unbuffer": Wrapper(),
    "stdbuf": Wrapper(_options("-i -o -e --input --output --error")),
    "nice": Wrapper(_options("-n --adjustment")),
    "ionice": Wrapper(_options("-c -n")),
    "timeout": Wrapper(_options("-k --kill-after -s --signal"), operands=1),
    "numactl": Wrapper(_options("-m -N -C -i -p --membind --cpunodebind --physcpubind")),
    "taskset": Wrapper(_options("-c --cpu-list")),
    "sudo": Wrapper(_options("-u --user -g --group -h -p -C"), assigns=True),
    "xvfb-run": Wrapper(_options("-n -s --server-args")),
    "ipexrun": Wrapper(),
    "nsys": Wrapper(
        _options(
            "-o --output -t --trace -s --sample --capture-range --capture-range-end -y --delay"
            " -d --duration --stats --cudabacktrace --gpu-metrics-device --cuda-graph-trace"
            " -f --force-overwrite -x --stop-on-exit -w --show-output -c -e -n -p -b"
        ),
        verbs=frozenset({"profile", "launch"}),
    ),
    "ncu": Wrapper(_options("-o --export -k --kernel-name -c --launch-count -s --set --section")),
    "nvprof": Wrapper(_options("-o --export-profile --profile-from-start --log-file")),
    "conda": Wrapper(_options("-n --name -p --prefix --cwd"), verbs=frozenset({"run"})),
    "uv": Wrapper(
        _options("--with --python -p --extra --group --env-file --project --directory"),
        verbs=frozenset({"run"}),
    ),
    "poetry": Wrapper(_options("-C --directory"), verbs=frozenset({"run"})),
    "pipenv": Wrapper(verbs=frozenset({"run"})),
    "pdm": Wrapper(_options("-p"), verbs=frozenset({"run"})),
    "rye": Wrapper(verbs=frozenset({"run"})),
    "hatch": Wrapper(verbs=frozenset({"run"})),
    "pixi": Wrapper(_options("-e --environment --manifest-path"), verbs=frozenset({"run"})),
    "srun": Wrapper(_SRUN),
    "mpirun": Wrapper(_MPI),
    "pdsh": Wrapper(_options("-w -x -g -R -f -l -t -u"), text=True),
    "ssh": Wrapper(_options("-p -i -l -o -F -J -L -R -D -b -c -E -m"), operands=1, text=True),
    "docker": Wrapper(_DOCKER, operands=1, verbs=frozenset({"run", "exec"})),
    "singularity": Wrapper(_SINGULARITY, operands=1, verbs=frozenset({"exec", "run"})),
    "ray": Wrapper(verbs=frozenset({"job submit"}), marker="--"),
    "sbatch": Wrapper(_SRUN),
    "tmux": Wrapper(_options("-s -n -c -t"), verbs=frozenset({"new-session", "new"}), text=True),
    "screen": Wrapper(_options("-S -dmS -t -c -Logfile")),
}
ALIASES = {
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "orterun": "mpirun",
    "apptainer": "singularity",
    "podman": "docker",
    "nvidia-docker": "docker",
    "mamba": "conda",
    "micromamba": "conda",
    "gtime": "time",
}
"""Other names of the same command line."""

_MPI_PAIRS = frozenset({"-mca", "--mca", "-gmca", "--gmca", "-env", "-genv"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def command_name(word: Word) -> str:
    """The program a word names, without its folder, other spellings made one."""
    name = posixpath.basename(word.text)
    return ALIASES.get(name, name)


def inner_command(words: Sequence[Word]) -> int | None:
    """Where the command begins that these words start; None when they start none by themselves.

    An unknown word among the options (`srun $ARGS python ...`) is taken for options.
    """
    wrapper = WRAPPERS.get(command_name(words[0])) if words else None
    if wrapper is None:
        return None
    at = 1
    if wrapper.verbs:
        at = _after_verb(words, wrapper)
        if at == 0:
            return None
    if wrapper.marker is not None:
        return _after_marker(words, at, wrapper.marker)
    at = _after_options(words, at, wrapper)
    return at if at < len(words) else None


def _after_verb(words: Sequence[Word], wrapper: Wrapper) -> int:
    texts = [w.text for w in words]
    for size in (1, 2):
        if " ".join(texts[1 : 1 + size]) in wrapper.verbs:
            return 1 + size
    return 0


def _after_marker(words: Sequence[Word], at: int, marker: str) -> int | None:
    for index in range(at, len(words) - 1):
        if words[index].text == marker:
            return index + 1
    return None


def _after_options(words: Sequence[Word], at: int, wrapper: Wrapper) -> int:
    operands = wrapper.operands
    while at < len(words):
        word = words[at]
        text = word.text
        if text == "--":
            return at + 1
        if text in _MPI_PAIRS and "-np" in wrapper.valued:
            named = "=" in words[at + 1].text if at + 1 < len(words) else False
            at += 2 if named else 3
        elif text in wrapper.valued:
            at += 2
        elif _is_switch(wrapper, word, operands, last=at + 1 == len(words)):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return at


def _is_switch(wrapper: Wrapper, word: Word, operands: int, *, last: bool) -> bool:
    """True for `-x`, for `A=1` where that may stand, and for `$ARGS` that stays unresolved with
    a command behind it (unless an operand such as ssh's host is still to come)."""
    if (word.text.startswith("-") and len(word.text) > 1) or (
        wrapper.assigns and _ASSIGNMENT.match(word.text)
    ):
        return True
    if operands and not wrapper.verbs:
        return False
    return not word.known and word.text.startswith("$") and not last
