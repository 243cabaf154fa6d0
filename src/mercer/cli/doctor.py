"""`mercer doctor`: versions, threads, linear algebra and devices, and whether the essential parts work."""

from mercer.cli.console import Console, Outcome, aligned

EXAMPLE = "mercer doctor"


def arguments(parser):
    pass


def run(options, console: Console) -> Outcome:
    checks = {name: _checked(check) for name, check in CHECKS.items()}
    facts = _facts()
    broken = [name for name, said in checks.items() if said != "ok"]
    lines = [aligned(list(facts.items()), longest=150), "", aligned(list(checks.items()), longest=200), "",
             f"{len(broken)} of {len(checks)} checks failed" if broken else "all is well"]  # fmt: skip
    return Outcome({"facts": facts, "checks": checks, "ok": not broken}, "\n".join(lines), code=int(bool(broken)))


def _facts() -> dict[str, str]:
    from mercer.threads import thread_count
    from mercer.versions import installation

    return {**installation(), "threads of mercer": str(thread_count()), "device": _device()}


def _device():
    """The name of a CUDA device if torch sees one."""
    try:
        import torch
    except ImportError:
        return "none (torch is not installed)"
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none (torch sees no CUDA device)"


def _checked(check) -> str:
    try:
        return check() or "ok"
    except Exception as error:  # whatever it is, it is what the doctor was asked to find
        return f"failed: {type(error).__name__}: {error}"


# ------------------------------------------------------------------------------------------------ checks: None if well
def _compiled_gram():
    import numpy as np

    from mercer.kernels import RBF

    X = np.linspace(0.0, 1.0, 12).reshape(6, 2)
    gap = float(np.abs(RBF().gram(X, engine="cpu").dense() - RBF().gram(X, engine="reference").dense()).max())
    return None if gap < 1e-12 else f"the compiled and the plain Gram matrix differ by {gap:.1e}"


def _linear_algebra():
    import numpy as np

    from mercer import KernelRidge
    from mercer.kernels import Linear

    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([2.0, 4.0, 6.0])
    found = float(KernelRidge(1e-9, kernel=Linear()).fit(X, y).predict([[4.0]])[0])
    return None if abs(found - 8.0) < 1e-6 else f"a line through 2, 4, 6 goes on to {found:g}"


def _files():
    import tempfile
    from pathlib import Path

    from mercer.kernels import RBF
    from mercer.persist import load, save

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.mercer"
        save(RBF(2.0), path)
        return None if load(path) == RBF(2.0) else "a kernel came back from a file as another one"


CHECKS = {"compiled code": _compiled_gram, "linear algebra": _linear_algebra, "files": _files}
