"""Kernels compiled for a GPU that is not there, in a process of its own: `python tests/ahead.py < jobs` writes what they take.

A job is a launch: the text of the kernel (or the module and name of one that is written by hand), the types of its arguments, and
its options. Compiled by Triton and by the assembler that comes with it; nothing runs.
"""

import importlib
import json
import linecache
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")
POINTERS = {"torch.float32": "*fp32", "torch.float64": "*fp64", "torch.int64": "*i64"}


def recorded(jobs):
    """What `pretend_gpu` launches kernels by, to collect them in a list; results are zeros."""

    def record(kernel, grid, arguments, options):
        where = kernel.fn.__code__.co_filename
        written = not where.startswith("<mercer kernel")
        names = kernel.fn.__code__.co_varnames
        fixed = {name: a for name, a in zip(names, arguments, strict=False) if name in kernel.fn.__annotations__}
        types = {name: _type(a) for name, a in zip(names, arguments, strict=False) if name not in fixed}
        jobs.append({
            "text": None if written else "".join(linecache.cache[where][2]),
            "written": [kernel.fn.__module__, kernel.fn.__name__] if written else None,
            "types": types,
            "options": {**fixed, **options},
        })  # fmt: skip
        for tensor in arguments[:3]:  # all results are among them
            if hasattr(tensor, "zero_") and not written:
                tensor.zero_()

    return record


def _type(argument):
    if hasattr(argument, "dtype"):
        return POINTERS[str(argument.dtype)]
    return "fp64" if isinstance(argument, float) else "i32"


def compiled(job, capability=90):
    """Registers, bytes of stack that a thread spills to, bytes of shared memory, and seconds."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = _function(job)
    options = {name: job["options"][name] for name in OPTIONS if name in job["options"]}
    fixed = {name: value for name, value in job["options"].items() if name not in OPTIONS}
    signature = {name: job["types"].get(name, "constexpr") for name in kernel.arg_names}
    constants = {(kernel.arg_names.index(name),): value for name, value in fixed.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(signature.values()) if t.startswith("*")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    start = time.perf_counter()
    found = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    seconds = time.perf_counter() - start
    return {
        **_resources(found.asm["cubin"], Path(triton.__file__).parent),
        "shared": found.metadata.shared,
        "seconds": seconds,
    }


def _function(job):
    if job["written"]:
        module, name = job["written"]
        return getattr(importlib.import_module(module), name)
    from mercer.engines._triton_run import _function as function

    return function(job["text"])


def _resources(cubin, triton):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(triton / "backends/nvidia/bin/cuobjdump"), "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack, local = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", said).groups()
    return {"registers": int(registers), "spilled": int(stack) + int(local)}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        try:
            print(json.dumps(compiled(job)), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}), flush=True)


if __name__ == "__main__":
    main()
