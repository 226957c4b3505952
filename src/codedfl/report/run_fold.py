"""The events of a run, folded: where it stands now, and who answered which epoch. The only fold that there is.

A server folds what it sees (``run_watch``), a page what a log says (``run_state``): both look at the same ``RunView``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field

from codedfl.report.event_log import Begun, EpochScored, Finished, Opened, Scored
from codedfl.sum.events import (
    Connected,
    DeviceState,
    Disconnected,
    Event,
    Listed,
    Members,
    OfDevice,
    PhaseBegun,
    Replied,
    RepliedLate,
    Sent,
    SumBegun,
    UploadComing,
    UploadTaken,
    WrongReply,
)

MOST_LANE_EPOCHS = 400  # the newest epochs of each device; counts are over all epochs
MOST_CURVE_POINTS = 600  # then every second, every third, ... and the last
_EPOCHS_TO_JUDGE_BY = 5

IN_TIME, LATE, MISSING, LIED, OPEN, UNASKED = "t", "l", "-", "x", ".", " "


@dataclass
class DeviceLane:
    """One device: ``lane`` has one letter per epoch, from ``RunView.lane_from`` on."""

    name: str
    part: str = ""  # such as "role 2"; empty where there is only one
    connected: bool = False
    state: str = "waiting"
    in_time: int = 0
    late: int = 0  # when the epoch had enough
    missing: int = 0  # epochs that ended without it
    lied: int | None = None  # the epoch
    bytes: int = 0
    lane: str = ""
    upload: tuple[int, int] = (0, 0)  # bytes that are here, and in all, of the upload that is coming in, or came last
    answers: int = 0  # to all sums, where ``in_time`` and ``late`` are a training's
    spare: int = 0  # of those, when nobody waited for them any more
    in_total: bool | None = None  # whether its rows are in the last total; None before that is fixed


@dataclass
class PartView:
    """A part of the quorum: an epoch needs ``needed`` of ``members``, and ``answered`` are in for the current one."""

    label: str
    members: int
    needed: int
    answered: int


@dataclass
class RunView:
    """A run as it stands. Times are seconds since it began; ``seconds_left`` is at the pace of the last epochs."""

    title: str = ""
    scheme: str = ""
    solver: str = ""
    clock: str = "wall"
    phase: str = "gathering"
    stage: str = ""  # of a study; empty for a run without stages
    trains: bool = True  # epoch by epoch; else every total is one exchange
    finished: bool = False
    outcome: str = ""
    restarts: int = 0
    epoch: int = 0  # the last that ended
    epochs: int = 0  # at most; 0 if nobody knows
    seconds: float = 0.0
    seconds_an_epoch: float | None = None
    seconds_left: float | None = None
    score: float | None = None
    score_name: str = "accuracy"
    scored_rows: int = 0  # that the devices held out and scored the last model on; 0 before, and where they do not
    target: float | None = None
    curve: list[tuple[float, float, int]] = field(default_factory=list)  # seconds, score, epoch
    curve_every: int = 1  # 2: every second epoch is on the curve
    received: int = 0  # never less than what the devices are known to have sent
    sent: int = 0
    unattributed: int = 0  # of those received, which no event says the device of, such as an upload on its way
    directions: int = 0  # of the total X'X that the server knows by now, at most
    n_features: int = 0
    server_sees: str = ""
    exposed: tuple[int, int, int] | None = None
    parts: list[PartView] = field(default_factory=list)
    devices: list[DeviceLane] = field(default_factory=list)
    lane_from: int = 1
    codedfl: str = ""

    def json(self) -> str:
        """For the page."""
        return json.dumps(asdict(self), separators=(",", ":"))


class _Devices(dict[str, DeviceLane]):
    def __missing__(self, name: str) -> DeviceLane:
        return self.setdefault(name, DeviceLane(name))


class RunFold:
    """What the events of one run add up to; ``view`` is it, and what costs a look at all devices is made by ``look``.

    Examples
    --------
    >>> from codedfl.report.run_fold import RunFold
    >>> from codedfl.sum.events import DeviceState
    >>> fold = RunFold()
    >>> fold.take(0.0, DeviceState("clinic-1", "enrolled"))
    >>> fold.devices["clinic-1"].state
    'enrolled'
    """

    def __init__(self) -> None:
        self.view = RunView()
        self.devices = _Devices()
        self.answers: Counter[int] = Counter()  # replies in time to each epoch of the sum that is asked for
        self.received = self.sent = 0  # bytes of replies that events speak of, and bytes that left
        self._lanes: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._shows_all = False
        self._asked: set[str] = set()
        self._parts: list[tuple[set[str], int]] = []
        self._began: float | None = None
        self._scored = False  # the devices have scored the model, so that no epoch's score counts
        self._ends: list[tuple[int, float, float | None]] = []  # epoch, seconds, score
        self._per_epoch = 0
        self._reveals_gram = False
        self._opened = 0
        self._labels: list[str] = []

    @property
    def in_training(self) -> bool:
        """Lanes, quorum and epochs are of a training; every other total of a study is one exchange."""
        return self.view.stage in ("", "products")

    def take(self, time: float, event: Event) -> None:
        """Something happened."""
        view = self.view
        self._began = time if self._began is None else self._began
        view.seconds = max(view.seconds, time - self._began)
        # Nothing follows from the other kinds of events.
        match event:
            case OfDevice():
                self._take_of(self.devices[event.device], event)
            case Sent():
                self.sent += event.bytes
            case Opened():
                self._opened += 1
                view.clock, view.codedfl = event.clock, event.codedfl
                view.finished, view.outcome, view.restarts = False, "", self._opened - 1
            case Begun():
                view.title, view.scheme, view.solver = event.title, event.scheme, event.solver
                view.epochs, view.target, view.score_name = event.epochs, event.target, event.score_name
                view.n_features, view.server_sees, view.exposed = event.n_features, event.server_sees, event.exposed
                self._per_epoch, self._reveals_gram = event.directions, event.reveals_gram
            case SumBegun(stage):
                self.answers.clear()  # epochs are counted from 1 again
                view.stage, view.trains = stage, stage == "products" or bool(view.epoch)
                if stage in ("gram", "products"):  # the columns' whole X'X; and that of random features, by directions
                    self._shows_all = stage == "gram"
            case Members() if self.in_training:
                self._gather(event)
            case Listed(names) if view.stage in ("", "gram", "products"):  # what the model is made of
                for name in {*names, *self.devices}:
                    self._list(self.devices[name], name in names)
            case PhaseBegun(phase):
                view.phase = phase
            case EpochScored():
                self._end_epoch(event)
            case Scored():
                view.score, view.scored_rows, self._scored = event.score, event.rows, True
            case Finished():
                view.finished, view.outcome, view.phase = True, event.outcome, "finished"
                view.received, view.sent = event.received or view.received, event.sent or view.sent
                view.seconds_left = None

    def _take_of(self, device: DeviceLane, event: OfDevice) -> None:
        match event:
            case Connected() | Disconnected():
                device.connected = isinstance(event, Connected)
            case DeviceState():
                device.state = event.state
            case UploadComing():
                device.upload = event.here, event.bytes
            case UploadTaken():
                device.state, device.upload = "uploaded", (event.bytes, event.bytes)
            case WrongReply():
                device.lied, self._lanes[device.name][event.epoch] = event.epoch, LIED
            case Replied() | RepliedLate():
                self._answered(device, event)
        if isinstance(event, UploadTaken | Replied | RepliedLate):
            device.bytes += event.bytes
            self.received += event.bytes

    def _answered(self, device: DeviceLane, event: Replied | RepliedLate) -> None:
        device.answers += 1
        if isinstance(event, Replied):
            self.answers[event.epoch] += 1
        else:
            device.spare += 1
        if not self.in_training:
            return
        lane = self._lanes[device.name]
        if isinstance(event, Replied):
            device.in_time += 1
            lane[event.epoch] = IN_TIME
            return
        device.late += 1
        # It is to the last epoch of this device that ended without it.
        missed = next((epoch for epoch in range(event.epoch, 0, -1) if lane.get(epoch) == MISSING), None)
        if missed is not None:
            lane[missed] = LATE
            device.missing -= 1

    def _list(self, device: DeviceLane, in_total: bool) -> None:
        device.in_total = in_total
        if in_total and device.state in ("waiting", "enrolled"):  # who is listed has uploaded, heard of or not
            device.state = "uploaded"

    def _gather(self, event: Members) -> None:
        self._parts = [(set(part.members), part.needed) for part in event.parts]
        self._asked = {name for members, _ in self._parts for name in members}
        for name in event.names:
            self.devices[name]
        self._labels = [f"{event.kind} {number}" for number in range(1, len(self._parts) + 1)]
        if len(self._parts) > 1:
            for label, (members, _) in zip(self._labels, self._parts, strict=True):
                for name in members:
                    self.devices[name].part = label
        else:
            self._labels = ["everybody"]
        for name in set(event.names) - self._asked if self._asked < set(event.names) else ():
            self.devices[name].part = "not asked"

    def _end_epoch(self, event: EpochScored) -> None:
        view, epoch = self.view, event.epoch
        # A server that was killed and is started again may end an epoch twice: the newest word counts.
        self._ends = [end for end in self._ends if end[0] < epoch]
        self._ends.append((epoch, view.seconds, event.score))
        view.epoch, view.received, view.sent = epoch, event.received, event.sent
        if event.score is not None and not self._scored:
            view.score = event.score
        lately = [seconds for _, seconds, _ in self._ends[-_EPOCHS_TO_JUDGE_BY - 1 :]]
        pace = (lately[-1] - lately[0]) / (len(lately) - 1) if len(lately) > 1 else None
        view.seconds_an_epoch = pace
        view.seconds_left = None if pace is None or not view.epochs else pace * max(0, view.epochs - epoch)
        for name in self._asked:
            device = self.devices[name]
            lane = self._lanes[device.name]
            if epoch not in lane and (device.lied is None or device.lied > epoch):
                lane[epoch] = MISSING
                device.missing += 1

    # -- what follows from them

    def look(self) -> RunView:
        """The view, with what is made of all devices and epochs."""
        view = self.view
        scored = [(seconds, score, epoch) for epoch, seconds, score in self._ends if score is not None]
        view.curve_every = -(-len(scored) // MOST_CURVE_POINTS) or 1
        view.curve = scored[:: view.curve_every]
        if scored and view.curve[-1] != scored[-1]:
            view.curve.append(scored[-1])
        if self._shows_all:
            view.directions = view.n_features
        elif view.epoch:
            revealed = view.n_features if self._reveals_gram else self._per_epoch * (view.epoch - 1)
            view.directions = min(view.n_features, revealed)
        view.lane_from = max(1, view.epoch + 2 - MOST_LANE_EPOCHS)
        asked_now = view.epoch + (0 if view.finished else 1)
        for device in self.devices.values():
            device.lane = self._lane(device, range(view.lane_from, asked_now + 1))
        view.received = max(view.received, self.received)
        view.unattributed = view.received - self.received
        view.devices = sorted(self.devices.values(), key=lambda device: _natural(device.name))
        if self._parts:
            current = {name for name, lane in self._lanes.items() if lane.get(asked_now) == IN_TIME}
            view.parts = [
                PartView(label, len(members), needed, len(members & current))
                for label, (members, needed) in zip(self._labels, self._parts, strict=True)
            ]
        return view

    def _lane(self, device: DeviceLane, epochs: range) -> str:
        found = self._lanes.get(device.name, {})
        open_ = OPEN if device.name in self._asked and device.lied is None else UNASKED
        return "".join(found.get(epoch, open_ if epoch > self.view.epoch else UNASKED) for epoch in epochs)


def _natural(name: str) -> tuple[str, int, str]:
    """device-2 before device-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0), name
