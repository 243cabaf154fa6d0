"""Compiled loops of the kernel perceptron: one pass over a block of rows, and the vote of all machines of a history.

The rules of `mercer.engines._compiled` hold here too. A binary machine has one column of scores, whose sign is the
answer; with more classes there is a column for each.
"""

from mercer.engines._compiled import compiled


@compiled
def _rival(f, i, label):
    """The class that wins against, or ties with, the right one in row i; -1 if the answer is right."""
    if f.shape[1] == 1:
        right = f[i, 0] > 0.0 if label == 1 else f[i, 0] < 0.0
        return -1 if right else 1 - label
    best = -1
    for r in range(f.shape[1]):
        if r != label and (best < 0 or f[i, r] > f[i, best]):
            best = r
    return -1 if f[i, label] > f[i, best] else best


@compiled
def _update(f, i, label, rival, step):
    if f.shape[1] == 1:
        f[i, 0] += step if label == 1 else -step
    else:
        f[i, label] += step
        f[i, rival] -= step


@compiled
def sweep(f, G, labels, shift, start, most, where, rivals):
    """Take the rows of a block in order from `start`; each mistake moves the scores of the rows after it.

    f float64 (b, c), the scores, changed; G real (b, b), the block's Gram; labels int64 (b,). Places and rivals of the
    mistakes go into `where` and `rivals`, int64 (b,). Returns their number, at most `most`, and the row to go on with.
    """
    count = 0
    for i in range(start, f.shape[0]):
        rival = _rival(f, i, labels[i])
        if rival < 0:
            continue
        where[count], rivals[count] = i, rival
        count += 1
        for j in range(i + 1, f.shape[0]):
            _update(f, j, labels[i], rival, G[i, j] + shift)
        if count == most:
            return count, i + 1
    return count, f.shape[0]


@compiled
def vote(K, slots, labels, rivals, lives, shift, f, votes, start, stop):
    """Go through some machines of a history for rows start ... stop: each votes as often as it lived rows.

    K real (m, s); slots, labels, rivals, lives int64 (k,): the column of K, the update and the life of each mistake's
    machine; f float64 (m, c): scores of the machine before them, changed; votes float64 (m, c), changed.
    """
    for i in range(start, stop):
        for k in range(slots.size):
            _update(f, i, labels[k], rivals[k], K[i, slots[k]] + shift)
            if f.shape[1] == 1:
                votes[i, 0] += lives[k] if f[i, 0] > 0.0 else -lives[k]
                continue
            best = 0
            for r in range(1, f.shape[1]):
                if f[i, r] > f[i, best]:
                    best = r
            votes[i, best] += lives[k]
