"""`mercer gallery`: the examples that come with the library: list, copy and run them."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from mercer.cli.console import Console, Outcome, aligned
from mercer.cli.words import nearest, shown
from mercer.errors import TableError

EXAMPLE = "mercer gallery xor --out out"


def arguments(parser):
    parser.add_argument("name", nargs="?", metavar="NAME", help="one example: it is copied to --out and run there")
    parser.add_argument("--out", default="gallery", metavar="FOLDER", help="where it is put and runs (default gallery)")
    parser.add_argument("--copy", action="store_true", help="copy only")
    parser.add_argument("--force", action="store_true", help="overwrite a copy that is there")


def run(options, console: Console) -> Outcome:
    known = examples()
    if options.name is None:
        rows = [{"name": name, "about": _about(path)} for name, path in known.items()]
        return Outcome({"examples": rows}, aligned([(r["name"], r["about"]) for r in rows], longest=110))
    name = options.name.removeprefix("plot_").removesuffix(".py")
    if name not in known:
        raise TableError(f"no example is called {shown(options.name)}{nearest(name, known)}; mercer gallery lists them")
    copy = _copied(known[name], Path(options.out), options.force)
    if options.copy:
        return Outcome({"file": str(copy)}, f"written    {shown(copy)}")
    return _ran(copy, Path(options.out))


def examples() -> dict[str, Path]:
    """Files by short name: those of the installed package, or of the checkout."""
    here = Path(__file__).parents[1]
    folder = next((f for f in (here / "_examples", here.parents[1] / "examples") if f.is_dir()), None)
    if folder is None:
        raise TableError("the examples were not installed; they are in the folder examples of the repository")
    return {p.stem.removeprefix("plot_"): p for p in sorted(folder.glob("plot_*.py"))}


def _about(path):
    """The first line of its docstring."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.split("\n", 1)[0]


def _copied(path, out, force):
    out.mkdir(parents=True, exist_ok=True)
    copy = out / path.name
    if (copy.exists() or copy.is_symlink()) and not force:
        raise TableError(f"{copy} exists; --force overwrites it")
    from mercer.persist.atomic import replacing

    with replacing(copy) as file:
        file.write(path.read_bytes())
    return copy


def _ran(copy, out):
    done = subprocess.run([sys.executable, copy.name], cwd=out, env={**os.environ, "MPLBACKEND": "Agg"}, check=False,
                          capture_output=True, text=True)  # fmt: skip
    pictures = sorted(str(p.relative_to(out)) for p in out.rglob("*.png"))
    said = (done.stdout + (done.stderr if done.returncode else "")).rstrip()
    data = {"file": str(copy), "pictures": pictures, "output": said}
    return Outcome(data, f"{said}\nin         {shown(out)}: {', '.join(map(shown, [copy.name, *pictures]))}",
                   code=int(done.returncode != 0))  # fmt: skip
