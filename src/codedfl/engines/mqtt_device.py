"""A device's end of a broker: one process that answers the requests of its studies, and keeps nothing by itself.

It publishes as itself only, which the broker sees to. Killed at any moment and started again, it is asked again. Of one
study it answers the newest request that it has not begun with; while it works, nothing else is read.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from codedfl.contract.names import checked_name
from codedfl.engines.frames import Frame, Gone, Offered, Offers, Piece, Pull, Whole, pack_frame, read_frame
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.logs import one_line
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink, Link, LinkUp, Received, Will
from codedfl.mqtt.presence import HERE, MOST_STUDIES, OVER, Presence
from codedfl.sum.keys import digest
from codedfl.sum.wire import MOST_REQUEST

if TYPE_CHECKING:
    from codedfl.engines.pieces import Pulls

log = logging.getLogger("codedfl.device")

ReplyBytes = Callable[[bytes], bytes]
TURN_SECONDS = 60.0  # with nothing to do
_FAREWELL_SECONDS = 5.0
_MOST_NAMED = 8


class MqttDevice:
    """Takes in frames, answers requests.

    Parameters
    ----------
    link: the connection to the broker, with ``will(name)``.
    name: as on the roster and in the certificate.
    studies: digest of a study -> what answers its requests (``Device.reply``).

    Examples
    --------
    >>> from codedfl.engines.mqtt_device import MqttDevice
    >>> MqttDevice.will("clinic-1").topic
    'codedfl/all/clinic-1/here'
    """

    def __init__(
        self, link: Link, name: str, studies: Mapping[bytes, ReplyBytes], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not 1 <= len(studies) <= MOST_STUDIES:
            raise InvalidInput(f"a device must take part in 1 to {MOST_STUDIES} studies at a time, got {len(studies)}")
        self._link, self._name, self._clock = link, name, clock
        self._studies = {topics.level_of(study): answer for study, answer in studies.items()}
        self._offers = {level: Offers() for level in self._studies}
        self._pulls: Pulls | None = None  # from the first request on that is too large for one message
        # Invariant: the newest request alone: an older one of the same study was given up by its server.
        self._waiting: OrderedDict[str, bytes] = OrderedDict()  # study -> its newest request
        self._over: set[str] = set()

    @staticmethod
    def will(name: str) -> Will:
        """What the broker says when this device is lost."""
        return Will(topics.presence(topics.ALL, name))

    @property
    def all_over(self) -> bool:
        """Whether the servers of all studies have said that they are over."""
        return self._over == set(self._studies)

    @property
    def is_busy(self) -> bool:
        """Whether requests wait to be answered: the next turn does not wait for messages."""
        return bool(self._waiting)

    def turn(self, seconds: float) -> None:
        """Wait for something, no longer than this; then answer one request, if there is any."""
        if self.is_busy:
            seconds = 0.0
        elif self._pulls is not None:
            seconds = min(seconds, max(0.0, self._pulls.due() - self._clock()))
        # Messages before work: what has come in by now may replace the request that would be answered.
        for event in self._link.events(seconds):
            if isinstance(event, LinkUp):
                self._introduce()
            elif isinstance(event, Received):
                self._take(event)
            elif self._pulls is not None:
                # What was on the way is lost with the connection, and asked for again after the next.
                for level in self._studies:
                    self._pulls.interrupt(level)
        for level, pull in self._pulls.asked(self._clock()) if self._pulls is not None else ():
            self._publish(level, pull)
        if self._waiting:
            # Taken off before it is answered: if answering ends this process, it is asked again, not begun with again.
            level, request = self._waiting.popitem(last=False)
            reply = self._studies[level](request)
            # A reply that is lost is no harm: the same request makes the same bytes (``Device.reply``).
            self._publish(level, self._offers[level].framed(digest(request), reply))

    def leave(self) -> None:
        """Take the presence back: the broker publishes no will for those who leave in order."""
        self._link.publish(topics.presence(topics.ALL, self._name), b"", retain=True)

    def _introduce(self) -> None:
        for level in self._studies if len(self._studies) <= _MOST_NAMED else "+":  # brokers limit filters
            self._link.subscribe(topics.inbox(level, self._name), topics.server_presence(level))
        # Subscribed first: whoever sees the presence may send at once, and must be heard.
        presence = Presence.of(self._studies)
        self._link.publish(topics.presence(topics.ALL, self._name), presence.pack(), retain=True)

    def _take(self, event: Received) -> None:
        level = topics.study_of(event.topic)
        # Topics of other studies: a filter with a wildcard receives them, and they are not this device's.
        if level not in self._studies:
            return
        if event.topic == topics.server_presence(level):
            # Invariant: only a server that is back undoes what is over. One that ended may still be reported lost: its
            # connection was reset before the broker had read that it leaves.
            if event.payload == OVER:
                self._over.add(level)
            elif event.payload == HERE:
                self._over.discard(level)
            return
        try:
            self._take_frame(level, read_frame(event.payload))
        # A bad frame ends nothing: anybody who may write to the inbox can send one.
        except MessageRefused as error:
            log.warning("%s: %s", level, one_line(error))

    def _take_frame(self, level: str, frame: Frame) -> None:
        match frame:
            case Whole():
                self._waiting[level] = frame.data
            case Offered():
                # Larger than any request can be: not pulled, whatever it is said to be.
                if frame.size <= MOST_REQUEST:
                    self._pull(level, frame)
            case Pull():
                for piece in self._offers[level].given(frame):
                    self._publish(level, piece)
            # Without a pull nobody was asked for a piece, and none is taken.
            case Piece() if self._pulls is not None:
                whole = self._pulls.take(level, frame, self._clock())
                if whole is not None:
                    self._waiting[level] = whole[1]
            case Gone() if self._pulls is not None:
                self._pulls.gone(level, frame.digest)

    def _pull(self, level: str, offered: Offered) -> None:
        if self._pulls is None:
            from codedfl.engines.pieces import Pulls  # requests hardly ever are that large

            self._pulls = Pulls()
        self._pulls.begin(level, offered)

    def _publish(self, level: str, frame: Frame) -> None:
        self._link.publish(topics.outbox(level, self._name), pack_frame(frame))


def serve(
    studies: Mapping[bytes, ReplyBytes],
    address: BrokerAddress,
    name: str,
    *,
    until: Callable[[MqttDevice], bool] = lambda _device: False,
) -> None:
    """Answer requests until ended, or until ``until``, which is looked at after each turn.

    Examples
    --------
    ``serve({terms.study: device.reply}, BrokerAddress.parse("mqtts://broker.example"), device.name)``: see
    ``codedfl site join``.
    """
    link = BrokerLink(address, checked_name(name, "the device's name"), MqttDevice.will(name))
    device = MqttDevice(link, name, studies)
    link.open()
    # Nothing to save at the end: what must survive is in the ledger before a reply leaves.
    try:
        while not until(device):
            device.turn(TURN_SECONDS)
    finally:
        device.leave()
        link.flush(_FAREWELL_SECONDS)
        link.close()
