"""A broker of one's own: everything it needs in one folder, for mosquitto or for the small broker.

Every party has a certificate of the broker's authority, and the name in it is who it is; its key is made by the party,
who sends a request. A device publishes under its
own name only and reads only its own inbox; the server reads and writes all of ``codedfl/``. Messages, queues and memory
are limited. Nothing is kept over a restart: presence is announced again and requests are sent again, so what a broker
could remember would only be stale.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import shutil
import ssl
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import tomli_w
from cryptography import x509

from codedfl.contract.names import SERVER_NAME, checked_name
from codedfl.crypto.authority import Authority
from codedfl.crypto.certificates import key_digest, read_certificate, read_request
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.mqtt import topics
from codedfl.mqtt.small_broker import MOST_PACKET, MOST_QUEUED, SmallBroker, matches
from codedfl.private_files import make_private_folder, write_private

log = logging.getLogger("codedfl.mqtt.broker")

DAYS = 365
MOSQUITTO, SMALL = "mosquitto", "small"
_MOST_MEMORY = 512 << 20

# What a device may do, %u being its name; the server may do everything below the root.
DEVICE_WRITES = (topics.outbox("+", "%u"), topics.presence("+", "%u"))
DEVICE_READS = (topics.inbox("+", "%u"), topics.server_presence("+"))
_SERVER_TOPICS = f"{topics.ROOT}/#"


def may_publish(name: str, topic: str) -> bool:
    """Whether the party of this name may publish to a topic."""
    if name == SERVER_NAME:
        return matches(_SERVER_TOPICS, topic)
    return any(matches(one.replace("%u", name), topic) for one in DEVICE_WRITES)


def may_read(name: str, filter_: str) -> bool:
    """A filter is allowed if all that it can match is."""
    if name == SERVER_NAME:
        return matches(_SERVER_TOPICS, filter_)
    return "#" not in filter_ and any(matches(one.replace("%u", name), filter_) for one in DEVICE_READS)


class BrokerFolder:
    """One broker's folder; ``create`` makes it, then it can be started, and parties admitted and revoked."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        if not self._settings_file.is_file():
            raise InvalidInput(f"the broker's folder must be one of codedfl broker new, got {str(path)!r}")
        try:
            settings = tomllib.loads(self._settings_file.read_text(encoding="utf-8"))
            self.port, self.listen = int(settings["port"]), str(settings["listen"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{self._settings_file} must say port and listen ({error})") from None

    @classmethod
    def create(cls, path: Path, hosts: Sequence[str], port: int = 8883, listen: str = "0.0.0.0") -> BrokerFolder:
        """A new folder for a broker that is reached under these names or addresses."""
        if not hosts:
            raise InvalidInput("hosts must name at least one name or address of the broker, got none")
        if not 0 < port < 65536:
            raise InvalidInput(f"port must be between 1 and 65535, got {port}")
        if path.exists() and any(path.iterdir()):
            raise InvalidInput(f"the broker's folder must be new or empty, got {str(path)!r}")
        make_private_folder(path)
        make_private_folder(path / "parties")
        make_private_folder(path / "revoked")
        authority = Authority.created("codedfl broker authority", 10 * DAYS)
        (path / "ca.pem").write_bytes(authority.certificate)
        write_private(path / "ca.key", [authority.key])
        issued = authority.for_listener(hosts, DAYS)
        (path / "broker.pem").write_bytes(issued.certificate)
        write_private(path / "broker.key", [issued.key])
        (path / "revoked.pem").write_bytes(authority.revocations([], 10 * DAYS))
        (path / "acl").write_text(_access_list(), encoding="utf-8")
        (path / "broker.toml").write_text(tomli_w.dumps({"port": port, "listen": listen}), encoding="utf-8")
        made = cls(path)
        (path / "mosquitto.conf").write_text(made._mosquitto_configuration(), encoding="utf-8")
        return made

    @property
    def _settings_file(self) -> Path:
        return self.path / "broker.toml"

    @property
    def url(self) -> str:
        """Where parties reach it: the first of its names or addresses."""
        host = self._hosts()[0]
        return f"mqtts://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def authority(self) -> str:
        """Who signs its certificates, as PEM."""
        return (self.path / "ca.pem").read_text(encoding="ascii")

    def admit(self, name: str, request: str) -> str:
        """A certificate (PEM) for the key of a party's request: the same again while half of its time is left.

        Another key gets another certificate; the former lets the party in until it expires: nobody has to hurry.
        """
        checked_name(name, "a party's name")
        digest = key_digest(read_request(name, request.encode()))
        if digest in {key_digest(read_certificate(one)) for one in self._revoked()}:
            raise InvalidInput(
                f"the request of {name!r} must be for a key that was not revoked, got {digest[:16]}: codedfl site enrol"
                " makes a new one"
            )
        place = self.path / "parties" / f"{name}.pem"
        if place.is_file():
            found = read_certificate(place.read_bytes())
            if key_digest(found) == digest and found.not_valid_after_utc - datetime.now(UTC) > timedelta(DAYS / 2):
                return place.read_text(encoding="ascii")
            place.replace(place.with_name(f"{name}.former-{len(list(place.parent.glob(f'{name}.former-*')))}"))
        place.write_bytes(self._authority().for_request(name, request.encode(), DAYS))
        return place.read_text(encoding="ascii")

    def renew_own(self) -> None:
        """Another certificate for the broker itself, for the same names; it reads it when it starts."""
        issued = self._authority().for_listener(self._hosts(), DAYS)
        (self.path / "broker.pem").write_bytes(issued.certificate)
        write_private(self.path / "broker.key", [issued.key])

    def _hosts(self) -> list[str]:
        found = read_certificate((self.path / "broker.pem").read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [str(one.value) for one in names]

    def revoke(self, name: str) -> None:
        """Let a party's certificate in no more, nor those before it. The broker reads the list when it starts."""
        place = self.path / "parties" / f"{checked_name(name, 'the party')}.pem"
        if not place.is_file():
            raise InvalidInput(f"the party must be one that has a certificate here, got {name!r}")
        revoked = self.path / "revoked"
        for certificate in (place, *place.parent.glob(f"{name}.former-*")):
            certificate.replace(revoked / f"{name}-{len(list(revoked.iterdir()))}.pem")
        (self.path / "revoked.pem").write_bytes(self._authority().revocations(self._revoked(), 10 * DAYS))

    def _revoked(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.path / "revoked").iterdir())]

    def _authority(self) -> Authority:
        return Authority.loaded((self.path / "ca.pem").read_bytes(), (self.path / "ca.key").read_bytes())

    # -- starting

    def program(self) -> str:
        """Which broker ``start`` takes: mosquitto where it is installed."""
        return MOSQUITTO if _mosquitto() else SMALL

    def start(self, program: str = "") -> None:
        """Serve until ended. mosquitto takes the place of this process."""
        program = program or self.program()
        if program == SMALL:
            asyncio.run(self._serve())
            return
        found = _mosquitto()
        if program != MOSQUITTO or found is None:
            wanted = f"{MOSQUITTO} (installed) or {SMALL}"
            raise InvalidInput(f"the broker's program must be {wanted}, got {program!r}")
        os.execv(found, [found, "-c", str(self.path / "mosquitto.conf")])

    async def _serve(self) -> None:
        broker = SmallBroker(may_publish, may_read)
        await broker.start(self.listen, self.port, self.tls_context())
        log.info("the small broker listens at %s:%d", self.listen, self.port)
        try:
            await asyncio.Event().wait()
        finally:
            await broker.stop()

    def tls_context(self) -> ssl.SSLContext:
        """Only who has a certificate of this authority that was not revoked is admitted."""
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.path / "ca.pem"))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self.path / "broker.pem", self.path / "broker.key")
            context.load_verify_locations(self.path / "revoked.pem")
        except (OSError, ssl.SSLError) as error:
            raise CodedFLError(f"the broker's folder must have its certificates, got {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context

    def _mosquitto_configuration(self) -> str:
        return f"""# Written by codedfl broker new. Start it with: codedfl broker start {self.path}
user {getpass.getuser()}
listener {self.port} {self.listen}
cafile {self.path / "ca.pem"}
certfile {self.path / "broker.pem"}
keyfile {self.path / "broker.key"}
crlfile {self.path / "revoked.pem"}
tls_version tlsv1.2
# Who connects is who its certificate names.
require_certificate true
use_identity_as_username true
allow_anonymous false
acl_file {self.path / "acl"}
# One message is a piece of 96 kB at most; what is larger is pulled piece by piece.
max_packet_size {MOST_PACKET}
max_inflight_messages 1000
max_queued_messages 10000
max_queued_bytes {MOST_QUEUED}
memory_limit {_MOST_MEMORY}
max_keepalive 60
set_tcp_nodelay true
# Nothing must outlive a restart: devices announce themselves again, and are asked again.
persistence false
log_dest stderr
log_type error
log_type warning
log_type notice
connection_messages true
"""


def _access_list() -> str:
    lines = [f"user {SERVER_NAME}", f"topic readwrite {_SERVER_TOPICS}", ""]
    lines += [f"pattern write {one}" for one in DEVICE_WRITES]
    lines += [f"pattern read {one}" for one in DEVICE_READS]
    return "# A device publishes as itself only, and reads its own inbox only.\n" + "\n".join(lines) + "\n"


def _mosquitto() -> str | None:
    return shutil.which("mosquitto", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
