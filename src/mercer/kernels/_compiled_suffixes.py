"""Compiled passes of the suffix array of several strings, and of the sum over its common prefixes.

Passes go over places first ... stop and keep what they need between two calls in an array, so that the interpreter is reached
often enough. Texts, orders and lengths are int32: the smaller they are, the longer they stay in the cache.
"""

from mercer.kernels._compiled import compiled


# ------------------------------------------------------------------------------------------------ induced sorting
# A place is small where its suffix comes before the next one's. A valley is a small place behind one that is not.
@compiled
def classify(first, stop, text, small, tally, book, valleys):
    """Tell small places, from the last one backwards; the last place of the text is not small.

    tally[:, letter] counts (others, small ones). `valleys` is filled from its end, down to book[0].
    """
    for i in range(stop - 1, first - 1, -1):
        if i < text.size - 1:
            small[i] = text[i] < text[i + 1] or (text[i] == text[i + 1] and small[i + 1])
            if small[i + 1] and not small[i]:
                book[0] -= 1
                valleys[book[0]] = i + 1
        tally[1 if small[i] else 0, text[i]] += 1


@compiled
def place(text, valleys, begin, order):
    """Valleys at the heads of their letters' small places."""
    for i in range(valleys.size):
        letter = text[valleys[i]]
        order[begin[letter]] = valleys[i]
        begin[letter] += 1


@compiled
def induce_large(first, stop, text, small, begin, order):
    """Every place that is not small goes behind those of its letter, when the place after it is passed."""
    for i in range(first, stop):
        at = order[i] - 1
        if at >= 0 and not small[at]:
            letter = text[at]
            order[begin[letter]] = at
            begin[letter] += 1


@compiled
def induce_small(first, stop, text, small, end, order):
    """The small places likewise, backwards."""
    for i in range(stop - 1, first - 1, -1):
        at = order[i] - 1
        if at >= 0 and small[at]:
            letter = text[at]
            end[letter] -= 1
            order[end[letter]] = at


@compiled
def _valley(small, i):
    return i > 0 and small[i] and not small[i - 1]


@compiled
def name(first, stop, text, small, order, book, names):
    """Numbers for the stretches from one valley to the next, which `order` has in order: the same number for equal ones.

    They stand in `names` at half the valley's place: two valleys are never neighbours. `book` is (last valley, how many).
    """
    last, count = book[0], book[1]
    for i in range(first, stop):
        at = order[i]
        if _valley(small, at):
            if last < 0 or not _same(text, small, last, at):
                count += 1
            names[at >> 1] = count - 1
            last = at
    book[0], book[1] = last, count


@compiled
def _same(text, small, i, j):
    """Whether the stretches from two valleys to the next ones are equal."""
    if text[i] != text[j]:
        return False
    for k in range(1, text.size - max(i, j)):
        if text[i + k] != text[j + k]:
            return False
        if _valley(small, i + k) or _valley(small, j + k):
            return _valley(small, i + k) and _valley(small, j + k)
    return False


# ------------------------------------------------------------------------------------------------ common prefixes
# Columns of `near`: letters shared with the suffix that comes before in order, and whose string it is.
SHARED, OWNER = 0, 1


@compiled
def link(first, stop, order, near):
    """Put the place that comes before where its common prefix will stand; -1 for the first."""
    for i in range(first, stop):
        near[order[i], SHARED] = order[i - 1] if i > 0 else -1


@compiled
def share(first, stop, text, book, near):
    """Lengths of the common prefixes of suffixes that are neighbours in order (Kärkkäinen et al. 2009).

    The suffix that begins one place later shares at most one letter less.
    """
    h = book[0]
    for i in range(first, stop):
        j = near[i, SHARED]
        if j < 0:
            h = 0
        else:
            while text[i + h] == text[j + h]:
                h += 1
        near[i, SHARED] = h
        h = max(h - 1, 0)
    book[0] = h


@compiled
def meet(first, stop, order, near, weight, book, depth, count, out):
    """out[u, v] += the sum of weight[l] over suffixes of u and earlier ones of v, l being the length of their common prefix.

    The suffixes come in order. A stack holds the common prefixes that are still open: their lengths, and how many suffixes each
    string has had below. A suffix, or a prefix that closes, meets what its parent had before.
    """
    top, strings = book[0], out.shape[0]
    at = order[first]
    h = near[at, SHARED]
    for i in range(first, stop):
        u, g, h = near[at, OWNER], h, 0
        if i + 1 < order.size:
            at = order[i + 1]
            h = near[at, SHARED]
        if h > g:
            top += 1
            depth[top], count[top] = h, 0.0
            count[top, u] = 1.0
            continue
        if g > 0:
            for v in range(strings):
                out[u, v] += weight[g] * count[top, v]
            count[top, u] += 1.0
        while depth[top] > h:
            if depth[top - 1] < h:
                depth[top] = h
                break
            top -= 1
            if top > 0:
                _join(weight[depth[top]], count[top + 1], count[top], out)
    book[0] = top


@compiled
def _join(weight, child, parent, out):
    for u in range(child.size):
        if child[u] > 0.0:
            for v in range(child.size):
                out[u, v] += weight * child[u] * parent[v]
    for u in range(child.size):
        parent[u] += child[u]
