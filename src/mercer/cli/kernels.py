"""`mercer kernels`: all kernels with formula and certificate."""

import inspect
import re

from mercer.cli.console import Console, Outcome, aligned
from mercer.cli.words import nearest, shown
from mercer.errors import TableError

EXAMPLE = "mercer kernels RBF"


def arguments(parser):
    parser.add_argument("name", nargs="?", metavar="NAME", help="one kernel, with all that is said of it")


def run(options, console: Console) -> Outcome:
    from mercer import kernels
    from mercer.registry import KERNELS

    known = {name: cls for name, cls in KERNELS.items() if getattr(kernels, name, None) is cls}
    if options.name is None:
        found = [_row(name, cls) for name, cls in sorted(known.items())]
        rows = [(f["name"], f["certificate"].split(":")[0], f["says"]) for f in found]
        return Outcome({"kernels": found}, aligned(rows, ["kernel", "kind", "what it is"], longest=100))
    if options.name not in known:
        raise TableError(f"no kernel is called {shown(options.name)}{nearest(options.name, known)}")
    row = _row(options.name, known[options.name])
    about = inspect.cleandoc(known[options.name].__doc__ or "")
    return Outcome({**row, "about": about}, f"{row['signature']}\n{row['certificate']}\n\n{about}")


def _row(name, cls):
    about = inspect.cleandoc(cls.__doc__ or "")
    math = re.search(r"\.\. math:: (.*(?:\n\s+.*)*)", about)
    formula = " ".join(math[1].split()) if math else None
    says = about.split("\n", 1)[0]
    return {"name": name, "signature": f"{name}{_signature(cls)}", "formula": formula, "says": says,
            "certificate": _certificate(cls)}  # fmt: skip


def _signature(cls):
    names = [(f, p.default) for f, p in inspect.signature(cls).parameters.items()]
    return "(" + ", ".join(f if d is inspect.Parameter.empty else f"{f}={d!r}" for f, d in names) + ")"


def _certificate(cls):
    """Of the kernel with its own defaults; one that is made of others, or of a function, has theirs."""
    try:
        return str(cls().validity)
    except (TypeError, ValueError):
        return "depends: on what it is made of"
