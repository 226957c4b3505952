"""What a scheme with its solver is called in tables, figures and sentences.

A scheme's own label is the one home of its words: a name, then behind a comma what sets this variant apart. Here the
solver is added, where it is not gradient descent.
"""

from __future__ import annotations

from typing import Protocol

FAIR_RIVAL = "conventional-full-batch"
SOLVER_NAMES = {"nesterov": "Nesterov", "cg": "CG", "block-krylov": "block Krylov", "closed-form": "closed form"}
SCHEME_NAMES = {"conventional": "conventional FL", FAIR_RIVAL: "conventional FL", "coded-fedl": "CodedFedL"}


class Named(Protocol):
    """A record of a scheme that was run or timed."""

    @property
    def label(self) -> str: ...

    @property
    def solver(self) -> str: ...


def solver_name(solver: str) -> str:
    """A solver as people write it, empty for gradient descent; names that are not ours stay as they are."""
    return "" if solver == "gd" else SOLVER_NAMES.get(solver, solver)


def name_and_variant(one: Named) -> tuple[str, str]:
    """Such as "coded-keys" and "α = 23, CG"; the variant is empty where there is nothing to say."""
    name, _, variant = one.label.partition(", ")
    return name, ", ".join(filter(None, (variant, solver_name(one.solver))))


def full_name(one: Named, joint: str = ", ") -> str:
    """Such as "coded-keys, α = 23, CG"."""
    return joint.join(filter(None, name_and_variant(one)))


def name_in_sentence(one: Named) -> str:
    """Such as "coded-keys (α = 23, CG)": commas of a label would be lost among those of a sentence."""
    name, variant = name_and_variant(one)
    return f"{name} ({variant})" if variant else name


def method_name(scheme: str, solver: str, joint: str = ", ") -> str:
    """A scheme whatever its parameters, and the solver where it is not gradient descent; ``joint`` stands between them.

    Conventional FL with another solver is on the full batch always, so that need not be said.
    """
    qualifier = "full batch" if scheme == FAIR_RIVAL else ""
    name = SCHEME_NAMES.get(scheme, scheme)
    if solver_name(solver):
        return f"{name}{joint}{solver_name(solver)}"
    return ", ".join(filter(None, (name, qualifier)))
