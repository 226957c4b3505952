"""From requests to kits and back: what is checked, what is refused in one line, and that no private key leaves."""

from __future__ import annotations

import re
import shutil
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from command_runner import Run, invoke

from codedfl.contract.enrolment import EnrolmentRequest, load_enrolment
from codedfl.contract.kit import Kit, load_kit
from codedfl.crypto import authority
from codedfl.crypto.authority import Requested
from codedfl.crypto.certificates import key_digest, read_certificate
from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder

pytestmark = pytest.mark.hospitals

TABLE = "age,days\n" + "".join(f"{20 + row},{row % 7}.5\n" for row in range(40))
NAMES = ("clinic-0", "clinic-1", "clinic-2")
KIT = ("study", "kit", "study.toml", "--requests", "requests", "--broker", "broker", "--out", "kits")


def said(run: Run, *words: object) -> str:
    """What a command says on its last line, where it ends well."""
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    return str(result.stdout.splitlines()[-1])


def refusal(run: Run, *words: object) -> str:
    """The one line of an error."""
    result = run(*words)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.stderr
    return str(result.stderr.removeprefix("error: ").rstrip("\n"))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A drafted study, three clinics and a server that enrolled, each with a state folder; the same with kits."""
    asked, made = tmp_path_factory.mktemp("kits") / "asked", tmp_path_factory.mktemp("kits") / "made"
    asked.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(asked)
        Path("mine.csv").write_text(TABLE)
        said(invoke, "study", "new", "mine.csv", "--target", "days", "--task", "regression", "--participants", "3")
        drafted = Path("study.toml")  # all rows are trained on: which ones are held out, a device draws
        drafted.write_text(drafted.read_text().replace("held_out = 0.2", "held_out = 0.0"))
        for name in NAMES:
            said(invoke, "site", "enrol", name, "--state", f"at-{name}", "--out", f"requests/{name}.request")
        said(invoke, "server", "enrol", "--state", "at-server", "--out", "requests/server.request")
        said(invoke, "broker", "new", "broker", "--host", "localhost")
        shutil.copytree(asked, made)
        patch.chdir(made)
        said(invoke, *KIT)
    return asked, made


@pytest.fixture
def asked(machines: tuple[Path, Path], run: Run) -> None:
    """Everybody has enrolled; the test's folder has all machines."""
    shutil.copytree(machines[0], ".", dirs_exist_ok=True)


@pytest.fixture
def made(machines: tuple[Path, Path], run: Run) -> None:
    """As ``asked``, and the kits are there."""
    shutil.copytree(machines[1], ".", dirs_exist_ok=True)


def approve(run: Run, kit: str, *more: str, name: str = "clinic-1") -> str:
    return said(run, "site", "approve", kit, "--table", "mine.csv", "--who", "Ada", "--state", f"at-{name}", *more)


def edited(path: str, /, **changes: Any) -> str:
    """The file with other texts, or without one, as somebody on its way would write it."""
    found = {**tomllib.loads(Path(path).read_text()), **changes}
    changed = Path("changed" + Path(path).suffix)
    changed.write_text(tomli_w.dumps({key: text for key, text in found.items() if text is not None}))
    return str(changed)


def files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.is_file()]


@pytest.mark.usefixtures("asked")
def test_kits_fit_together_and_hold_no_secret(run: Run):
    last = said(run, *KIT)
    kits = {path.stem: load_kit(path) for path in Path("kits").glob("*.kit")}
    assert sorted(kits) == [*NAMES, "codedfl-server"]
    assert {one.fingerprint for one in kits.values()} == {last.removeprefix("fingerprint of the kits: ")}
    assert {one.broker for one in kits.values()} == {"mqtts://localhost:8883"}
    secret = [path.read_bytes().strip() for name in ("server", *NAMES) for path in files(f"at-{name}")]
    assert len(secret) == 8
    for path in (*files("kits"), *files("requests"), *files("broker/parties")):
        assert b"PRIVATE KEY" not in path.read_bytes()
        assert not [one for one in secret if one in path.read_bytes()]
    assert all(path.stat().st_mode & 0o777 == 0o600 for name in NAMES for path in files(f"at-{name}"))
    study = Path("study.toml").read_text()
    bound = re.sub("(?m)^(roster|server_key) = .*$", r"\1", kits["clinic-1"].study_text)
    assert bound == re.sub("(?m)^# (roster|server_key) = .*$", r"\1", study), "the author's text is what it was"


