"""Parameter names follow the tree as typed: `rbf__lengthscale`, numbered when repeated, or as the user named them."""

from collections import Counter
from dataclasses import fields

from mercer.kernels.parameters import specs

__all__ = ["Slot", "parameter_names", "slots"]


class Slot:
    """Where a name lives: the path of child numbers to a node, and the field of that node (None: the whole node)."""

    __slots__ = ("field", "path")

    def __init__(self, path, field):
        self.path, self.field = path, field


def slots(kernel) -> dict[str, Slot]:
    """Every name of `get_params` and the place it stands for."""
    found: dict[str, Slot] = {}
    _scope(kernel, (), "", found)
    return found


def parameter_names(kernel) -> dict[tuple[tuple[int, ...], str], str]:
    """(path, field) -> name: what the tracer looks up."""
    return {(s.path, s.field): name for name, s in slots(kernel).items() if s.field is not None}


def own_parameters(node):
    """Constructor arguments of a node that are parameters rather than structure."""
    if node.children:
        return tuple(specs(type(node)))
    return tuple(f.name for f in fields(node))


def _scope(kernel, path, prefix, found):
    """Names inside one scope: the whole tree, or the inside of `k.named(...)`."""
    if not kernel.children:
        for field in own_parameters(kernel):
            found[prefix + field] = Slot(path, field)
        return
    components = list(_components(kernel, path))
    count = Counter(base for base, _, _ in components)
    seen: Counter[str] = Counter()
    for base, node, where in components:
        seen[base] += 1
        name = base if count[base] == 1 else f"{base}_{seen[base]}"
        if prefix + name in found:
            raise ValueError(f"two parts of the kernel are called {name!r}; choose another name in named(...)")
        _component(node, where, prefix + name, found)


def _component(node, path, name, found):
    if node.label is not None:  # k.named("trend"): a scope of its own
        found[name] = Slot(path, None)
        _scope(node.children[0], (*path, 0), name + "__", found)
    elif node.children and node.parameter_alone:  # the 2 in 2 * RBF() is `scale`
        found[name] = Slot(path, node.parameter_alone)
    else:
        found[name] = Slot(path, None)
        for field in own_parameters(node):
            found[f"{name}__{field}"] = Slot(path, field)


def _components(node, path):
    """Nodes that have a name, in the order they were typed."""
    if node.label is not None:
        if node.children[0].label is not None:
            raise ValueError(f"{node.label!r} is named twice")
        yield node.label, node, path
        return
    if not node.children:
        yield type(node).__name__.lower(), node, path
        return
    if own_parameters(node):
        yield node.parameter_alone or type(node).__name__.lower(), node, path
    for i, child in enumerate(node.children):
        yield from _components(child, (*path, i))
