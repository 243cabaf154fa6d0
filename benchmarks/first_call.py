"""What does the first call in a fresh process cost, when the compiled code is on disk already?"""

import os
import subprocess
import sys

from benchmarks.harness import ROOT, ROUNDS, benchmark, figures

# Each program prints seconds. The modules of scikit-learn that mercer uses are imported before the clock starts.
_IMPORT = """
import importlib, sys, time
for name in sys.argv[1:]:
    importlib.import_module(name)
start = time.perf_counter()
{imported}
print(time.perf_counter() - start)
"""
_GRAM = """
import time
import numpy as np
from mercer.kernels import RBF, Linear, Matern
X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
start = time.perf_counter()
({kernel})(X)
print(time.perf_counter() - start)
"""
_TRIVIAL = """
import time
import mercer
start = time.perf_counter()
from benchmarks import trivial_compiled
trivial_compiled.call()
print(time.perf_counter() - start)
"""
_USED = "import sys; {imported}; print(*[m for m in sys.modules if m.split('.')[0] == 'sklearn'])"
# What is imported with mercer, which imports estimators when they are asked for, and with the first of them.
_IMPORTED = {
    "import mercer, after scikit-learn": "import mercer",
    "KernelRidge and the kernels, after scikit-learn": "from mercer import KernelRidge, kernels",
}


@benchmark("first calls in fresh processes with warm caches: import, first Gram matrix, a trivial Numba function")
def first_call(small):
    rounds = 1 if small else ROUNDS + 2
    programs = {
        **{
            name: (_IMPORT.format(imported=imported), _output(_USED.format(imported=imported)).split())
            for name, imported in _IMPORTED.items()
        },
        "first Gram, RBF()": (_GRAM.format(kernel="RBF()"), []),
        "first Gram, composite": (_GRAM.format(kernel="2 * RBF() + Linear()**2 + Matern(1.5)"), []),
        "trivial cached Numba function": (_TRIVIAL, []),
    }
    seconds = {name: [] for name in programs}
    for i in range(rounds + 1):
        for name, (program, arguments) in programs.items():
            taken = float(_output(program, *arguments))
            if i:  # the first process of each kind fills the caches
                seconds[name].append(taken)
    trivial = seconds["trivial cached Numba function"]
    gram = seconds["first Gram, RBF()"]
    seconds["first Gram beyond the trivial function"] = [a - b for a, b in zip(gram, trivial, strict=True)]
    yield figures(
        "seconds inside fresh processes",
        seconds,
        sizes={"n": 1000, "d": 20, "dtype": "float32"},
        aims={
            **dict.fromkeys(_IMPORTED, 0.3),
            "first Gram, RBF()": 2.0,
            "first Gram, composite": 2.0,
            "first Gram beyond the trivial function": 0.5,
        },
        notes="one process a figure and round; a first Gram includes importing Numba, as does the trivial function",
    )


def _output(program, *arguments):
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
