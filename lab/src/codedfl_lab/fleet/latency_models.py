"""Latency models by name, and the one that a fleet names."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from codedfl.additions import LATENCIES
from codedfl.errors import InvalidInput
from codedfl.registry import Registry, named, with_parameters
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import FleetLatency, LatencyModel

Model = TypeVar("Model", bound=type[Any])


def check_latency(model: Any) -> None:
    """Refuse what is not made of the usual model and parameters that all have defaults."""
    named_one = isinstance(model, type) and is_dataclass(model) and hasattr(model, "name")
    if not named_one or [one.name for one in fields(model)][:1] != ["usual"]:
        raise InvalidInput(f"a latency model must be a named dataclass whose first field is usual, got {model!r:.80}")


LATENCY_MODELS: Registry[Any] = Registry(LATENCIES, "latency model", check_latency)


def register_latency(model: Model) -> Model:
    """Make a latency model known by its ``name``, for this process; serves as a decorator.

    It is a dataclass whose first field, ``usual``, is the model that it is on top of; the others are its parameters.
    Another package does it by an entry point of the group ``codedfl.latencies``, which names the class.

    Examples
    --------
    >>> from codedfl_lab import register_latency
    >>> register_latency(int)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a latency model must be a named dataclass whose first field is usual, got <class 'int'>
    """
    LATENCY_MODELS.add(model)
    return model


def latency_of(fleet: Fleet) -> LatencyModel:
    """How long things take on a fleet: by its classes, then by the models that it names, one on top of the other.

    Examples
    --------
    >>> from codedfl_lab import Fleet
    >>> from codedfl_lab.fleet.latency_models import latency_of
    >>> latency_of(Fleet.load("heavy-tailed")).shape
    1.5
    """
    import codedfl_lab.fleet.latencies  # each of which makes itself known

    del codedfl_lab
    found: LatencyModel = FleetLatency(fleet)
    for text in fleet.latency_models:
        name, parameters = named(text)
        found = with_parameters(LATENCY_MODELS.take(name)(found), parameters, fixed=("usual",))
    return found
