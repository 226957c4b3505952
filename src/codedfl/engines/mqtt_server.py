"""The server's end of a broker: requests go to the inboxes of devices, replies come from their outboxes.

Nothing is polled: ``replies`` sleeps until a message has come in. A broker lets a device write to its own topics only,
so whose reply it is, the topic says. A connection that is lost, the device's or the server's own, is restored, and the
newest request that a device has not replied to is sent again.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from codedfl.engines.frames import Gone, Offered, Offers, Piece, Pull, Whole, pack_frame, read_frame
from codedfl.engines.pieces import Pulls
from codedfl.errors import MessageRefused
from codedfl.logs import one_line
from codedfl.mqtt import topics
from codedfl.mqtt.link import Link, LinkDown, LinkUp, Received, Will
from codedfl.mqtt.presence import HERE, LEFT, OVER, Presence
from codedfl.sum.events import Connected, Disconnected, Event, Sent, UploadComing
from codedfl.sum.keys import digest

log = logging.getLogger("codedfl.server")

_MOST_ASKED = 8  # requests to one device whose replies are still awaited


class _Peer:
    """One device: the connection it has, if any, and what it was asked."""

    def __init__(self) -> None:
        self.connection = b""
        self.asked: OrderedDict[bytes, bytes] = OrderedDict()  # digest -> request, the newest last
        self.offers = Offers()


class MqttEngine:
    """An ``Engine``: the devices of one study at a broker.

    Parameters
    ----------
    link: the connection to the broker, open, with ``will(study)``.
    study: the digest of the study. devices: who may take part; what others say is not read.
    tell: receives what can be seen at the broker.

    Examples
    --------
    >>> from codedfl.engines.mqtt_server import MqttEngine
    >>> MqttEngine.will(bytes(32)).topic
    'codedfl/00000000000000000000000000000000/server'
    """

    def __init__(
        self,
        link: Link,
        study: bytes,
        devices: Collection[str],
        *,
        tell: Callable[[Event], object] = lambda _event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link, self._study, self._level = link, study, topics.level_of(study)
        self._peers = {name: _Peer() for name in devices}
        self._tell, self._clock = tell, clock
        self._pulls = Pulls()
        self._ready: list[tuple[str, bytes]] = []
        self._elsewhere: dict[str, bytes] = {}  # devices that are there for other studies, and their connections
        self._changed = False  # somebody has come or gone since ``here`` was last looked at

    @staticmethod
    def will(study: bytes) -> Will:
        """What the broker says when the server is lost."""
        return Will(topics.server_presence(topics.level_of(study)))

    def leave(self, *, over: bool) -> None:
        """Take the server's presence back; ``over`` tells devices that the study has come to its end."""
        self._link.publish(topics.server_presence(self._level), OVER if over else LEFT, retain=True)

    # -- the interface of an engine

    def here(self) -> Collection[str]:
        return {name for name, peer in self._peers.items() if peer.connection}

    def send(self, device: str, request: bytes) -> None:
        peer, asked = self._peers[device], digest(request)
        if asked in peer.asked and self._pulls.is_coming(device, asked):
            return  # a slow link is not made faster by asking again
        peer.asked[asked] = request
        peer.asked.move_to_end(asked)
        while len(peer.asked) > _MOST_ASKED:
            peer.asked.popitem(last=False)
        if peer.connection:
            self._publish(device, peer.offers.framed(b"", request))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        """Also ends, with nothing, when a device has come or gone."""
        until = self._clock() + seconds
        self._take_all(0.0)
        while not self._ready and not self._changed:
            self._pull()
            now = self._clock()
            if now >= until:
                break
            self._take_all(max(0.0, min(until, self._pulls.due()) - now))
        self._pull()
        found, self._ready, self._changed = self._ready, [], False
        return found

    def now(self) -> float:
        return self._clock()

    # -- what comes in

    def _take_all(self, seconds: float) -> None:
        for event in self._link.events(seconds):
            if isinstance(event, LinkUp):
                self._link.subscribe(topics.presence(topics.ALL, "+"), topics.outbox(self._level, "+"))
                self._link.publish(topics.server_presence(self._level), HERE, retain=True)
            elif isinstance(event, LinkDown):
                for device in self._peers:
                    self._lose(device)
            else:
                self._take(event)

    def _take(self, event: Received) -> None:
        device = topics.device_of(event.topic)
        if device not in self._peers:
            return
        try:
            if event.topic.endswith("/" + topics.HERE):
                self._take_presence(device, event.payload)
            else:
                self._take_frame(device, event.payload)
        except MessageRefused as error:
            log.warning("%s: %s", one_line(device), one_line(error))

    def _take_presence(self, device: str, payload: bytes) -> None:
        presence = Presence.read(payload) if payload else None
        peer = self._peers[device]
        if presence is not None and self._level not in presence.studies:
            if self._elsewhere.get(device) != presence.connection:
                log.warning("%s is there, but has not approved this study (%s)", one_line(device), self._level)
            self._elsewhere[device] = presence.connection
            presence = None
        connection = b"" if presence is None else presence.connection
        if connection == peer.connection:
            return
        self._lose(device)
        if not connection:
            return
        peer.connection, self._changed = connection, True
        self._tell(Connected(device))
        if peer.asked:  # what was on the way to an earlier connection may be lost
            self._publish(device, peer.offers.framed(b"", next(reversed(peer.asked.values()))))

    def _lose(self, device: str) -> None:
        peer = self._peers[device]
        if peer.connection:
            peer.connection, self._changed = b"", True
            self._tell(Disconnected(device))
        self._pulls.interrupt(device)

    def _take_frame(self, device: str, payload: bytes) -> None:
        peer, frame = self._peers[device], read_frame(payload)
        match frame:
            case Whole():
                self._finish(device, frame.of, frame.data)
            case Offered():
                if frame.of in peer.asked:
                    self._pulls.begin(device, frame)
            case Pull():
                for piece in peer.offers.given(frame):
                    self._publish(device, piece)
            case Piece():
                whole = self._pulls.take(device, frame, self._clock())
                self._tell(UploadComing(device, *self._pulls.progress(device)))
                if whole is not None:
                    self._finish(device, *whole)
            case Gone():
                asked = self._pulls.gone(device, frame.digest)
                if asked is not None and asked in peer.asked:
                    self._publish(device, peer.offers.framed(b"", peer.asked[asked]))

    def _finish(self, device: str, asked: bytes, reply: bytes) -> None:
        """Hand over a reply that is awaited. Others are late copies, or a flood."""
        peer = self._peers[device]
        if peer.asked.pop(asked, None) is not None:
            if not peer.asked:
                peer.offers.clear()
            self._ready.append((device, reply))

    def _pull(self) -> None:
        for device, pull in self._pulls.asked(self._clock(), self.here()):
            self._publish(device, pull)

    def _publish(self, device: str, frame: Whole | Offered | Pull | Piece | Gone) -> None:
        data = pack_frame(frame)
        self._tell(Sent(len(data)))
        self._link.publish(topics.inbox(self._level, device), data)
