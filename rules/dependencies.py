"""Which versions of which packages a repository asks for: requirements, setup, pyproject, conda,
Pipfile, lock files and Dockerfiles, read as text. Nothing is installed or run."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pitstop.rules.sources import Sources, folder_of
from pitstop.rules.versions import Versions, possible

MAX_DEPTH = 4
"""Folders below the root in which dependency files are looked for."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A package as one file asks for it. `locked` is True for the exact version of a lock file."""

    name: str
    specifier: str
    path: str
    locked: bool = False


Reader = Callable[[Sources, str, str], Iterator[Pin]]


def read_versions(sources: Sources, paths: Iterable[str]) -> Versions:
    """Normalised distribution name to specifier for everything that `paths` declare.

    A lock file's version stands; else the files nearest to the root speak together. Where they
    contradict each other the package is named without a pin.
    """
    found: dict[str, list[Pin]] = {}
    for path in paths:
        for pin in read_pins(sources, path):
            found.setdefault(pin.name, []).append(pin)
    return {name: _combined(pins) for name, pins in sorted(found.items())}


def read_pins(sources: Sources, path: str) -> tuple[Pin, ...]:
    """The packages that a file asks for; none for a file that is no dependency file, or whose
    syntax is broken (other readers say so)."""
    reader = _reader(path)
    file = sources.file(path) if reader and path.count("/") <= MAX_DEPTH else None
    if reader is None or file is None:
        return ()
    try:
        return tuple(reader(sources, path, file.text))
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError):
        return ()
    except configparser.Error:
        return ()


def _combined(pins: list[Pin]) -> str:
    nearest = min(pin.path.count("/") for pin in pins)
    locked = {pin.specifier for pin in pins if pin.locked and pin.path.count("/") == nearest}
    if locked:
        return locked.pop() if len(locked) == 1 else ""
    near = dict.fromkeys(p.specifier for p in pins if p.path.count("/") == nearest and p.specifier)
    if nearest and len(near) > 1:
        return ""
    together = ",".join(near)
    return together if possible(together) else ""


# --- which reader for which file ---------------------------------------------------------------

_REQUIREMENTS = re.compile(r"(^|[/_.\-])(requirements?|constraints?)([^/]*)\.(txt|in|lock)$", re.I)
_IN_FOLDER = re.compile(r"(^|/)requirements?/[^/]+\.(txt|in)$", re.I)


def _reader(path: str) -> Reader | None:
    name = path.rpartition("/")[2].lower()
    if _REQUIREMENTS.search(path) or _IN_FOLDER.search(path):
        return _requirements
    if name.startswith(("dockerfile", "containerfile")) or name.endswith(".dockerfile"):
        return _dockerfile
    if re.fullmatch(r"(conda[\-_])?env(ironment)?[^/]*\.ya?ml", name):
        return _conda
    return _BY_NAME.get(name)


# --- requirement lines -------------------------------------------------------------------------


_URL = re.compile(
    r"(?:-e\s+)?(?:git\+|https?://)\S*?/([\w.\-]+?)(?:\.git)?(?:@[^#]*)?(?:#egg=([\w.\-]+).*)?$"
)


def _pin(text: str, path: str) -> Iterator[Pin]:
    """One requirement as pip reads it; what pip would refuse is nothing."""
    text = re.split(r"\s#|\s--", text.strip(), maxsplit=1)[0].strip().rstrip("\\").strip()
    url = _URL.match(text)
    if url:
        yield Pin(canonicalize_name(url[2] or url[1]), "", path)
        return
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return
    if requirement.marker is not None and not _here(requirement):
        return
    yield Pin(canonicalize_name(requirement.name), str(requirement.specifier), path)


def _here(requirement: Requirement) -> bool:
    """True unless a marker speaks of another system or Python than people train with."""
    assert requirement.marker is not None  # noqa: S101 - the caller has looked
    here = {
        "python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux",
        "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix",
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": "",
    }  # fmt: skip
    return "extra" in str(requirement.marker) or requirement.marker.evaluate(here)


