"""The reference: pages written from the registries, the lists of public names and the tables of kernels.

Nothing is listed by hand, so that a new kernel or estimator is in the reference as soon as it is registered. Formulas and
certificates are those of docs/kernels.md, which the tests hold to the classes.
"""

import inspect
import re
from pathlib import Path
from types import ModuleType

import mercer
from mercer import datasets, diagnostics, errors, kernels, plots
from mercer.registry import ESTIMATORS, KERNELS

ROW = re.compile(r"\| `(\w+)` \| (.*) \|$")
CELL = re.compile(r"(?<!\\)\|")
LINK = re.compile(r"\[([^\]]+)\]\(([\w/.-]+)\.md\)")


# ------------------------------------------------------------------------------------------------ what there is
def kernel_tables(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """{heading: {kernel: {column: cell}}} of the page of kernels."""
    tables: dict[str, dict] = {}
    heading, columns = "", []
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif re.match(r"\| (kernel|class) \|", line):
            columns = [cell.strip() for cell in line.strip("|").split("|")][1:]
        elif match := ROW.match(line):
            cells = [cell.strip() for cell in CELL.split(match[2])]
            tables.setdefault(heading, {})[match[1]] = dict(zip(columns, cells, strict=True))
    return tables


def functions() -> list[str]:
    """Public functions of `mercer`, those that are listed as diagnostics left out."""
    names = [name for name in mercer.__all__ if inspect.isfunction(getattr(mercer, name))]
    return [name for name in names if name not in diagnostics.__all__]


def estimators() -> list[str]:
    return sorted((name for name, cls in ESTIMATORS.items() if cls.__module__.startswith("mercer.")), key=str.lower)


def tools() -> list[str]:
    """Classes of `mercer.kernels` that are no kernels: models, certificates, what kernels are made of."""
    names = [name for name in kernels.__all__ if name not in KERNELS]
    return [name for name in names if not isinstance(getattr(kernels, name), ModuleType)]


# ------------------------------------------------------------------------------------------------ how it is written
def rst(cell: str) -> str:
    """A cell of a Markdown table."""
    text = LINK.sub(r":doc:`\1 </\2>`", cell.replace(r"\|", "|"))
    pieces = re.split(r"(:doc:`[^`]*`|`[^`]*`)", text)
    return "".join(
        p if p.startswith(":doc:") else f"`{p}`" if p.startswith("`") else re.sub(r"([\\*|_])", r"\\\1", p)
        for p in pieces
    )


def title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def entry(module: str, name: str, *options: str) -> str:
    """One documented object."""
    thing = getattr(__import__(module, fromlist=[name]), name)
    kind = "autoclass" if inspect.isclass(thing) else "autofunction" if callable(thing) else "autodata"
    lines = [f".. {kind}:: {module}.{name}", *(f"   :{option}:" for option in options if kind == "autoclass")]
    return "\n".join(lines) + "\n\n"


def listing(heading: str, before: str, module: str, names: list[str], *options: str) -> str:
    return title(heading) + before + "\n\n" + "".join(entry(module, name, *options) for name in names)


def kernel_entry(name: str, row: dict[str, str]) -> str:
    facts = "".join(f":{column}: {rst(cell)}\n" for column, cell in row.items() if cell and column != "parameters")
    return title(name, "-") + facts + "\n" + entry("mercer.kernels", name, "members")


def guide_pages(docs: Path, name: str, most: int = 4) -> list[str]:
    """Pages of the guide that speak of a class, those that speak of it most first."""
    counts = {}
    for page in sorted(docs.glob("*.md")):
        if page.stem not in ("index", "kernels", "changes", "readme"):
            counts[page.stem] = len(re.findall(rf"\b{name}\b", page.read_text(encoding="utf-8")))
    found = sorted((stem for stem in counts if counts[stem]), key=lambda stem: (-counts[stem], stem))
    return found[:most]


def estimator_page(docs: Path, name: str, gallery: bool) -> str:
    text = title(name) + entry("mercer", name, "members", "inherited-members: BaseEstimator")
    links = ", ".join(f":doc:`/{page}`" for page in guide_pages(docs, name))
    text += f".. rubric:: In the guide\n\n{links}\n\n" if links else ""
    return text + (f".. minigallery:: mercer.{name}\n   :add-heading: Examples\n" if gallery else "")


def toctree(entries: list[str], depth: int = 1) -> str:
    return f".. toctree::\n   :maxdepth: {depth}\n\n" + "".join(f"   {one}\n" for one in entries) + "\n"


def slug(heading: str) -> str:
    return "kernels-" + re.sub(r"\W+", "-", heading.lower()).strip("-")


def pages(docs: Path, gallery: bool = False) -> dict[str, str]:
    """{name: text} of all pages of the reference."""
    tables = kernel_tables((docs / "kernels.md").read_text(encoding="utf-8"))
    out = {
        slug(heading): title(f"Kernels: {heading[0].lower()}{heading[1:]}")
        + "".join(kernel_entry(name, row) for name, row in table.items())
        for heading, table in tables.items()
    }
    kernel_pages = list(out)
    out["kernel-base"] = listing(
        "What kernels are made of",
        "The base classes, the models of the generative kernels, and what kernels are read from.",
        "mercer.kernels", tools(), "members",
    )  # fmt: skip
    out |= {f"estimator-{name}": estimator_page(docs, name, gallery) for name in estimators()}
    out["functions"] = listing("Functions", "All are in `mercer`.", "mercer", functions())
    out["gram"] = listing("Gram matrices and engines", "A Gram matrix is lazy: it is computed where it is asked for.",
                          "mercer", ["Gram", "Diagonal", "Engine"], "members", "inherited-members")  # fmt: skip
    for module, heading, before in (
        (diagnostics, "Diagnostics", "Questions asked of a kernel or a Gram matrix."),
        (plots, "Displays", "Pictures: `from_...` makes one, `figure_` and `axes_` hold it."),
        (datasets, "Data sets", "Small ones come with the library, larger ones are read from a folder."),
        (errors, "Errors and warnings", "Every error of the library's own is a `MercerError`, and one of Python's."),
    ):
        names = [n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)]
        out[module.__name__.split(".")[1]] = listing(heading, before, module.__name__, names, "members")
    out["index"] = index(kernel_pages)
    return out


def index(kernel_pages: list[str]) -> str:
    return (
        title("Reference")
        + "Every public name. The pages are written from the code: what is here is what is there.\n\n"
        + title("Kernels", "-") + toctree([*kernel_pages, "kernel-base"])
        + title("Estimators", "-") + toctree([f"estimator-{name}" for name in estimators()])
        + title("Everything else", "-") + toctree(["functions", "gram", "diagnostics", "plots", "datasets", "errors"])
    )  # fmt: skip


def write(app):
    folder = Path(app.srcdir) / "api"
    wanted = pages(Path(app.srcdir), "sphinx_gallery.gen_gallery" in app.extensions)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.stem not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
