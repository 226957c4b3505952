"""A device on a broker: a process that stays, waits for calls in its inbox and replies in its outbox.

Everything it must remember is on the disk before a reply leaves (``ResidentHost``). Whatever happens to the connection,
it is made anew and announced anew, and the server repeats what has not been confirmed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from codedfl.engine.calls import Call, Refused, Reply, Step
from codedfl.engine.resident_host import ResidentHost
from codedfl.errors import MessageRefused
from codedfl.logs import one_line
from codedfl.mqtt import topics
from codedfl.mqtt.fetching import Fetcher, Offer
from codedfl.mqtt.frames import (
    CALL,
    Envelope,
    Fetch,
    Gone,
    Missing,
    Nudge,
    Piece,
    Reference,
    Unknown,
    pack_frame,
    read_call,
    read_frame,
    reply_envelope,
)
from codedfl.mqtt.link import Connected, Disconnected, Event, Link, Will
from codedfl.mqtt.presence import SERVER_IS_HERE, Presence, study_is_over
from codedfl.protocol.terms import DOES_NOT_TAKE_PART

log = logging.getLogger("codedfl.engine.device")

_SERVER = "server"  # whom a device fetches from
_WAIT_SECONDS = 1.0
_ALONE_SECONDS = 10.0  # without a server: worth a line in the log


class DeviceDaemon:
    """One device at a broker.

    Parameters
    ----------
    study, digest: the study's name and what is public about it; see ``MqttPost``.
    before_step: called before the device works on a call; demonstrations delay it there.
    """

    def __init__(
        self,
        link: Link,
        host: ResidentHost,
        study: str,
        digest: bytes,
        *,
        before_step: Callable[[Step], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._host = host
        self._study = study
        self._digest = digest
        self._before_step = before_step
        self._clock = clock
        self._outbox = topics.outbox(study, host.name)
        self._fetcher = Fetcher()
        self._call: Envelope | None = None  # the newest; an older one that has not been worked on is void
        self._fetches = False  # whether that refers to anything
        self._offer = Offer()  # what the last reply refers to
        self._replied: tuple[str, bytes] = ("", b"")
        self._served: bool | None = None  # on this connection
        self._told = ""  # in the log
        self._alone_since = clock()
        self._over = False  # whether the server's last word was that the study is over
        self._worked = False

    @staticmethod
    def will(study: str, device: str) -> Will:
        """What the broker says when the device is lost: it takes the presence back."""
        return Will(topics.presence(study, device))

    @property
    def study_over(self) -> bool:
        """Whether the study is over in which this process has taken part; one that comes later waits for the next."""
        return self._over and self._worked

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve until told otherwise; takes its presence back on the way out."""
        try:
            while not until():
                self.turn(_WAIT_SECONDS)
        finally:
            self._link.publish(topics.presence(self._study, self._host.name), b"", retain=True)

    def turn(self, seconds: float) -> None:
        """Take what has come in, then work on the newest call; with neither, prepare for the next run."""
        events = self._link.events(seconds)
        for event in events:
            self._take(event)
        self._work()
        if not events and self._call is None:
            self._host.prepare()
        if self._call is not None and self._fetcher:
            for _, fetch in self._fetcher.requests(self._clock()):
                self._link.publish(self._outbox, pack_frame(fetch))
        if self._served is None and self._clock() - self._alone_since > _ALONE_SECONDS:
            self._served = False
            log.warning("%s: no server serves the study %r at this broker yet", self._host.name, self._study)

    def _take(self, event: Event) -> None:
        if isinstance(event, Connected):
            self._fetcher.interrupt(_SERVER)
            self._served, self._alone_since = None, self._clock()
            self._link.subscribe(
                topics.inbox(self._study, self._host.name), topics.server_presence(self._study)
            )  # before the presence: who is seen is called
            here = Presence.of_study(self._digest)
            self._link.publish(topics.presence(self._study, self._host.name), here.pack(), retain=True)
        elif isinstance(event, Disconnected):
            self._call = None  # its number is forgotten: it will be called again
        elif event.topic == topics.server_presence(self._study):
            self._server_says(event.payload)
        else:
            self._take_frame(event.payload)

    def _server_says(self, words: bytes) -> None:
        there, self._over = words == SERVER_IS_HERE, words == study_is_over(self._digest)
        said = "is there" if there else "has left: the study is over" if self._over else "has left"
        if said != self._told:
            log.info("%s: the server %s", self._host.name, said)
        self._served, self._told = there, said

    def _take_frame(self, payload: bytes) -> None:
        try:
            frame = read_frame(payload)
        except MessageRefused as error:
            log.error("%s refuses a message: %s", self._host.name, one_line(error))
            return
        if isinstance(frame, Envelope) and frame.kind == CALL:
            if frame.number == self._replied[0]:
                self._link.publish(self._outbox, self._replied[1])  # delivered twice: the same reply
            else:
                self._call, self._fetches = frame, False
        elif isinstance(frame, Nudge):
            self._answer_nudge(frame.number)
        elif isinstance(frame, Fetch):
            for piece in self._offer.serve(frame):
                self._link.publish(self._outbox, pack_frame(piece))
        elif isinstance(frame, Piece):
            self._fetcher.take(_SERVER, frame)
        elif isinstance(frame, Gone) and self._fetcher.gone(_SERVER, frame):
            self._call = None

    def _answer_nudge(self, number: str) -> None:
        if number == self._replied[0]:
            self._link.publish(self._outbox, self._replied[1])
        elif self._call is None or number != self._call.number:
            self._link.publish(self._outbox, pack_frame(Unknown(number)))

    def _work(self) -> None:
        if self._call is None:
            return
        number, body = self._call.number, self._call.body
        fetched = self._fetcher.fetched.get(_SERVER, {})
        try:
            if isinstance(body, Reference):
                if body.digest not in fetched:
                    raise Missing([body])
                body = fetched[body.digest]
            reply = self._reply(read_call(body, fetched))
        except Missing as missing:
            self._fetches = True
            self._fetcher.want(_SERVER, missing.references)
            return
        except MessageRefused as error:
            log.error("%s refuses a message: %s", self._host.name, one_line(error))
            reply = Refused(DOES_NOT_TAKE_PART)
        self._call = None
        if self._fetches:  # else what is here of a larger call stays until that comes again
            self._fetcher.forget(_SERVER)
        self._fetches = False
        self._offer = Offer()
        self._replied = (number, pack_frame(reply_envelope(number, reply, self._offer.cargo)))
        self._link.publish(self._outbox, self._replied[1])

    def _reply(self, call: Call) -> Reply:
        if isinstance(call, Step):
            self._worked = True
            self._before_step(call)
        return self._host.handle(call)