def _requirements(
    sources: Sources, path: str, text: str, seen: frozenset[str] = frozenset()
) -> Iterator[Pin]:
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        include = re.match(r"(?:-r|--requirement|-c|--constraint)[ =]?\s*(\S+)", line)
        if include:
            inner = sources.resolve(include[1], folder_of(path))
            file = sources.file(inner) if inner and inner not in seen else None
            if inner and file is not None and len(seen) < 10:
                yield from _requirements(sources, inner, file.text, seen | {path})
        elif line and not line.startswith(("#", "--")):
            yield from _pin(line, path)


# --- Python projects ---------------------------------------------------------------------------


def _setup_py(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    """The literal requirement strings of a setup.py; those built by code are not there."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.List | ast.Tuple):
            for item in node.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield from _literal(item.value, path)
        elif isinstance(node, ast.keyword) and node.arg == "install_requires":
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                for line in value.value.splitlines():
                    yield from _pin(line, path)


_LITERAL = re.compile(r"^[A-Za-z][\w.\-]*(\[[\w,\-]+\])?\s*(==|>=|<=|~=|!=|<|>)")


def _literal(text: str, path: str) -> Iterator[Pin]:
    """A string of a list in setup.py that can only be a requirement, or names a package whose
    presence matters."""
    if _LITERAL.match(text) or text in _NOTED:
        yield from _pin(text, path)


_NOTED = frozenset(
    {"torch", "transformers", "trl", "accelerate", "deepspeed", "peft", "llamafactory", "vllm",
     "sglang", "ms-swift", "datasets", "bitsandbytes", "liger-kernel", "flash-attn"}
)  # fmt: skip


def _setup_cfg(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    blocks = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        blocks += [value for _, value in parser.items("options.extras_require")]
    for block in blocks:
        for line in block.splitlines():
            yield from _pin(line, path)


def _pyproject(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    data = tomllib.loads(text)
    project, tool = _table(data, "project"), _table(data, "tool")
    groups = [project.get("dependencies", []), *_table(project, "optional-dependencies").values()]
    groups += [*_table(data, "dependency-groups").values()]
    groups.append(_table(tool, "uv").get("dev-dependencies", []))
    for group in groups:
        for item in group:
            if isinstance(item, str):
                yield from _pin(item, path)
    poetry = _table(tool, "poetry")
    tables = [_table(poetry, "dependencies"), _table(poetry, "dev-dependencies")]
    tables += [_table(group, "dependencies") for group in _table(poetry, "group").values()]
    for table in tables:
        yield from _versioned(table, path)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, Mapping) else {}


def _versioned(table: Mapping[str, Any], path: str) -> Iterator[Pin]:
    """Poetry's and Pipenv's tables: a version or a table with one."""
    for name, value in table.items():
        version = value.get("version", "") if isinstance(value, Mapping) else value
        if name.lower() != "python" and isinstance(version, str):
            yield Pin(canonicalize_name(name), pep440(version), path)


def pep440(text: str) -> str:
    """A constraint of Poetry or conda as a PEP 440 specifier: `^4.3` is >=4.3,<5; "" when it
    allows anything or cannot be read."""
    clauses: list[str] = []
    for part in re.split(r"[,\s]+", text.strip().replace("||", "|")):
        if "|" in part or part in ("", "*"):
            return "" if "|" in part else ",".join(clauses)
        clauses.append(_clause(part))
    joined = ",".join(clauses)
    try:
        SpecifierSet(joined)
    except InvalidSpecifier:
        return ""
    return joined


def _clause(part: str) -> str:
    version = part.lstrip("^~=<>!")
    if part.startswith("^"):
        release = _release(version)
        upper = next((i for i, n in enumerate(release) if n), len(release) - 1)
        return f">={version},<{'.'.join(map(str, (*release[:upper], release[upper] + 1)))}"
    if part.startswith("~") and not part.startswith("~="):
        release = _release(version)
        kept = release[: max(1, min(2, len(release)))]
        return f">={version},<{'.'.join(map(str, (*kept[:-1], kept[-1] + 1)))}"
    if part.startswith("=") and not part.startswith("=="):
        return f"=={version}" + ("" if version.endswith("*") or version.count(".") > 1 else ".*")
    return f"=={part}" if part[0].isdigit() else part


def _release(version: str) -> tuple[int, ...]:
    try:
        return Version(version).release
    except InvalidVersion as error:
        raise ValueError(version) from error


def _pipfile(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    data = tomllib.loads(text)
    yield from _versioned(_table(data, "packages"), path)
    yield from _versioned(_table(data, "dev-packages"), path)


# --- lock files --------------------------------------------------------------------------------


def _toml_lock(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    """uv.lock, poetry.lock and pylock.toml: a list of packages with versions."""
    data = tomllib.loads(text)
    for package in [*data.get("package", []), *data.get("packages", [])]:
        if isinstance(package.get("version"), str):
            yield Pin(canonicalize_name(package["name"]), f"=={package['version']}", path, True)


def _pipfile_lock(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    data = json.loads(text)
    for section in ("default", "develop"):
        for name, package in data.get(section, {}).items():
            if package.get("version"):
                yield Pin(canonicalize_name(name), package["version"], path, True)


# --- conda and images --------------------------------------------------------------------------


def _conda(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    config = sources.config(path)
    if config is None:
        return
    for entry in config.find("dependencies"):
        in_pip = "pip" in entry.path
        for item in entry.value if isinstance(entry.value, tuple) else (entry.value,):
            if isinstance(item, str):
                yield from _pin(item, path) if in_pip else _conda_pin(item, path)


def _conda_pin(text: str, path: str) -> Iterator[Pin]:
    """`pytorch=2.4.0=py3.11_cuda` or `pytorch-cuda=12.1` or `transformers>=4.40`."""
    match = re.match(r"(?:[\w\-]+::)?([A-Za-z][\w.\-]*)\s*([=<>!~].*)?$", text.strip())
    if not match:
        return
    name = {"pytorch": "torch"}.get(match[1].lower(), match[1])
    version = (match[2] or "").replace(" ", "")
    if version.startswith("=") and not version.startswith("=="):
        version = "=" + version[1:].partition("=")[0]
    yield Pin(canonicalize_name(name), pep440(version) if version else "", path)


_IMAGES: Mapping[str, str] = {
    "pytorch/pytorch": "torch",
    "huggingface/transformers-pytorch-gpu": "transformers",
    "vllm/vllm-openai": "vllm",
    "lmsysorg/sglang": "sglang",
}
"""Images whose tag begins with the version of a package (their names on Docker Hub)."""


def _dockerfile(sources: Sources, path: str, text: str) -> Iterator[Pin]:
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() == "FROM":
            yield from _image(rest, path)
        elif word.upper() == "RUN":
            for command in re.split(r"&&|;|\|\|", rest):
                yield from _pip_install(command, path)


def _image(text: str, path: str) -> Iterator[Pin]:
    name, _, tag = text.split()[0].partition(":") if text.split() else ("", "", "")
    version = re.match(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?post\d+)?)", tag)
    if name in _IMAGES:
        yield Pin(_IMAGES[name], f"=={version[1]}" if version else "", path)


def _pip_install(command: str, path: str) -> Iterator[Pin]:
    """The packages of `pip install`, `python -m pip install` and `uv pip install`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return
    if "install" not in words or not any(
        w.rpartition("/")[2].startswith(("pip", "uv")) for w in words
    ):
        return
    skip = False
    for word in words[words.index("install") + 1 :]:
        if skip or word.startswith("-"):
            skip = word in ("-r", "-c", "-i", "--index-url", "--extra-index-url", "-f", "-t")
            continue
        if not word.startswith((".", "/", "$")):
            yield from _pin(word, path)


_BY_NAME: Mapping[str, Reader] = {
    "setup.py": _setup_py,
    "setup.cfg": _setup_cfg,
    "pyproject.toml": _pyproject,
    "pipfile": _pipfile,
    "pipfile.lock": _pipfile_lock,
    "uv.lock": _toml_lock,
    "poetry.lock": _toml_lock,
    "pylock.toml": _toml_lock,
}