@pytest.mark.usefixtures("made")
def test_what_a_kit_says_can_be_read_before_it_is_approved(run: Run):
    assert said(run, "study", "check", "kits/clinic-1.kit", "mine.csv").startswith("mine.csv: 40 rows, can take part")
    shown = run("study", "show", "kits/study.toml", "--roster", "kits/roster.toml").stdout
    assert run("study", "show", "kits/clinic-1.kit").stdout == shown != run("study", "show", "kits/study.toml").stdout
    first = run(
        *("site", "approve", "kits/clinic-1.kit", "--table", "mine.csv", "--who", "Ada"), "--state", "at-clinic-1"
    ).stdout.splitlines()[0]
    kit = load_kit(Path("kits/clinic-1.kit"))
    assert first == f"fingerprint of the kit: {kit.fingerprint}"


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("key", ["study", "roster", "broker", "authority"])
def test_a_kit_that_was_changed_on_its_way(run: Run, key: str):
    text = tomllib.loads(Path("kits/clinic-1.kit").read_text())[key]
    for changed in (text + "#", text[1:], text.replace("t", "x", 1)):
        line = refusal(run, "site", "join", edited("kits/clinic-1.kit", **{key: changed}), "--state", "at-clinic-1")
        assert re.fullmatch(
            r"changed.kit must have the fingerprint that it says, '[0-9a-f]{32}', got [0-9a-f]{32}: it was changed or"
            " damaged on its way, ask for it again",
            line,
        )


@pytest.mark.usefixtures("made")
def test_a_kit_that_was_changed_with_its_fingerprint_has_another(run: Run):
    """What whoever carries it can do at most: people hear that it is not the coordinator's."""
    kit = load_kit(Path("kits/clinic-1.kit"))
    elsewhere = Kit(kit.name, kit.study_text, kit.roster, "mqtts://elsewhere:1", kit.authority, kit.certificate)
    weaker = Kit(kit.name, kit.study_text.replace("edition = 1", "edition = 3"), kit.roster)
    assert len({kit.fingerprint, elsewhere.fingerprint, weaker.fingerprint}) == 3
    other = Kit("clinic-2", kit.study_text, kit.roster, kit.broker, kit.authority)
    assert other.fingerprint == kit.fingerprint, "name and certificate are the site's own"
    approve(run, "kits/clinic-1.kit")
    weaker.save(Path("weaker.kit"))
    line = refusal(run, "site", "check", "weaker.kit", "--state", "at-clinic-1")
    assert line == "the kit must name a broker, got one without: a SuperNode takes it (docs/deploy.md)"
    Kit(kit.name, weaker.study_text, kit.roster, "mqtt://127.0.0.1:1").save(Path("weaker.kit"))
    line = refusal(run, "site", "join", "weaker.kit", "--state", "at-clinic-1")
    assert line.startswith("the study 'days' must be approved on this device, got no approval of ")


@pytest.mark.usefixtures("made")
def test_a_kit_of_another_site(run: Run):
    message = (
        "the kit must be of a device that enrolled on this machine (clinic-1), got one of 'clinic-2': --state names the"
        " folder"
    )
    for words in (("join",), ("check",), ("approve", "--table", "mine.csv", "--who", "Ada")):
        command, *more = words
        assert refusal(run, "site", command, "kits/clinic-2.kit", *more, "--state", "at-clinic-1") == message
    assert [path.name for path in Path("at-clinic-1").iterdir()] == ["clinic-1"], "no key was made for it"
    renamed = edited("kits/clinic-2.kit", name="clinic-1")
    assert refusal(run, "site", "join", renamed, "--state", "at-clinic-1") == (
        "the certificate of the kit must name 'clinic-1', got 'clinic-2'"
    )
    server = "the kit must be a device's, got the server's: codedfl server run takes it"
    assert refusal(run, "site", "join", "kits/codedfl-server.kit", "--state", "at-clinic-1") == server
    assert refusal(run, "server", "run", "kits/clinic-1.kit", "--out", "out", "--state", "at-server") == (
        "the kit must be the server's, for a broker, got one of 'clinic-1' for mqtts://localhost:8883"
    )


@pytest.mark.usefixtures("made")
def test_a_certificate_for_a_key_of_another_machine(run: Run):
    """As after the folder was lost, or where two machines enrolled under one name."""
    approve(run, "kits/clinic-1.kit")
    for path in Path("at-clinic-1/clinic-1/tls").glob("*.key"):
        path.unlink()
    line = refusal(run, "site", "join", "kits/clinic-1.kit", "--state", "at-clinic-1")
    digest = key_digest(read_certificate(load_kit(Path("kits/clinic-1.kit")).certificate.encode()))
    assert line == (
        f"the certificate must be for a key that was made on this machine, got one for {digest[:16]}, which is not in"
        " at-clinic-1/clinic-1/tls: codedfl site enrol requests another"
    )


def expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates of the broker's authority were for yesterday."""
    monkeypatch.setattr(authority, "_SLACK", timedelta(days=2))
    monkeypatch.setattr("codedfl.mqtt.broker_folder.DAYS", 1)


@pytest.mark.usefixtures("asked")
def test_an_expired_certificate_and_another_by_request(run: Run, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        expired(patch)
        said(run, *KIT)
    approve(run, "kits/clinic-1.kit")
    line = refusal(run, "site", "join", "kits/clinic-1.kit", "--state", "at-clinic-1")
    assert re.fullmatch(
        r"the certificate must be valid now, [-\d]+ [:\d]+ by this clock, got one from [-\d]+ [:\d]+ to [-\d]+ [:\d]+:"
        r" set the clock, or request another \(codedfl site enrol\)",
        line,
    )
    checked = run("site", "check", "kits/clinic-1.kit", "--state", "at-clinic-1")
    assert checked.exit_code == 1 and checked.stdout.startswith("NO  certificate  the certificate must be valid now, ")
    before = {path.name: path.read_bytes() for path in files("kits")}
    said(run, "site", "enrol", "clinic-1", "--state", "at-clinic-1")
    known = ("kits/study.toml", "--roster", "kits/roster.toml", "--broker", "broker", "--out", "kits")
    said(run, "study", "kit", *known, "--requests", "clinic-1.request")
    after = {path.name: path.read_bytes() for path in files("kits")}
    assert [name for name in after if after[name] != before[name]] == ["clinic-1.kit"]
    kit = load_kit(Path("kits/clinic-1.kit"))
    folder = Path("at-clinic-1/clinic-1/tls")
    address = BrokerAddress.laid_out(kit.broker, kit.authority, kit.certificate, folder)
    assert address.context() is not None
    assert len(list(folder.glob("*.key"))) == 2, "the former goes on until it expires"
    refused = refusal(run, "site", "join", "kits/clinic-1.kit", "--state", "at-clinic-1")
    assert refused.startswith("the broker must be reachable at mqtts://localhost:8883"), "it is approved as it was"


def new_edition(run: Run) -> None:
    Path("second.toml").write_text(Path("kits/study.toml").read_text().replace("edition = 1", "edition = 2"))
    given = ("--requests", "requests", "--roster", "kits/roster.toml", "--broker", "broker", "--out", "second")
    said(run, "study", "kit", "second.toml", *given)


@pytest.mark.usefixtures("made")
def test_an_old_kit_after_a_new_edition(run: Run):
    approve(run, "kits/clinic-1.kit")
    new_edition(run)
    old, new = load_kit(Path("kits/clinic-1.kit")), load_kit(Path("second/clinic-1.kit"))
    assert (old.certificate, old.roster) == (new.certificate, new.roster) and old.fingerprint != new.fingerprint
    refused = refusal(run, "site", "join", "second/clinic-1.kit", "--state", "at-clinic-1")
    assert refused.startswith("the study 'days' must be approved on this device, got no approval of ")
    approve(run, "second/clinic-1.kit")
    told = (
        "the kit must be of the newest edition of 'days' that was approved here, 2, got 1: join with the kit of edition"
        " 2, or with both"
    )
    checked = run("site", "check", "kits/clinic-1.kit", "--state", "at-clinic-1")
    assert checked.exit_code == 1 and told in " ".join(checked.stdout.split())
    assert told not in " ".join(run("site", "check", "second/clinic-1.kit", "--state", "at-clinic-1").stdout.split())


@pytest.mark.usefixtures("asked")
def test_of_several_kits_the_certificate_that_ends_last_counts(run: Run, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        expired(patch)
        said(run, *KIT)
    approve(run, "kits/clinic-1.kit")
    new_edition(run)
    for kits in (("kits", "second"), ("second", "kits")):
        words = ("site", "join", *(f"{folder}/clinic-1.kit" for folder in kits), "--state", "at-clinic-1")
        assert refusal(run, *words).startswith("the study 'days' must be approved on this device, got no approval of ")
    approve(run, "second/clinic-1.kit")
    assert refusal(run, *words).startswith("the broker must be reachable at mqtts://localhost:8883")
    said(run, "broker", "new", "other", "--host", "elsewhere")
    said(run, *KIT[:5], "--broker", "other", "--out", "third")
    assert refusal(run, "site", "join", "kits/clinic-1.kit", "third/clinic-1.kit", "--state", "at-clinic-1") == (
        "all kits must be for one broker, got several: one process each joins them"
    )
    assert refusal(run, "site", "join", "kits/clinic-1.kit", "third/clinic-2.kit", "--state", "at-clinic-1") == (
        "all kits must be of one device, got one of 'clinic-1' and one of 'clinic-2'"
    )


@pytest.mark.usefixtures("made")
def test_kits_of_another_edition_do_not_take_the_place_of_others(run: Run):
    Path("second.toml").write_text(Path("kits/study.toml").read_text().replace("edition = 1", "edition = 2"))
    given = ("--requests", "requests", "--roster", "kits/roster.toml", "--broker", "broker", "--out", "kits")
    before = {path: path.read_bytes() for path in files("kits")}
    assert refusal(run, "study", "kit", "second.toml", *given) == (
        "--out must be a new folder or hold kits of the same study, got 'kits', which has another study.toml: another"
        " edition goes to another folder"
    )
    assert before == {path: path.read_bytes() for path in files("kits")}


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "codedfl-kit-2"}, "the kit must have format = 'codedfl-kit-1', got 'codedfl-kit-2' in changed.kit"),
        ({"broker": 3}, "broker of the kit must be a text, got '3'"),
        (
            {"broker": None},
            "the kit must have the keys name, fingerprint, study, roster, broker, authority, certificate",
        ),
        (
            {"path": "../x"},
            "the kit must have the keys name, fingerprint, study, roster, broker, authority, certificate",
        ),
        (
            {"authority": "-----BEGIN EC PRIVATE KEY-----"},
            "changed.kit must hold no private key, got one in authority: it stays where it was made",
        ),
        ({"name": "../up"}, "the name in a kit must be printable, without spaces, / \\ + # and a dot in front, got"),
        ({"name": "stranger"}, "the device must be on the roster, got 'stranger'"),
        ({"certificate": "junk"}, "the certificate must be PEM, got something else"),
        ({"study": "x" * (1 << 23)}, "the kit must have at most 8388608 bytes, got "),
    ],
)
def test_a_kit_that_is_none(run: Run, changes: dict[str, Any], message: str):
    changed = edited("kits/clinic-1.kit", **changes)
    assert refusal(run, "site", "join", changed, "--state", "at-clinic-1").startswith(message)
    assert sorted(path.name for path in files("at-clinic-1/clinic-1/tls")) == [
        path.name for path in Path("at-clinic-1/clinic-1/tls").glob("*.key")
    ], "nothing of it is written"


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "clinic-2"}, "the certificate request must be for 'clinic-2', got one for 'clinic-1'"),
        ({"name": "../clinic"}, "the name in a request must be printable, without spaces, / \\ + # and a dot in front"),
        (
            {"key": "ab" * 32},
            "the request of 'clinic-1' must be signed by the key in it, got another signature: it was",
        ),
        ({"key": "ab"}, "key of 'clinic-1' must be a public key of 32 bytes in hex, got 'ab'"),
        ({"signature": "ab" * 64}, "the request of 'clinic-1' must be signed by the key in it, got another signature"),
        ({"signature": "x"}, "the signature of changed.request must have 64 bytes in hex, got something else"),
        (
            {"certificate_request": Requested.created("clinic-1").request.decode()},
            "the request of 'clinic-1' must be signed by the key in it, got another signature: it was changed",
        ),
        (
            {"certificate_request": Requested.created("clinic-1").key.decode()},
            "changed.request must hold no private key, got one in certificate_request: it stays where it was made",
        ),
        ({"certificate_request": "x" * (1 << 14)}, "the request must have at most 16384 bytes, got "),
    ],
)
def test_a_request_that_was_changed_on_its_way(run: Run, changes: dict[str, Any], message: str):
    changed = edited("requests/clinic-1.request", **changes)
    line = refusal(run, *KIT[:3], "--requests", changed, "--out", "kits", "--broker", "broker")
    assert line.startswith(message)
    assert not Path("kits").exists() and files("broker/parties") == []


