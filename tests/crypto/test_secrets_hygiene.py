"""Secrets come from the system's generator, show in no repr, log line or error, and lie in files of mode 0600."""

from __future__ import annotations

import inspect
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codedfl.contract.ledger_base import LedgerBase
from codedfl.crypto.key_files import load_identity
from codedfl.crypto.sealed import Identity
from codedfl.engines.in_process import InProcess
from codedfl.errors import CodedFLError
from codedfl.protocol.device import Device
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.sum.device import Device as SumDevice
from codedfl.sum.layout import Layout
from codedfl.sum.memory import InMemory
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from federations import SERVER, MadeUp, identity, terms_of
from scenario import Network, Scenario, descent

SCHEMES = pytest.mark.parametrize("scheme", [CODED_PADDED, CODED_KEYS])


class Recorder:
    """The system's generator, with a memory."""

    def __init__(self) -> None:
        self.drawn: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.drawn.append(secrets.token_bytes(size))
        return self.drawn[-1]

    def shown_in(self, text: str) -> list[bytes]:
        """Which secrets a text gives away: as hex, or as Python writes bytes (eight in a row are enough).

        A run's id, of 16 bytes, is public.
        """
        return [
            secret
            for secret in self.drawn
            if len(secret) != 16 and any(form in text for form in (secret[:8].hex(), repr(secret[:8])[2:-1]))
        ]


def everything_below(value: Any, depth: int = 0) -> Iterator[Any]:
    """An object and what it holds, as a debugger would list it."""
    yield value
    if depth < 4 and type(value).__module__.startswith("codedfl"):
        for held in vars(value).values() if hasattr(value, "__dict__") else ():
            if type(held).__module__.startswith("codedfl"):
                yield from everything_below(held, depth + 1)


@SCHEMES
def test_no_repr_and_no_error_shows_a_secret(scheme: SharingScheme):
    recorder = Recorder()
    scenario = Scenario(scheme=scheme)
    server = scenario.server(descent(2), random_bytes=recorder)
    network = Network(server, scenario.devices(random_bytes=recorder))
    network.send(server.invite())
    texts: list[str] = []

    def look(receiver: Server | Device, data: bytes) -> None:
        for party in (receiver, server):
            texts.extend(repr(value) for value in everything_below(party))
        for damaged in (data[:-1], data[:-20] + bytes(20), data.replace(server.run, bytes(16))):
            try:
                receiver.receive(damaged)
            except CodedFLError as error:
                texts.append(str(error))

    network.before = look
    network.run()
    assert len(texts) > 200
    assert len(recorder.drawn) > 30
    assert recorder.shown_in("\n".join(texts)) == []


def test_the_search_finds_a_secret_where_there_is_one():
    recorder = Recorder()
    secret = recorder(32)
    assert recorder.shown_in(f"seed {secret!r}") == [secret]
    assert recorder.shown_in(f"seed {secret.hex()}") == [secret]


def test_logs_of_a_sum_show_no_secret(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    recorder, layout = Recorder(), Layout.of_vector(2, 100)
    terms = terms_of([["a", "b", "c"]], 1)
    devices = {
        name: SumDevice(
            *(name, identity(name), MadeUp(terms, {b"ask": layout}, {b"ask": ([1, 2], [])}), InMemory()),
            now=lambda: 0.0,
            random_bytes=recorder,
        )
        for name in terms.by_name
    }

    def damaged(name: str, request: bytes) -> bytes:
        devices[name].reply(request[:-1])
        devices[name].reply(request.replace(request[40:50], bytes(10)))
        return devices[name].reply(request)

    engine = InProcess({name: partial(damaged, name) for name in devices})
    kept = (SERVER, Store())
    session = Session(engine, MadeUp(terms, {b"ask": layout}), *kept, wall=lambda: 0.0, random_bytes=recorder)
    assert session.sum(b"ask") == [3, 6]
    assert len(recorder.drawn) == 4 and caplog.text
    assert recorder.shown_in(caplog.text) == []


def test_secrets_are_drawn_from_the_system():
    for party in (Server, Device):
        assert party.__init__.__kwdefaults__["random_bytes"] is secrets.token_bytes
    assert inspect.signature(Identity.generate).parameters["random_bytes"].default is secrets.token_bytes


@pytest.fixture
def _careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("_careless_umask")
def test_files_with_secrets_are_closed_to_others(tmp_path: Path):
    load_identity(tmp_path / "keys" / "identity.key")
    store = Store(tmp_path / "keys" / "replies.sqlite")
    store.put(("generation",), bytes(32))
    ledger = LedgerBase(tmp_path / "contract")
    ledger.keep(bytes(32), 1, bytes(32), 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} > {"identity.key", "replies.sqlite"} and len(files) >= 3
    assert {mode_of(path) for path in files} == {0o600}
    assert {mode_of(path) for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
