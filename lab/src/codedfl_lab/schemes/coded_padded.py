"""The paper's scheme as a value: gradient codes on one-time-padded data (IV). ``codedfl_lab.coded.padded`` runs it."""

from __future__ import annotations

from typing import ClassVar

from codedfl_lab.coded.form import CodedForm
from codedfl_lab.coded.padded import Padded
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.gradient_coded import GradientCoded


class CodedPadded(GradientCoded, CodedScheme):
    """The paper's scheme.

    Examples
    --------
    >>> from codedfl_lab import CodedPadded
    >>> CodedPadded.default_for(25)  # the paper's best
    CodedPadded(alpha=23, groups=1, spare=0)
    >>> CodedPadded(alpha=23).exposure(25).words
    'one colluder exposes 22 devices to the server'
    """

    name: ClassVar[str] = Padded.name
    form: ClassVar[CodedForm] = Padded()
