"""Which scheme each stage of a study runs by: the one that the study names, and its relatives.

A secure sum needs no total of X'X, so a study whose training shows it has its sums by the scheme's keys alone;
inference needs nothing else, and has it in one answer.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from codedfl.data.studies.study import Study
from codedfl.errors import InvalidInput
from codedfl.schemes.coded import CodedScheme
from codedfl.schemes.registry import coded_type

_BY_KEYS = {"one-shot": "coded-keys", "role-sums": "role-keys"}
_AT_ONCE = {"coded-keys": "one-shot", "coded-padded": "one-shot", "role-keys": "role-sums"}


def scheme_of(study: Study, n_devices: int) -> CodedScheme:
    """The scheme of the training; what the study does not say is the scheme's own rule for so many devices."""
    return _scheme(study, study.scheme, n_devices)


def sums_scheme_of(study: Study, n_devices: int) -> CodedScheme:
    """The scheme of secure sums: moments and scores."""
    return _scheme(study, _BY_KEYS.get(study.scheme, study.scheme), n_devices)


def inference_scheme_of(study: Study, n_devices: int) -> CodedScheme:
    """The scheme of the one total that inference is made of."""
    return _scheme(study, _AT_ONCE.get(study.scheme, study.scheme), n_devices)


def _scheme(study: Study, name: str, n_devices: int) -> CodedScheme:
    default: Any = coded_type(name).default_for(n_devices)  # a dataclass, which the type of the base cannot say
    said = {one: getattr(study, one) for one in ("alpha", "colluders", "holders") if getattr(study, one) is not None}
    strange = sorted(set(said) - {one.name for one in fields(default)})
    if strange:
        raise InvalidInput(f"{strange[0]} must be left out with the scheme {study.scheme}, got {said[strange[0]]}")
    scheme: CodedScheme = replace(default, **said)
    scheme.check(n_devices)
    return scheme
