"""Machine code on disk: it survives, follows every source that it was made from, and leaves numba's settings alone."""

import ast
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import grimp
import numba
import numpy as np
import pytest

from otspec import jit
from otspec.kernels.intrinsics import prefetch, wide_vectors
from otspec.laws import FloatArray
from tests.processes import printed

PACKAGE = Path(jit.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join((name, *path.relative_to(ROOT / folder).with_suffix("").parts)).removesuffix(".__init__"): path
    for folder, name in (("otspec", "otspec"), ("solvers", "otspec.solvers"), ("proofs_check", "otspec.proofs_check"))
    for path in (ROOT / folder).glob("**/*.py")
}
"""Every module of the package by its name."""

CALLED = "from otspec.jit import jit\n\n\n@jit\ndef called(x):\n    return x + 1\n"
CALLER = (
    CALLED.replace("\n", "\nfrom otspec.called import called\n", 1)
    .replace("called(x):", "caller(x):")
    .replace("x + 1", "10 * called(x)")
)
SHOWN = "from otspec.caller import caller; print(caller(1), sum(caller.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package named otspec, with the real `jit`, and a compiled function that calls one in another file."""
    folder = tmp_path / "otspec"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for own in ("jit.py", "caches.py"):
        shutil.copy(PACKAGE / own, folder)
    (folder / "called.py").write_text(CALLED)
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(package: Path, code: str, **environment: str) -> str:
    """What Python prints beside that package, with a cache directory of its own."""
    settings = {"XDG_CACHE_HOME": str(package.parent / "cache"), "NUMBA_CACHE_DIR": "", **environment}
    return printed(code, package.parent, **settings).strip()


def test_an_edit_of_a_called_file_is_seen_and_damaged_machine_code_is_made_anew(package: Path) -> None:
    assert run(package, SHOWN) == "20 0"
    assert run(package, SHOWN) == "20 1"  # read from disk
    # one character longer: Python takes a source of the same second and size for the one that it has compiled
    (package / "called.py").write_text(CALLED.replace("x + 1", "x + 11"))
    assert run(package, SHOWN) == "120 0"
    (package / "called.py").write_text(CALLED)
    assert run(package, SHOWN) == "20 1"  # the former state is still there
    for suffix, behind in (("nbi", b""), ("nbc", b"\0" * 64)):  # cut short, and written over
        files = list((package.parent / "cache").rglob(f"*.{suffix}"))
        assert files
        for file in files:
            whole = file.read_bytes()
            middle = len(whole) // 2
            file.write_bytes(whole[:middle] + behind + (whole[middle + len(behind) :] if behind else b""))
        assert run(package, SHOWN).split()[0] == "20"
    assert run(package, SHOWN) == "20 1"  # what was damaged has been replaced


def test_a_full_disk_costs_a_sentence(package: Path) -> None:
    full = (
        "import errno; from numba.core.caching import IndexDataCacheFile as File\n"
        "def write(*_): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "File._open_for_write = write\n"
        "import sys; sys.stderr = sys.stdout\n"
    )
    said, answer = run(package, full + SHOWN).splitlines()
    assert "cannot keep its machine code" in said
    assert "No space left" in said
    assert answer == "20 0"


@pytest.mark.skipif(sys.platform != "linux", reason="the variable that names the cache directory is Linux's")
def test_the_folder_lies_in_the_users_cache_directory_and_numba_is_as_before(package: Path) -> None:
    shown = (
        f"{SHOWN}; import numba; from otspec.jit import cache_folder as at; print(repr(numba.config.CACHE_DIR), at())"
    )
    cache_dir, folder = run(package, shown).splitlines()[1].split()
    assert cache_dir == "''"
    assert Path(folder).parent == package.parent / "cache" / "otspec" / "machine-code"
    mine = package.parent / "mine"
    cache_dir, folder = run(package, shown, NUMBA_CACHE_DIR=str(mine)).splitlines()[1].split()
    assert cache_dir == repr(str(mine))
    assert Path(folder).parent == mine / "otspec"


def test_where_nothing_can_be_written_numba_chooses(package: Path) -> None:
    (package.parent / "cache").write_text("a file, where a folder would have to be")
    shown = f"{SHOWN}; from otspec.jit import cache_folder; print(cache_folder())"
    assert run(package, shown) == "20 0\nNone"
    assert list((package / "__pycache__").glob("*.nbi"))


def test_old_folders_are_deleted(package: Path) -> None:
    folders = package.parent / "cache" / "otspec" / "machine-code"
    for age in range(jit.MOST_FOLDERS + 5):
        (folders / f"old-{age}").mkdir(parents=True)
        os.utime(folders / f"old-{age}", (1e9 - age, 1e9 - age))
    run(package, SHOWN)
    left = {folder.name for folder in folders.iterdir()}
    assert len(left) == jit.MOST_FOLDERS
    assert {name for name in left if name.startswith("old-")} == {f"old-{age}" for age in range(jit.MOST_FOLDERS - 1)}


def test_compiled_code_takes_nothing_from_a_source_that_is_left_out() -> None:
    """An edit there would not be seen; such a source belongs among `CONSTANTS`."""
    hashed = {name for name, path in MODULES.items() if jit.MARK in path.read_bytes()}
    assert len(hashed) > 20
    assert hashed >= grimp.build_graph("otspec").find_modules_that_directly_import("otspec.jit")
    for constants in jit.CONSTANTS:
        assert (PACKAGE / constants).is_file()
        hashed.add("otspec." + constants.removesuffix(".py").replace("/", "."))
    wrong = []
    for name in hashed:
        tree = ast.parse(MODULES[name].read_text())
        foreign = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in MODULES and node.module not in hashed
            for alias in node.names
        }
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.decorator_list:
                decorators = {one.id for one in function.decorator_list if isinstance(one, ast.Name)}
                if decorators & {"jit", "jit_of_sums", "jit_unlocked"}:
                    used = {one.id for line in function.body for one in ast.walk(line) if isinstance(one, ast.Name)}
                    wrong += [
                        f"{name}.{function.name} uses {one} of {foreign[one]}"
                        for one in used & foreign.keys()
                        if not one.endswith("Array")
                    ]
    assert not wrong, wrong


def test_llvm_is_told_what_a_kernel_asks_for() -> None:
    def total(values: FloatArray) -> float:
        wide_vectors()
        found = 0.0
        for value in values:
            prefetch(values, 1 << 40)  # no such memory
            found += value
        return found

    compiled: Any = numba.njit(total)
    assert compiled(np.arange(4.0)) == total(np.arange(4.0)) == 6.0
    [code] = compiled.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in code
    assert "call void @llvm.prefetch" in code
