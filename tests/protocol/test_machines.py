"""The machines of the coded schemes, by name: what a node makes its device of."""

from __future__ import annotations

import pytest

from codedfl.errors import InvalidInput
from codedfl.protocol.schemes import MACHINES, machines_of
from codedfl_lab.costs import coded_scheme
from wording import exactly


def test_both_machines_go_by_the_name_of_their_scheme():
    for name, machines in MACHINES.items():
        assert machines.device_type.scheme == machines.server_type.scheme == name


def test_every_coded_scheme_names_the_same_machines():
    for name, machines in MACHINES.items():
        scheme = coded_scheme(name, 1)
        assert (scheme.device_type, scheme.server_type) == (machines.device_type, machines.server_type)
        assert scheme.reveals_gram == machines.device_type.reveals_gram


def test_another_name_is_refused():
    message = "scheme must be one of coded-padded, coded-keys, one-shot, role-keys, role-sums, got 'conventional'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        machines_of("conventional")
