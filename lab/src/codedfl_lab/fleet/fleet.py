"""Who the devices are: the tau_i, eta_i, gamma and p_i of the paper's Section III-B, read from a TOML file.

A fleet file has ``[server]``, optionally ``[costs]`` and ``[defaults]``, and one ``[[device]]`` table per
class of like devices; or it is ``like`` another. ``paper`` ships with the package. How long things take is
:mod:`codedfl_lab.fleet.latency`; ``latency_models`` name what comes on top, such as heavy tails.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Unchecked

RATED_BITS = 48
"""Bits of the ring numbers that a fleet's MAC rates and crypto costs are for: two primes, as in the paper (V).

What a run really sends and multiplies follows from its ring (``WorkShape``); longer numbers cost in proportion.
"""
PAD_MACS_PER_NUMBER = 13.0
"""ChaCha20 on the six bytes of a number over one MAC of our ring product, on a core with AVX2.

``make bench`` prints the ratio of the machine at hand; with AVX-512 the product gains more than the cipher and the
ratio rises. ``costs.prices`` has what is published for a microcontroller.
"""
SEAL_MACS_PER_NUMBER = 13.0
"""What sealing or opening one number costs, as for a pad number."""

DEFAULT_LATENCY = 0.025
"""Seconds from a message's first bit sent to its first bit received, where a fleet does not say: half of the some 50 ms
that an LTE link takes for the shortest question and answer. The paper counts none: its fleet says 0.
"""

_MOST_DEVICES = 1_000_000

_POSITIVE: tuple[str, Callable[[float], bool]] = "positive", lambda x: x > 0
_NOT_NEGATIVE: tuple[str, Callable[[float], bool]] = "zero or positive", lambda x: x >= 0
CLASS_RULES = {
    "mac_rate": _POSITIVE,
    "setup_factor": _NOT_NEGATIVE,
    "uplink_rate": _POSITIVE,
    "downlink_rate": _POSITIVE,
    "failure_probability": ("in [0, 1)", lambda x: 0 <= x < 1),
    "header_overhead": _NOT_NEGATIVE,
    "latency": _NOT_NEGATIVE,
}
_COST_RULES = {
    "pad_macs_per_number": _NOT_NEGATIVE,
    "seal_macs_per_number": _NOT_NEGATIVE,
    "hash_macs_per_number": _NOT_NEGATIVE,
    "verification_macs": _NOT_NEGATIVE,
    "signature_macs": _NOT_NEGATIVE,
    "exchange_macs": _NOT_NEGATIVE,
}
_RULES = {**CLASS_RULES, **_COST_RULES, "server_mac_rate": _POSITIVE}


def _check(key: str, value: Any) -> None:
    """Refuse a value that breaks the rule of its key. TOML has true, nan and inf; Python takes True for 1."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if key == "name":
        wanted, good = "a non-empty string", isinstance(value, str) and value != ""
    elif key in ("count", "n_devices"):
        whole = number and isinstance(value, (int, np.integer))
        wanted, good = f"an integer from 1 to {_MOST_DEVICES}", whole and 1 <= value <= _MOST_DEVICES
    elif not number or not abs(value) <= sys.float_info.max:
        wanted, good = "a finite number", False
    else:
        wanted, good = _RULES[key][0], _RULES[key][1](value)
    if not good:
        raise InvalidInput(f"{key} must be {wanted}, got {value!r}")


@dataclass(frozen=True)
class DeviceClass:
    """Devices alike, with the symbols of Section III-B.

    name: the name of the class, in tables.
    count: the number of its devices.
    mac_rate: tau, multiply-adds per second.
    setup_factor: mean setup time over the deterministic compute time, tau / (eta rho); 0 makes computing deterministic.
    uplink_rate: gamma towards the server, bit/s.
    downlink_rate: gamma from the server, bit/s.
    failure_probability: p of one transmission, which is then repeated; 0 means every transmission succeeds.
    header_overhead: bits sent per payload bit, less one: 0.1 where 100 payload bits travel as 110.
    latency: seconds every message takes beside its bits, once however often it is repeated; 0 counts none, as in the
        paper.
    """

    name: str
    count: int
    mac_rate: float
    setup_factor: float
    uplink_rate: float
    downlink_rate: float
    failure_probability: float
    header_overhead: float
    latency: float = DEFAULT_LATENCY

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            _check(key, value)


