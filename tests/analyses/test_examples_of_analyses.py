"""The examples of statistics and analyses are run as they stand."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import codedfl.analyses
import codedfl.statistics

PACKAGES = (codedfl.statistics, codedfl.analyses)
MODULES = [f"{one.__name__}.{info.name}" for one in PACKAGES for info in pkgutil.iter_modules(one.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_comes_out(name: str):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_one(name: str):
    module = importlib.import_module(name)
    for public, value in vars(module).items():
        documented = inspect.isclass(value) or inspect.isfunction(value)
        if documented and value.__module__ == name and not public.startswith("_"):
            assert "Examples\n" in value.__doc__, public
