"""The examples in the docstrings of the contract run and give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import codedfl.contract


@pytest.mark.parametrize("name", [one.name for one in pkgutil.iter_modules(codedfl.contract.__path__)])
def test_examples(name: str):
    assert doctest.testmod(importlib.import_module(f"codedfl.contract.{name}")).failed == 0
