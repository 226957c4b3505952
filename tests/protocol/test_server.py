"""The server's side: who may take part, what it counts and what it refuses."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from crafted import EVE, EVES_KEY, not_opened, refused

import oracle
from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Shares, Update
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import AnsweredLate, Ignored
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from scenario import Network, Scenario, decoded, descent, gram_limit, names_of, snapshot
from wording import exactly


def answer_from(network: Network, name: str, answer: Answer) -> bytes:
    """An answer of our choice, properly sealed by a member."""
    server = network.server
    header = Message(Kind.ANSWER, server.run, server.agreement.hash, name, SERVER)
    return header.with_body(network.sealed(header, SERVER, answer.encode())).encode()


# -- making one


def test_the_scheme_must_be_the_servers_own():
    parameters = replace(Scenario().parameters, scheme="coded-keys")
    with pytest.raises(InvalidInput, match=exactly("parameters.scheme must be 'coded-padded', got 'coded-keys'")):
        Server(replace(Scenario().plan, parameters=parameters), descent())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "device names must be distinct, got ['a', 'b', 'a']"),
        (["a", ""], "a device's name must have 1 to 64 bytes, got ''"),
        (["a", "é" * 33], f"a device's name must have 1 to 64 bytes, got {'é' * 33!r}"),
    ],
)
def test_device_names_are_checked(names: list[str], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        Server(replace(Scenario().plan, names=tuple(names)), descent())


def test_every_run_has_its_own_id():
    runs = {Server(Scenario().plan, descent()).run for _ in range(3)}
    assert len(runs) == 3
    assert {len(run) for run in runs} == {16}


# -- joining


def test_a_stranger_does_not_join(joining: Network):
    server = joining.server
    join = Message(Kind.JOIN, server.run, b"", "mallory", SERVER, attachment=EVE.public)
    refused(server, join.encode(), "the device must be one of the 4 expected, got 'mallory'")


def test_nobody_joins_in_anothers_name(joining: Network):
    """A join is signed, with name and run key: whoever says "device-1" must hold the key he brings."""
    server = joining.server
    true = Message.decode(joining.up["device-1"][0])
    forgeries = [
        (replace(true, attachment=EVE.public), EVE.public),
        (replace(true, sender="device-0"), true.attachment),
        (true.with_body(EVES_KEY.public), true.attachment),
    ]
    for forged, public in forgeries:
        message = f"the signature must be by key {fingerprint(public)}: it is not, or was damaged"
        refused(server, forged.encode(), message)
    refused(server, replace(true, attachment=b"").encode(), "a public key must have 32 bytes, got 0")
    short = "an agreement's member must have whole keys and signature, got another length"
    refused(server, replace(true, signature=b"short").encode(), short)


def test_with_a_roster_only_pinned_keys_join():
    scenario = Scenario()
    roster = {device.name: device.identity.public for device in scenario.devices()} | {"device-2": EVE.public}
    network = Network.of(scenario, roster=roster)
    network.run_until(Kind.JOIN)
    own = network.devices["device-2"].identity.public
    message = f"the key of 'device-2' must be the one on the roster, got {fingerprint(own)}"
    refused(network.server, network.up["device-2"][0], message)
    del roster["device-2"]
    refused(network.server, network.up["device-2"][0], message)
    network.up["device-2"].clear()
    network.run()
    assert network.server.phase is Phase.JOINING  # waits for a true device-2, or for the driver to freeze


def test_the_set_is_frozen_when_all_have_joined_and_never_again(joining: Network):
    joining.run_until(Kind.AGREEMENT)
    server = joining.server
    assert server.phase is Phase.SHARING
    assert server.agreement.names == tuple(names_of(4))
    before = snapshot(server)
    message = "the participant set must be frozen once, got a second call while sharing"
    with pytest.raises(InvalidInput, match=exactly(message)):
        server.freeze()
    assert snapshot(server) == before


def test_freezing_early_leaves_out_who_did_not_come():
    scenario = Scenario(public_samples=False, alpha=2)
    network = Network.of(scenario)
    network.down["device-2"].clear()
    network.run()
    assert network.server.phase is Phase.JOINING
    network.send(network.server.freeze())
    network.run()
    assert set(network.server.agreement.names) == {"device-0", "device-1", "device-3"}
    three = Scenario(sizes=(3, 5, 4), alpha=2, public_samples=False, bounds=scenario.bounds)
    three.data = [scenario.data[i] for i in (0, 1, 3)]
    assert np.array_equal(network.server.model, three.expected_models(descent())[-1])


def test_a_late_join_is_counted_and_changes_nothing():
    network = Network.of(Scenario(public_samples=False))
    network.run_until(Kind.JOIN)
    late = network.up["device-2"].popleft()
    network.run()
    network.send(network.server.freeze())
    before = network.server.agreement
    assert network.server.receive(late) == Turn([], [Ignored("device-2", "repeated or late join")])
    assert network.server.agreement is before


@pytest.mark.parametrize(("alpha", "joined"), [(4, 3), (3, 2)])
def test_freezing_with_fewer_than_alpha_is_refused_and_more_may_still_join(alpha: int, joined: int):
    network = Network.of(Scenario(alpha=alpha))
    network.run_until(Kind.JOIN)
    rest = {name: network.up[name].popleft() for name in network.server.expected[joined:]}
    network.run()
    before = snapshot(network.server)
    message = f"alpha must be between 1 and the number of devices ({joined}), got {alpha}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        network.server.freeze()
    assert snapshot(network.server) == before
    for name, data in rest.items():
        network.up[name].append(data)
    network.run()
    assert network.server.phase is Phase.FINISHED


def test_refusals_are_kept_by_name():
    scenario = Scenario()
    scenario.data[3] = np.zeros((2, 4)), np.zeros((2, 7))
    network = Network.of(scenario)
    network.run()
    assert network.server.joining.refusals == {"device-3": DOES_NOT_TAKE_PART}
    assert network.devices["device-3"].objection == (
        "n_features and n_outputs must be 4 and 7 as this device's recipe makes them, got 4 and 2"
    )


# -- out of protocol


@pytest.mark.parametrize("kind", [Kind.INVITATION, Kind.AGREEMENT, Kind.PAD_SEED, Kind.SHARE, Kind.UPDATE, Kind.FINISH])
def test_messages_for_devices_are_refused(training: Network, kind: Kind):
    message = Message(kind, training.server.run, training.server.agreement.hash, "device-0", SERVER)
    refused(training.server, message.encode(), f"the server must not be sent a {kind} message, got one")


def test_wrong_run_receiver_or_set_is_refused(training: Network):
    server = training.server
    true = Message.decode(training.up["device-0"][0])
    for changed, message in (
        (replace(true, run=bytes(16)), f"the run must be {server.run.hex()}, got {'00' * 16}"),
        (replace(true, receiver="device-1"), "the receiver must be the server, got 'device-1'"),
        (replace(true, agreement=bytes(32)), "the message must belong to the frozen participant set: it names another"),
        (replace(true, sender="mallory"), "the device must be one of the 4 of this run, got 'mallory'"),
        (replace(true, sender="device-1"), not_opened(training.run_keys["device-1"].public)),
        (replace(true, kind=Kind.READY), not_opened(training.run_keys["device-0"].public)),
    ):
        refused(server, changed.encode(), message)


@pytest.mark.parametrize("kind", [Kind.SHARES, Kind.READY, Kind.ANSWER])
def test_before_the_set_is_frozen_later_messages_are_refused(joining: Network, kind: Kind):
    message = Message(kind, joining.server.run, b"", "device-0", SERVER)
    refused(joining.server, message.encode(), "the participant set must be frozen first, got a later message")


# -- phase 1


def test_shares_must_be_signed_by_their_sender(shares_sent: Network):
    server = shares_sent.server
    true = Message.decode(shares_sent.up["device-0"][0])
    public = shares_sent.devices["device-0"].identity.public
    message = f"the signature must be by key {fingerprint(public)}: it is not, or was damaged"
    for forged in (true.signed_by(EVE), replace(true, signature=b""), replace(true, attachment=b"other")):
        refused(server, forged.encode(), message)


def test_shares_for_somebody_outside_the_set_are_refused_whole(shares_sent: Network):
    """Nothing is kept or relayed of a message that is refused."""
    true = Message.decode(shares_sent.up["device-0"][0])
    author, shares = shares_sent.devices["device-0"].identity, Shares.decode(true.body)

    def with_envelopes(envelopes: dict[str, bytes]) -> bytes:
        return true.with_body(replace(shares, envelopes=envelopes).encode()).signed_by(author).encode()

    data = with_envelopes({"device-3": b"x", "mallory": b"y"})
    rule = "the shares of 'device-0' must be for those who need its seeds in this run: missing or too many are "
    refused(shares_sent.server, data, f"{rule}'device-2', 'mallory'")
    data = with_envelopes(dict.fromkeys(list(shares.envelopes)[1:], b"x"))
    refused(shares_sent.server, data, f"{rule}'device-2'")
    shares_sent.run()
    assert shares_sent.server.phase is Phase.FINISHED  # the true shares were still welcome


def test_shares_are_relayed_along_the_column_and_bulk_to_nobody_else():
    """alpha = 2 of D = 5: device-2's data go to devices 2 and 1; its mask seed also to device 0."""
    network = Network.of(Scenario(sizes=(2,) * 5))
    network.run_until(Kind.SHARES)
    relayed = network.server.receive(network.up["device-2"].popleft()).outgoing
    shares = {outgoing.receivers: Message.decode(outgoing.data) for outgoing in relayed}
    assert set(shares) == {("device-0",), ("device-1",)}
    assert shares["device-1",].attachment
    assert not shares["device-0",].attachment
    assert {share.sender for share in shares.values()} == {"device-2"}