@pytest.mark.usefixtures("asked")
def test_requests_that_do_not_fit_admit_nobody(run: Run):
    requests = Path("requests")
    (requests / "server.request").rename("server.request")
    assert refusal(run, *KIT) == "the requests must have the server's, got none: codedfl server enrol writes it"
    Path("server.request").rename(requests / "server.request")
    (requests / "clinic-2.request").rename("clinic-2.request")
    assert refusal(run, *KIT) == "owners must be at least colluders + 2 (3), got 2"
    (requests / "again.request").write_bytes((requests / "clinic-1.request").read_bytes())
    assert refusal(run, *KIT).startswith("each party must send one request, got two of 'clinic-1': ")
    (requests / "again.request").unlink()
    Path("clinic-2.request").rename(requests / "clinic-2.request")
    assert files("broker/parties") == []
    said(run, *KIT)
    assert refusal(run, *KIT[:2], "kits/study.toml", *KIT[3:]) == (
        "--roster must be given for a study that names one, got none"
    )
    thief = Identity.generate()
    EnrolmentRequest.signed("clinic-1", thief, Requested.created("clinic-1").request.decode()).save(
        Path("thief.request")
    )
    known = load_enrolment(requests / "clinic-1.request").key
    given = ("--requests", "thief.request", "--roster", "kits/roster.toml", "--broker", "broker", "--out", "kits")
    line = refusal(run, "study", "kit", "kits/study.toml", *given)
    assert line.startswith(f"the request of 'clinic-1' must be signed by the key that is known, {fingerprint(known)},")
    assert line.endswith(": codedfl roster renew takes a new one, for a new edition")


