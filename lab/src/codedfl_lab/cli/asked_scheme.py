"""The scheme that a user asked for by options."""

from __future__ import annotations

from dataclasses import replace

from codedfl.cli.options import refuse_unread
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.gradient_coded import usual_alpha
from codedfl_lab.schemes.registry import coded_scheme
from codedfl_lab.schemes.role_keys import RoleKeyed


def asked_scheme(usual: Scheme, n_devices: int, colluders: int | None, alpha: int | None, groups: int | None) -> Scheme:
    """The usual variant of a scheme with what a user said otherwise; what it has no use for is refused."""
    if isinstance(usual, RoleKeyed) or not isinstance(usual, CodedScheme):
        instead = "roles instead of a code" if isinstance(usual, RoleKeyed) else "no code"
        for option, value in (("--alpha", alpha), ("--groups", groups)):
            refuse_unread(option, value, f"scheme {usual.name}, which has {instead}")
    if isinstance(usual, RoleKeyed):
        return usual if colluders is None else replace(usual, colluders=colluders)
    refuse_unread("--colluders", colluders, f"scheme {usual.name}, which has no roles")
    if alpha is None and groups is None:
        return usual
    groups = groups or 1
    return coded_scheme(usual.name, usual_alpha(n_devices, groups) if alpha is None else alpha, groups)