def test_training_starts_when_enough_are_ready_and_late_ones_get_the_update():
    network = Network.of(Scenario(alpha=3))
    network.run_until(Kind.READY)
    server = network.server
    assert server.receive(network.up["device-3"].popleft()).outgoing == []
    assert server.phase is Phase.SHARING
    (broadcast,) = server.receive(network.up["device-1"].popleft()).outgoing
    assert server.phase is Phase.TRAINING  # type: ignore[comparison-overlap]  # receiving changes it
    assert broadcast.receivers == ("device-1", "device-3")
    (late,) = server.receive(network.up["device-0"].popleft()).outgoing
    assert (late.receivers, late.data) == (("device-0",), broadcast.data)
    assert server.ready_devices == ["device-0", "device-1", "device-3"]


# -- phase 2


def test_late_repeated_and_stale_answers_are_counted(training: Network):
    server = training.server
    answers = {name: queue.popleft() for name, queue in training.up.items()}
    assert server.receive(answers["device-0"]).outgoing == []
    assert server.answered == ["device-0"]
    for _ in range(2):
        assert server.receive(answers["device-0"]) == Turn([], [Ignored("device-0", "repeated answer")])
    assert server.receive(answers["device-2"]).outgoing == []
    (update,) = server.receive(answers["device-1"]).outgoing
    assert Message.decode(update.data).kind is Kind.UPDATE
    assert server.epoch == 2
    # The straggler of epoch 1, and a replay, are late now.
    for name in ("device-3", "device-0"):
        before = snapshot(server.epochs.current.answers)
        assert server.receive(answers[name]) == Turn([], [AnsweredLate(name, 1, len(answers[name]))])
        assert snapshot(server.epochs.current.answers) == before


