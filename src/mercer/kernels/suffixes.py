"""Sums over the common substrings of some strings, by the suffix array of all of them."""

import numpy as np

__all__ = ["common_prefixes", "suffix_order"]

_PIECE = 1 << 20  # places between two returns from compiled code
_CHUNK = 1 << 15  # letters that are translated at a time
_TABLE = 1 << 21  # codes of letters that a table has room for: all of Unicode, and bytes


def _in_pieces(step, n, *arrays, backwards=False):
    """step(first, stop, *arrays) over all of n places."""
    cuts = [(first, min(first + _PIECE, n)) for first in range(0, n, _PIECE)]
    for first, stop in reversed(cuts) if backwards else cuts:
        step(first, stop, *arrays)


# ---------------------------------------------------------------------------------------------- suffixes in order
def suffix_order(text, size, order=None) -> np.ndarray:
    """The places of a text of numbers below `size` in the order of the suffixes that begin there, in linear time.

    Nong, Zhang & Chan (2009): the order of the valleys gives that of all places, and it is that of a text of at most half
    the length, whose letters are the stretches between valleys.
    """
    from mercer.kernels import _compiled_suffixes as c

    n = len(text)
    order = np.empty(n, np.int32) if order is None else order
    small, tally, room = np.zeros(n, bool), np.zeros((2, size), np.int32), np.empty(n // 2 + 1, np.int32)
    book = np.array([len(room)])
    _in_pieces(c.classify, n, text, small, tally, book, room, backwards=True)
    valleys = room[book[0] :]
    _induce(text, small, tally, valleys, order)
    if len(valleys) > 1:
        book, names = np.array([-1, 0]), np.empty(n // 2 + 1, np.int32)
        _in_pieces(c.name, n, text, small, order, book, names)
        _induce(text, small, tally, valleys[_names_in_order(names[valleys >> 1], int(book[1]))], order)
    return order


def _names_in_order(names, different):
    if different < len(names):
        return suffix_order(names, different)
    order = np.empty(len(names), np.int32)
    order[names] = np.arange(len(names), dtype=np.int32)
    return order


def _induce(text, small, tally, valleys, order):
    """Put all places in order, if those of the valleys are; else in the order of their stretches up to the next valley."""
    from mercer.kernels import _compiled_suffixes as c

    large, little = tally
    end = np.cumsum(large + little, dtype=np.int32)
    middle = end - little
    begin = middle - large
    order[...] = -1
    c.place(text, valleys, middle, order)
    order[begin[text[-1]]] = len(text) - 1
    begin[text[-1]] += 1
    _in_pieces(c.induce_large, len(text), text, small, begin, order)
    _in_pieces(c.induce_small, len(text), text, small, end, order, backwards=True)


# ---------------------------------------------------------------------------------------------- what they share
def common_prefixes(strings, weight) -> np.ndarray:
    """K[u, v] = the sum of weight[l] over all suffixes of u and of v, l being the length of their common prefix.

    The strings are different arrays of whole numbers; weight[0] = 0.
    """
    from mercer.kernels import _compiled_suffixes as c

    n, m = sum(len(s) + 1 for s in strings), len(strings)
    memory = np.empty((4, n), np.int32)  # in one piece: fresh pages for each array would take as long as the work
    text, order, near = memory[0], memory[1], memory[2:].reshape(n, 2)
    suffix_order(text, _join(strings, text, near[:, c.OWNER]), order)
    _in_pieces(c.link, n, order, near)
    _in_pieces(c.share, n, text, np.zeros(1, np.int64), near)
    open_at_once = int(near[:, c.SHARED].max()) + 2
    depth, count, out = np.zeros(open_at_once, np.int32), np.zeros((open_at_once, m)), np.zeros((m, m))
    _in_pieces(c.meet, n, order, near, weight, np.zeros(1, np.int64), depth, count, out)
    own = [weight[: len(s) + 1].sum() for s in strings]
    return out + out.T + np.diag(own)


def _join(strings, text, owner):
    """Write the strings one after another, each with a last letter of its own, which comes before all others. How many letters
    there are."""
    code, m, first = _codes(strings), len(strings), 0
    for u, s in enumerate(strings):
        stop = first + len(s)
        for i in range(0, len(s), _CHUNK):
            text[first + i : min(first + i + _CHUNK, stop)] = code(s[i : i + _CHUNK]) + m
        text[stop] = u
        owner[first : stop + 1] = u
        first = stop + 1
    return int(text.max()) + 1


def _codes(strings):
    """A function from letters to their ranks among all letters of the strings."""
    whole = [s for s in strings if len(s)]
    low, high = min((int(s.min()) for s in whole), default=0), max((int(s.max()) for s in whole), default=0)
    if high - low >= _TABLE:  # tokens
        letters = np.unique(np.concatenate(whole))
        return lambda s: np.searchsorted(letters, s)
    seen = np.zeros(high - low + 1, np.int32)
    for s in whole:
        for i in range(0, len(s), _CHUNK):
            seen[s[i : i + _CHUNK] - low] = 1
    rank = np.cumsum(seen, dtype=np.int32) - 1
    return lambda s: rank[s - low]
