"""Plan files: written by ``codedfl plan``, read by ``codedfl train --plan`` and by federations. One writer, one reader.

A plan file says how to train (the scheme with all its parameters, the solver, the epochs) and what it was made for:
elsewhere its times mean nothing, so it is refused there. What the plan is expected to cost stands in it for people
and is not read back.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_origin, get_type_hints

import tomli_w

from codedfl.errors import InvalidInput
from codedfl.files import write_text
from codedfl.protocol.schemes.descriptor import CodedScheme, Scheme
from codedfl.protocol.schemes.registry import SCHEMES
from codedfl.typing import Unchecked
from codedfl_lab.fleet.fleet import DeviceClass, Fleet

FORMAT = "codedfl-plan-2"
_HEAD = "# Written by `codedfl plan`; read by `codedfl train --plan` and by federations.\n"


@dataclass(frozen=True)
class MadeFor:
    """The problem and the fleet that a plan's times are about."""

    dataset: str
    samples: int
    features: int
    outputs: int
    fleet: str
    fleet_digest: str
    devices: int

    @classmethod
    def of(cls, dataset: str, samples: int, features: int, outputs: int, fleet: Fleet) -> MadeFor:
        return cls(dataset, samples, features, outputs, fleet.name, fleet_digest(fleet), fleet.n_devices)

    @property
    def problem(self) -> str:
        return f"{self.dataset} ({self.samples} rows, {self.features} features, {self.outputs} outputs)"

    @property
    def devices_of_fleet(self) -> str:
        return f"{self.fleet!r} ({self.devices} devices, digest {self.fleet_digest})"


@dataclass(frozen=True)
class PlanFile:
    """What a plan file holds. Without ``made_for`` a plan fits everywhere."""

    scheme: Scheme
    solver: str
    epochs: int
    target: float | None = None
    made_for: MadeFor | None = None
    expected: Mapping[str, float] = field(default_factory=dict, compare=False)

    def save(self, path: Path) -> None:
        made_for = {} if self.made_for is None else {"made_for": asdict(self.made_for)}
        target = {} if self.target is None else {"target": self.target}
        made = {"scheme": self.scheme.name, "solver": self.solver, "epochs": self.epochs, **target}
        expected = {"expected": dict(self.expected)} if self.expected else {}
        plan = {**made, "parameters": asdict(cast(Any, self.scheme))}
        write_text(path, _HEAD + tomli_w.dumps({"format": FORMAT, **made_for, "plan": plan, **expected}))

    def coded_scheme(self, spare: int = 0) -> CodedScheme:
        """The scheme as a protocol runs it; ``spare`` asks for spare answers where the plan does not."""
        if not isinstance(self.scheme, CodedScheme):
            coded = ", ".join(name for name, kind in SCHEMES.items() if issubclass(cast(type, kind), CodedScheme))
            raise InvalidInput(
                f"the plan's scheme must be one that runs as a protocol here ({coded}), got {self.scheme.name}"
            )
        if spare and self.scheme.spare not in (0, spare):
            raise InvalidInput(
                f"spare must be left out with this plan, which asks for {self.scheme.spare}, got {spare}"
            )
        return self.scheme.with_spare(spare) if spare else self.scheme

    def check_fits(self, here: MadeFor) -> None:
        """Refuse a problem or a fleet that the plan was not made for."""
        made = self.made_for
        if made is None:
            return
        if made.problem != here.problem:
            raise InvalidInput(f"the plan was made for {made.problem}, got {here.problem}: make one with codedfl plan")
        if made.fleet_digest != here.fleet_digest:
            raise InvalidInput(
                f"the plan was made for the fleet {made.devices_of_fleet}, got {here.devices_of_fleet}: make one with"
                " codedfl plan"
            )


def fleet_digest(fleet: Fleet) -> str:
    """Tells fleets apart by what their times depend on: every number of every class, measured times included."""
    digest = hashlib.sha256()
    everything: list[Fleet | DeviceClass] = [fleet, *fleet.classes]
    for part in everything:
        for one in fields(part):
            if one.name not in ("name", "classes", "trace"):
                digest.update(f"{one.name}={float(getattr(part, one.name))!r};".encode())
    for one_class in fleet.classes:
        if one_class.trace is not None:
            for name, values in sorted(one_class.trace.seconds_per_unit.items()):
                digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()[:12]


def load_plan(path: Path) -> PlanFile:
    """Read and check a plan file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"the plan file must exist, got {str(path)!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the plan file must be TOML, got {str(path)!r} ({error})") from None
    version, made = content.get("format"), content.get("plan")
    if version != FORMAT or not isinstance(made, dict):
        raise InvalidInput(
            f"the plan file must have format {FORMAT} and a table [plan], got {version!r}: make one with codedfl plan"
        )
    parameters = made.get("parameters")
    made_for = None if "made_for" not in content else _made_for(content["made_for"])
    target = None if made.get("target") is None else float(_checked(made, "target", float))
    if not isinstance(parameters, dict):
        raise InvalidInput(f"parameters in the plan file must be a table, got {parameters!r}")
    epochs = _checked(made, "epochs", int)
    if epochs < 1:
        raise InvalidInput(f"epochs in the plan file must be at least 1, got {epochs}")
    scheme = scheme_of(_checked(made, "scheme", str), parameters)
    return PlanFile(scheme, _checked(made, "solver", str), epochs, target, made_for)


def _checked(table: Unchecked, key: str, kind: type) -> Any:
    value = table.get(key)
    if type(value) is not kind and not (kind is float and type(value) is int):  # bool is an int to isinstance
        raise InvalidInput(f"{key} in the plan file must be of type {kind.__name__}, got {value!r}")
    return value


def _made_for(table: Any) -> MadeFor:
    if not isinstance(table, dict):
        raise InvalidInput(f"made_for in the plan file must be a table, got {table!r}")
    hints = get_type_hints(MadeFor)
    return MadeFor(**{one.name: _checked(table, one.name, hints[one.name]) for one in fields(MadeFor)})


def scheme_of(name: str, parameters: Unchecked) -> Scheme:
    """A scheme by its name and its own parameters, each checked; z, as results call it, is its ``colluders``."""
    if name not in SCHEMES:
        raise InvalidInput(f"scheme in the plan file must be one of {', '.join(SCHEMES)}, got {name!r}")
    kind = SCHEMES[name]
    hints = get_type_hints(kind)
    known: dict[str, Field[Any]] = {one.name: one for one in fields(cast(Any, kind))}
    if "z" in parameters and "z" not in known:
        parameters = {"colluders" if key == "z" else key: value for key, value in parameters.items()}
    for key in parameters:
        if key not in known:
            raise InvalidInput(f"parameters in the plan file must be those of {name} ({', '.join(known)}), got {key!r}")
    needed = [key for key, one in known.items() if key in parameters or one.default is MISSING]
    return kind(**{key: _checked(parameters, key, _kind(hints[key])) for key in needed})


def _kind(hint: Any) -> type:
    """The type of a parameter; of one of several words it is str, and the scheme itself says which they are."""
    return str if get_origin(hint) is Literal else cast(type, hint)