def test_an_answer_to_another_update_is_refused(training: Network):
    server = training.server
    (update,) = decoded(training.device_saw["device-0"], Kind.UPDATE)
    digest = hashlib.sha256(update.body).digest()
    packed = bytes(6 * 8)
    message = "an answer must be to the update of epoch 1, got one to another update"
    refused(server, answer_from(training, "device-0", Answer(1, bytes(32), packed)), message)
    refused(server, answer_from(training, "device-0", Answer(2, digest, packed)), message)
    refused(
        server,
        answer_from(training, "device-0", Answer(1, digest, packed[:-1])),
        "8 ring numbers must take 48 bytes, got 47",
    )
    refused(
        server,
        answer_from(training, "device-0", Answer(1, digest, b"\xff" * 48)),
        f"ring numbers must be residues below {server.agreement.fixed_point.ring.primes[0]}, got a larger one",
    )
    assert server.receive(answer_from(training, "device-0", Answer(1, digest, packed))).outgoing == []
    assert server.answered == ["device-0"]


def test_the_update_sent_is_the_rounded_one_and_its_scale_is_said(training: Network):
    """e on the wire, read by hand, is round(e 2^bits) of the model after epoch 1."""
    training.run_until(Kind.UPDATE, Kind.FINISH)
    server = training.server
    update = Update.decode(Message.decode(training.down["device-0"][0]).body)
    first = Scenario().expected_models(descent())[0]
    format_ = server.agreement.fixed_point
    integers, bits = oracle.update_on_grid(first.tolist(), format_.ring.modulus // 8 // gram_limit(format_))
    assert (update.epoch, update.fraction_bits) == (2, bits)
    expected = [v % p for p in format_.ring.primes for row in integers for v in row]
    assert [int.from_bytes(update.packed[3 * i : 3 * i + 3], "little") for i in range(16)] == expected


def test_training_can_be_stopped_by_the_model():
    scenario = Scenario()
    seen: list[np.ndarray] = []

    def enough(model: np.ndarray) -> bool:
        seen.append(model.copy())
        return len(seen) == 2

    network = Network.of(scenario, descent(50), stop_when=enough)
    network.run()
    assert network.server.phase is Phase.FINISHED
    assert network.server.epoch == 2
    assert np.array_equal(network.server.model, scenario.expected_models(descent(2))[-1])
    assert all(not device.ready for device in network.devices.values())  # they were told to forget


def test_one_epoch_sends_no_update_at_all():
    network = Network.of(Scenario(), descent(1))
    network.run()
    (update,) = decoded(network.device_saw["device-0"], Kind.UPDATE)
    assert Update.decode(update.body).packed == b""
    assert np.array_equal(network.server.model, Scenario().expected_models(descent(1))[-1])


# -- too few devices


def test_in_training_the_error_names_how_many_and_which(training: Network):
    server = training.server
    server.go_on_without(["device-3"])  # three of four are enough
    with pytest.raises(NotEnoughDevices) as caught:
        server.go_on_without(["device-3", "device-1"])
    assert str(caught.value) == (
        "epoch 1 needs 3 answers (D - alpha + 1) but only 2 devices are alive:"
        " 1 more needed, without device-1, device-3"
    )
    assert caught.value.missing == ("device-1", "device-3")
    assert caught.value.model is None
    # An answer that is in counts, whatever became of its device.
    server.receive(training.up["device-1"].popleft())
    server.go_on_without(["device-3", "device-1"])


def test_while_sharing_everybody_is_needed_until_his_shares_are_in(shares_sent: Network):
    server = shares_sent.server
    server.receive(shares_sent.up["device-2"].popleft())
    server.go_on_without(["device-2"])
    with pytest.raises(NotEnoughDevices) as caught:
        server.go_on_without(["device-1", "device-2", "device-3"])
    assert str(caught.value) == "all 4 devices must share before training: 2 missing (device-1, device-3)"
    assert caught.value.missing == ("device-1", "device-3")


# -- repr


def test_repr_shows_the_state():
    network = Network.of(Scenario())
    shown = [repr(network.server)]
    for kinds in ([Kind.SHARES], [Kind.ANSWER]):
        network.run_until(*kinds)
        shown.append(repr(network.server))
    network.run()
    shown.append(repr(network.server))
    assert shown == [
        "<Server joining, epoch 0, 0 devices ready>",
        "<Server sharing, epoch 0, 0 devices ready>",
        "<Server training, epoch 1, 4 devices ready>",
        "<Server finished, epoch 4, 4 devices ready>",
    ]