def _per_device(key: str) -> cached_property[NDArray[np.float64]]:
    """A number of each class as an array of all devices."""

    def expanded(fleet: Fleet) -> NDArray[np.float64]:
        values = np.array([getattr(c, key) for c in fleet.classes], dtype=np.float64)
        return _frozen(values[fleet.class_of_device])

    return cached_property(expanded)


@dataclass(frozen=True, repr=False)
class Fleet:
    """Device classes expanded to D devices, class after class, and the central server.

    ``mac_rate``, ``setup_factor``, ``uplink_rate``, ``downlink_rate``, ``failure_probability``,
    ``header_overhead`` and ``latency`` are read-only arrays of length D. ``pad_macs_per_number``,
    ``seal_macs_per_number`` and ``hash_macs_per_number`` are what expanding, sealing (or opening) and hashing a number
    cost a device; ``verification_macs``, ``signature_macs`` and ``exchange_macs`` are for one public-key operation. 0
    charges nothing, as in the paper. ``latency_models`` are names of models on top of the fleet's own times, with
    parameters behind them (``codedfl_lab.fleet.latencies``). Vary them with ``dataclasses.replace``.

    Paper: V. Shown by ``codedfl lab fleet show``.

    Examples
    --------
    >>> from codedfl_lab import Fleet
    >>> fleet = Fleet.load("paper").scaled_to(10)
    >>> len(fleet.mac_rate), float(fleet.mac_rate.max() / fleet.mac_rate.min())  # the fastest against the slowest
    (10, 20.0)
    """

    name: str
    classes: tuple[DeviceClass, ...]
    server_mac_rate: float
    pad_macs_per_number: float = PAD_MACS_PER_NUMBER
    seal_macs_per_number: float = SEAL_MACS_PER_NUMBER
    hash_macs_per_number: float = 0.0
    verification_macs: float = 0.0
    signature_macs: float = 0.0
    exchange_macs: float = 0.0
    latency_models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        models = self.latency_models
        if not isinstance(models, tuple) or not all(isinstance(one, str) and one for one in models):
            raise InvalidInput(f"latency_models must be a list of names, such as 'pareto:shape=1.5', got {models!r}")
        for key in ("name", "server_mac_rate", *_COST_RULES):
            _check(key, getattr(self, key))
        if not self.classes:
            raise InvalidInput("device must have at least one class, got none")
        if self.n_devices > _MOST_DEVICES:
            raise InvalidInput(f"device must count at most {_MOST_DEVICES} devices in all, got {self.n_devices}")

    def __repr__(self) -> str:
        slowest, fastest = f"{self.mac_rate.min():.3g}", f"{self.mac_rate.max():.3g}"
        rates = slowest if slowest == fastest else f"{slowest} to {fastest}"
        plural = "" if self.n_devices == 1 else "s"
        return f"<Fleet {self.name!r}: {self.n_devices} device{plural}, {rates} MAC/s>"

    @cached_property
    def n_devices(self) -> int:
        return sum(c.count for c in self.classes)

    @cached_property
    def class_of_device(self) -> NDArray[np.int64]:
        """The index into ``classes`` of each device."""
        return _frozen(np.repeat(np.arange(len(self.classes)), [c.count for c in self.classes]))

    mac_rate = _per_device("mac_rate")
    setup_factor = _per_device("setup_factor")
    uplink_rate = _per_device("uplink_rate")
    downlink_rate = _per_device("downlink_rate")
    failure_probability = _per_device("failure_probability")
    header_overhead = _per_device("header_overhead")
    latency = _per_device("latency")

    def scaled_to(self, n_devices: int) -> Fleet:
        """A fleet with this mix of classes at another D, by largest remainders; classes left empty are dropped."""
        _check("n_devices", n_devices)
        # Integer arithmetic: two classes of equal share must tie exactly, whatever D is.
        quotas = [divmod(c.count * n_devices, self.n_devices) for c in self.classes]
        counts = [whole for whole, _ in quotas]
        by_remainder = sorted(range(len(quotas)), key=lambda i: -quotas[i][1])
        for i in by_remainder[: n_devices - sum(counts)]:
            counts[i] += 1
        kept = (replace(c, count=n) for c, n in zip(self.classes, counts, strict=True) if n)
        return replace(self, classes=tuple(kept))

    @classmethod
    def load(cls, path_or_name: str | os.PathLike[str]) -> Fleet:
        """A shipped fleet by its name (``paper``), or a fleet file; ``+`` puts latency models on top, by their names.

        >>> Fleet.load("paper+pareto:shape=1.2+drift").latency_models
        ('pareto:shape=1.2', 'drift')
        """
        if isinstance(path_or_name, str) and "+" in path_or_name and not Path(path_or_name).exists():
            below, *models = path_or_name.split("+")
            found = cls.load(below)
            return replace(found, name=path_or_name, latency_models=(*found.latency_models, *models))
        folder = resources.files("codedfl_lab.fleet")
        shipped = {p.name.removesuffix(".toml"): p for p in folder.iterdir() if p.name.endswith(".toml")}
        if isinstance(path_or_name, str) and path_or_name in shipped:
            return cls.loads(shipped[path_or_name].read_text(encoding="utf-8"), source=f"{path_or_name}.toml")
        path = Path(path_or_name)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            names = ", ".join(sorted(shipped))
            raise InvalidInput(
                f"fleet must be a readable TOML file or a shipped fleet ({names}), got {str(path)!r}"
            ) from error
        return cls.loads(text, source=str(path), name=path.stem)

    @classmethod
    def loads(cls, text: str, *, source: str = "fleet", name: str = "fleet") -> Fleet:
        """A fleet from TOML text.

        ``source`` leads every error message, and ``name`` is the fleet's unless the text has its own.
        """
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
            raise InvalidInput(f"{source}: a fleet must be valid TOML, got: {error}") from error
        with _blame(f"{source}: "):
            known = ("name", "server", "costs", "defaults", "device", "latency_models", "like")
            for key, value in data.items():
                if key not in known:
                    raise InvalidInput(f"{key} is not a known key ({', '.join(known)}), got {value!r}")
                if "like" in data and key not in ("like", "name", "latency_models"):
                    raise InvalidInput(f"{key} must be left out of a fleet that is like another, got {value!r}")
            models = data.get("latency_models", [])
            latencies = tuple(models) if isinstance(models, list) else models
            if "like" in data:
                return replace(cls.load(data["like"]), name=data.get("name", name), latency_models=latencies)
            server = _section("server", data.get("server", {}), ("mac_rate",), ("mac_rate",))
            costs = _section("costs", data.get("costs", {}), _COST_RULES)
            defaults = _section("defaults", data.get("defaults", {}), CLASS_RULES)
            tables = data.get("device", [])
            if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
                raise InvalidInput(f"device must be an array of tables, got {tables!r}")
            keys, classes = ("count", *CLASS_RULES), []
            for i, own in enumerate(tables):
                of_class = {"name": f"class {i}", "latency": DEFAULT_LATENCY, **defaults, **own}
                classes.append(DeviceClass(**_section(f"device[{i}]", of_class, ("name", *keys), keys)))
            return cls(data.get("name", name), tuple(classes), server["mac_rate"], **costs, latency_models=latencies)

    def dumps(self) -> str:
        """The fleet as TOML, every class in full."""
        devices = [
            {"name": c.name, "count": int(c.count), **{key: float(getattr(c, key)) for key in CLASS_RULES}}
            for c in self.classes
        ]
        costs = {key: float(getattr(self, key)) for key in _COST_RULES}
        server = {"mac_rate": float(self.server_mac_rate)}
        about = {"name": self.name, "latency_models": list(self.latency_models)}
        return tomli_w.dumps({**about, "server": server, "costs": costs, "device": devices})


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.setflags(write=False)
    return values


@contextmanager
def _blame(prefix: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{prefix}{error}") from error


def _section(name: str, table: Any, known: Collection[str], required: Collection[str] = ()) -> Unchecked:
    """A table of the file that has what is required, known keys only, and values by their rules."""
    if not isinstance(table, dict):
        raise InvalidInput(f"{name} must be a table, got {table!r}")
    for key, value in table.items():
        if key not in known:
            raise InvalidInput(f"{name}.{key} is not a known key ({', '.join(known)}), got {value!r}")
        with _blame(f"{name}."):
            _check(key, value)
    for key in required:
        if key not in table:
            raise InvalidInput(f"{name}.{key} must be given, got nothing")
    return table
