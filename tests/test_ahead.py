"""Generated kernels compile for an H200 where there is none, and their tiles fit its registers and its shared memory."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not (find_spec("torch") and find_spec("triton")):
    pytest.skip("needs torch and Triton", allow_module_level=True)

import ahead
from cases import kernel_cases
from mercer import SVC, Engine
from mercer import kernels as mk
from mercer.errors import ConvergenceWarning, NotDifferentiableError
from mercer.gram import gram
from pretend import import_interpreter, pretend_gpu

import_interpreter()

if not (Path(__import__("triton").__file__).parent / "backends/nvidia/bin/cuobjdump").exists():
    pytest.skip("this Triton comes without an assembler for GPUs", allow_module_level=True)

SHARED = 227 * 1024  # bytes of an H200 that a block of threads may have
SPILLED = (
    1024  # bytes of a thread, which has as many in registers; Triton 3.6 and 3.9 spill 24 and 592 of the same text
)
MIXED = 2 * mk.RBF(3.0) + mk.Matern(1.5, 3.0) * mk.Linear()


@pytest.fixture
def launches(monkeypatch, tmp_path):
    """The kernels that would have been launched."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    jobs: list = []
    with pretend_gpu(monkeypatch, ahead.recorded(jobs)):
        yield jobs


def compiled(jobs):
    """What each takes, compiled by a Triton that is not in its interpreter."""
    once = list(dict.fromkeys(json.dumps(job) for job in jobs))
    jobs.clear()
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, ahead.__file__],
        input="\n".join(once),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(once) > 0
    assert not [part["error"] for part in found if "error" in part]
    assert max(part["shared"] for part in found) <= SHARED
    return found


def use_all(kernel, X, Y, engine="cuda", vectors=(1, 20)):
    """Products, tiles, reductions."""
    K = gram(kernel, X, Y, engine=engine)
    assert K.engine.fusible(K.x, [K.x.lowered.expression])
    for p in vectors:
        K @ np.ones((len(Y), p), X.dtype)
    K.dense()
    for op in ("max", "argmin", "logsumexp"):
        K.reduce(op)


def rows(n, d, dtype="float32"):
    return np.random.default_rng(n).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize(
    ("kernel", "d", "engine"),
    [
        (MIXED, 28, "cuda"),
        (mk.RBF(3.0), 784, "cuda"),
        (mk.RBF(3.0), 90, Engine("cuda", precision="fast")),
        (mk.Matern(0.7, 3.0), 5, "cuda"),
    ],
    ids=str,
)
def test_tiles_fit_the_registers(kernel, d, engine, launches):
    use_all(kernel, rows(40, d), rows(30, d), engine, vectors=(1, 8, 20) if d == 784 else (1,))
    assert max(found["spilled"] for found in compiled(launches)) <= SPILLED


def test_machines_are_solved_by_a_kernel_that_fits(launches):
    X = rows(300, 4)
    with pytest.warns(ConvergenceWarning):  # what is launched here computes nothing
        SVC(engine="cuda", max_iter=1).fit(X, X[:, 0] > 0)
    (found,) = compiled([job for job in launches if job["written"]])
    assert found["spilled"] == 0


CASES = [case for case in kernel_cases() if case.vectors]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("part", range(8))
def test_every_kernel_compiles(part, dtype, launches):
    """Products, tiles and slopes of all kernels of the contract; of few of them more than some numbers are spilled."""
    for case in CASES[part::8]:
        K = case.gram("cuda", dtype, cross=part % 2 == 0)
        if not K.engine.fusible(K.x, [K.x.lowered.expression]):
            continue
        K @ np.ones(K.shape[1])
        K.dense()
        with suppress(NotDifferentiableError):
            K.pullback((np.ones((K.shape[0], 1)), np.ones((K.shape[1], 1))))
    assert np.mean([found["spilled"] > SPILLED for found in compiled(launches)]) < 0.05
