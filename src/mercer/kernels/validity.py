"""V1: what is known of a kernel by construction, and why."""

from dataclasses import dataclass

__all__ = ["CPD", "NOT_PSD", "PD", "PSD", "UNKNOWN", "Validity", "certificate"]

PD, PSD, CPD, UNKNOWN, NOT_PSD = "pd", "psd", "cpd", "unknown", "not-psd"
_RANK = {PD: 0, PSD: 1, CPD: 2, UNKNOWN: 3, NOT_PSD: 4}


@dataclass(frozen=True)
class Validity:
    """Certificate of a kernel.

    `kind` is "pd" (strictly positive definite on distinct rows), "psd", "cpd" (conditionally, of the given order), "unknown"
    or "not-psd"; `reason` names the leaf and the rule.
    """

    kind: str
    reason: str
    order: int = 0

    def satisfies(self, need: str) -> bool:
        """Whether this certificate is at least as strict as `need`.

        >>> Validity("pd", "").satisfies("psd")
        True
        """
        return self.kind != UNKNOWN and self.kind != NOT_PSD and _RANK[self.kind] <= _RANK[need]

    @property
    def certified(self) -> bool:
        return self.satisfies(PSD)

    def __str__(self):
        order = f" of order {self.order}" if self.kind == CPD else ""
        return f"{self.kind}{order}: {self.reason}"


def certificate(kind, reason, order=0):
    return Validity(kind, reason, order)


def weakest(parts) -> Validity:
    return max(parts, key=lambda v: (_RANK[v.kind], v.order))


def of_sum(parts) -> Validity:
    """A3: sums of PSD kernels are PSD; one strict term among them makes the sum strict."""
    worst = weakest(parts)
    if worst.kind == NOT_PSD:
        return Validity(UNKNOWN, f"a sum with a term that is not PSD ({worst.reason})")
    if worst.kind == PSD and any(v.kind == PD for v in parts):
        return Validity(PD, f"sum of PSD kernels with a strict term ({next(v for v in parts if v.kind == PD).reason})")
    return Validity(
        worst.kind,
        f"sum of valid kernels; weakest: {worst.reason}" if worst.kind != UNKNOWN else worst.reason,
        worst.order,
    )


def of_product(parts) -> Validity:
    """A4: the Schur product theorem."""
    worst = weakest(parts)
    if worst.kind in (PD, PSD):
        return Validity(worst.kind, f"product of {worst.kind} kernels (Schur)")
    return Validity(UNKNOWN, f"product with a factor that is not PSD ({worst.reason})")


def restricted(v, how) -> Validity:
    """The kernel of a part or an image of the row: different rows may look equal, so strictness is lost."""
    return Validity(PSD, f"{v.reason}; on {how}, so not strict") if v.kind == PD else v


def mapped(v, rule, *, strict_kept=True, accepts_cpd=False) -> Validity:
    """A closure rule that keeps PSD kernels PSD."""
    if v.kind == PD and strict_kept:
        return Validity(PD, f"{rule} of a strictly PD kernel ({v.reason})")
    if v.certified or (accepts_cpd and v.kind == CPD and v.order <= 1):
        return Validity(PSD, f"{rule} of a valid kernel ({v.reason})")
    return Validity(UNKNOWN, f"{rule} of a kernel that is not certified PSD ({v.reason})")
