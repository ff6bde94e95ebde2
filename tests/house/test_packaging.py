"""The package as people get it: a wheel, a source archive, an editable and a plain install."""

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PYPROJECT["project"]["version"]
ROOTS = ("bot", "rules", "transforms", "runners")
FOLDERS = {**{name: name for name in ROOTS}, "examples/workflows": "workflows"}
"""Where packages lie in the repository, and their names below `pitstop`."""


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(words), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("wheel"), "--wheel")


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(source, tmp_path_factory.mktemp("sdist"), "--sdist")


def build(source: Path, out: Path, kind: str) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", kind, "-o", out, source, cwd=source)
    (built,) = out.iterdir()
    return built


def install(folder: Path, *what: str | Path) -> Path:
    """A new virtual environment with Pitstop installed; its dependencies are ours."""
    venv.create(folder, with_pip=False)
    library = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A plain path in a .pth file does not run that folder's own .pth files, so that the Pitstop
    # which runs this test stays out of sight.
    (library / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--ignore-installed")
    run(*pip, "install", "--quiet", *options, *what, cwd=folder)
    return folder / "bin"


HOW: dict[str, Callable[[Path, Path, Path], tuple[str | Path, ...]]] = {
    "wheel": lambda wheel, sdist, source: (wheel,),
    "sdist": lambda wheel, sdist, source: (sdist,),
    "editable": lambda wheel, sdist, source: ("--editable", source),
    "plain": lambda wheel, sdist, source: (source,),
}

IMPORT_ALL = """
import importlib.resources, pathlib, pkgutil
import pitstop.bot, pitstop.rules, pitstop.runners, pitstop.transforms
for package in (pitstop.bot, pitstop.rules, pitstop.runners, pitstop.transforms):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # the probe's files are copied into jobs, and imported there by their bare names
        if not module.name.endswith("__main__") and ".runners.probe." not in module.name:
            importlib.import_module(module.name)
from pitstop.runners.probing import FILES
assert all(importlib.resources.files("pitstop.runners.probe").joinpath(n).is_file() for n in FILES)
print(pathlib.Path(pitstop.bot.__file__).parent)
"""


@pytest.mark.parametrize("how", HOW)
def test_installed_package_works(
    how: str, wheel: Path, sdist: Path, source: Path, tmp_path: Path
) -> None:
    binaries = install(tmp_path / "venv", *HOW[how](wheel, sdist, source))
    elsewhere = tmp_path / "project"
    for name in ROOTS:  # a training repository often has folders of the same names
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text("raise ImportError('not this one')\n")
    assert run(binaries / "pitstop", "--version", cwd=elsewhere) == f"pitstop {VERSION}\n"
    assert "GEN-D01" in run(binaries / "pitstop", "rules", cwd=elsewhere)
    module = (binaries / "python", "-m", "pitstop.bot", "--version")
    assert run(*module, cwd=elsewhere) == f"pitstop {VERSION}\n"
    where = Path(run(binaries / "python", "-c", IMPORT_ALL, cwd=elsewhere).strip())
    assert where.is_relative_to(source if how == "editable" else tmp_path)


def test_wheel_holds_exactly_the_files_of_the_packages(wheel: Path, source: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {
        f"pitstop/{package}/{path.relative_to(source / folder)}"
        for folder, package in FOLDERS.items()
        for path in (source / folder).rglob("*")
        if path.is_file()
    }


def test_source_archive_gives_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    again = build(folder, tmp_path / "wheel", "--wheel")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_licence_travels_with_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"pitstop-{VERSION}.dist-info"
        assert b"GNU GENERAL PUBLIC LICENSE" in archive.read(f"{info}/licenses/LICENSE")
        assert b"License-Expression: GPL-3.0-or-later" in archive.read(f"{info}/METADATA")


def test_package_list_equals_the_folders_that_hold_files(source: Path) -> None:
    folders = {
        ".".join(("pitstop", package, *path.parent.relative_to(source / folder).parts))
        for folder, package in FOLDERS.items()
        for path in (source / folder).rglob("*")
        if path.is_file()
    }
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == folders


def test_every_package_is_a_package() -> None:
    where = {package: folder for folder, package in FOLDERS.items()}
    for name in PYPROJECT["tool"]["setuptools"]["packages"]:
        package, *inner = name.split(".")[1:]
        folder = ROOT.joinpath(where[package], *inner)
        assert (folder / "__init__.py").is_file(), folder
