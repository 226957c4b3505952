"""A party on the machine of its broker, for trainings and tests: key, request and certificate in one step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from codedfl.crypto.tls_keys import TlsKeys
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder


def local_party(broker: BrokerFolder, name: str, folder: Path, port: int | None = None) -> BrokerAddress:
    """A party on the broker's own machine: its key is made in ``folder``.

    Examples
    --------
    ``local_party(BrokerFolder.create(path, ["127.0.0.1"]), "device-0", path / "mine").context()``
    """
    certificate = broker.admit(name, TlsKeys(folder).request(name).decode())
    found = BrokerAddress.laid_out(broker.url, broker.authority, certificate, folder)
    return found if port is None else replace(found, port=port)
