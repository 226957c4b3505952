"""How each scheme shares, by name: what a node makes its device of."""

from __future__ import annotations

import pytest

from codedfl.errors import InvalidInput
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.registry import SCHEMES, coded_scheme, sharing_scheme
from wording import exactly

SHARING_SCHEMES = {name: kind.sharing_scheme for name, kind in SCHEMES.items() if issubclass(kind, CodedScheme)}


def test_every_coded_scheme_shares_as_its_name_says():
    for name, sharing in SHARING_SCHEMES.items():
        scheme = coded_scheme(name, 1)
        assert scheme.sharing_scheme is sharing_scheme(name) is sharing
        assert (sharing.name, sharing.reveals_gram) == (name, scheme.reveals_gram)


def test_another_name_is_refused():
    message = "scheme must be one of coded-padded, coded-keys, one-shot, role-keys, role-sums, got 'conventional'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        sharing_scheme("conventional")