@pytest.mark.usefixtures("asked")
def test_a_roster_of_requests(run: Run):
    assert run("roster", "new", "requests").exit_code == 0
    told = run("roster", "show", "roster.toml").stdout
    assert [line.split()[0] for line in told.splitlines()[1:-1]] == [*NAMES]
    said(run, "site", "enrol", "clinic-1", "--state", "lost-and-new")
    assert run("roster", "renew", "roster.toml", "clinic-1.request", "--out", "new.toml").exit_code == 0
    assert (
        refusal(run, "roster", "renew", "roster.toml", "requests")
        == "the request must be a readable file, got 'requests'"
    )


@pytest.mark.usefixtures("asked")
def test_a_hosted_broker_signs_the_same_requests(run: Run):
    """Its operator has an authority of his own; here it is another folder."""
    theirs, certificates = BrokerFolder.create(Path("theirs").absolute(), ["hosted.example"]), Path("certificates")
    certificates.mkdir()
    Path("their-ca.pem").write_text(theirs.authority)
    at = ("--broker", "mqtts://hosted.example", "--ca", "their-ca.pem", "--certificates", "certificates")
    hosted = (*KIT[:5], *at, "--out", "kits")
    assert refusal(run, *hosted) == "--certificates must have clinic-0.pem, got no such file in 'certificates'"
    for path in files("requests"):
        asked = load_enrolment(path)
        (certificates / f"{asked.name}.pem").write_text(theirs.admit(asked.name, asked.request))
    said(run, *hosted)
    kit = load_kit(Path("kits/clinic-1.kit"))
    assert (kit.broker, kit.authority) == ("mqtts://hosted.example", theirs.authority)
    assert (
        BrokerAddress.laid_out(kit.broker, kit.authority, kit.certificate, Path("at-clinic-1/clinic-1/tls")).named()[0]
        == "clinic-1"
    )
    (certificates / "clinic-1.pem").write_bytes((certificates / "clinic-2.pem").read_bytes())
    assert refusal(run, *hosted) == (
        "certificates/clinic-1.pem must be for the key of the request of 'clinic-1', got one for another key"
    )
    assert refusal(run, *KIT, "--ca", "their-ca.pem") == (
        "--ca must be left out with the folder of a broker, got their-ca.pem"
    )


@pytest.mark.usefixtures("asked")
def test_an_authority_with_its_private_key_is_not_sent_around(run: Run):
    ca = Path("broker/ca.pem").read_text() + Path("broker/ca.key").read_text()
    Path("both.pem").write_text(ca)
    given = (*KIT[:5], "--broker", "mqtts://hosted.example", "--ca", "both.pem", "--out", "kits")
    assert refusal(run, *given) == (
        "clinic-0.kit must hold no private key, got one in authority: it stays where it was made"
    )
    assert not [path for path in files("kits") if b"PRIVATE KEY" in path.read_bytes()]


@pytest.mark.usefixtures("asked")
def test_enrolling_again_keeps_the_key_that_a_site_is_known_by(run: Run):
    first = load_enrolment(Path("requests/clinic-1.request"))
    said(run, "site", "enrol", "clinic-1", "--state", "at-clinic-1")
    again = load_enrolment(Path("clinic-1.request"))
    assert (first.key, first.name) == (again.key, again.name) and first.request != again.request
    assert refusal(run, "site", "enrol", "codedfl-server") == (
        "the device's name must not be that of the server, got 'codedfl-server'"
    )
