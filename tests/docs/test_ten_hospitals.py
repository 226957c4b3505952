"""The page of ten hospitals, followed to its result: every command and every file that is sent is counted."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from experiments.docs_blocks import ROOT, Block, a_reader, blocks, commands, page_text, shortened, with_outputs

from codedfl.contract.kit import load_kit
from codedfl.contract.policy import Policy
from codedfl.crypto.certificates import read_request
from codedfl.data.model import TrainedModel
from codedfl.data.tables import read_file
from codedfl.run.rehearsal import Rehearsed, rehearse

PAGE = "ten-hospitals.md"
MOST_COMMANDS, MOST_FILES = 40, 25
HOSPITALS = [f"hospital-{number}" for number in range(10)]
THREE = ["site enrol", "site approve", "site join"]
_LOOP = re.compile(r"^for \w+ in ([^;]*); do\n(.*?)^done", re.MULTILINE | re.DOTALL)


def typed() -> list[Block]:
    return [one for one in blocks(page_text(PAGE)) if one.language == "sh" and one.is_run]


def unrolled(text: str) -> Iterator[str]:
    """A shell block with its loops written out."""
    end = 0
    for loop in _LOOP.finditer(text):
        yield text[end : loop.start()]
        yield from (loop[2].replace("$i", word) for word in loop[1].split())
        end = loop.end()
    yield text[end:]


def test_the_page_asks_for_at_most_so_many_commands_and_files():
    texts = [part for block in typed() for part in unrolled(block.text)]
    said = [words for text in texts for words in commands(text.replace("exec ", "").replace("(cd", "\n(cd"))]
    files = [line for text in texts for line in text.splitlines() if line.strip().startswith("cp ")]
    assert len(said) <= MOST_COMMANDS and len(files) <= MOST_FILES
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    assert f"{len(said)} commands and {len(files)} files" in page


class Followed(NamedTuple):
    """All machines in one folder; every command and every copy as (folder, words)."""

    here: Path
    typed: list[list[str]]
    sent: list[list[str]]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    top = tmp_path_factory.mktemp("ten")
    with a_reader(top) as reader:
        logs = {name: top / f"{name}.log" for name in ("codedfl", "cp")}
        runs = {"codedfl": f"{sys.executable} -m codedfl", "cp": "/bin/cp"}
        for name, log in logs.items():
            script = f'#!/bin/sh\nprintf "%s\\t%s\\n" "$PWD" "$*" >> {log}\nexec {runs[name]} "$@"\n'
            (top / "tools" / name).write_text(script)
            (top / "tools" / name).chmod(0o755)
        for block, below in with_outputs(page_text(PAGE)):
            said = shortened(reader.type(block))
            assert below is None or below.comparable(said) == below.comparable(below.text)
        found = {
            name: [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines()]
            for name, log in logs.items()
        }
        yield Followed(top / "here", found["codedfl"], found["cp"])


@pytest.mark.nightly
@pytest.mark.hospitals
class TestFollowed:
    def test_everything_is_counted(self, followed: Followed):
        said, sent = followed.typed, followed.sent
        assert len(said) <= MOST_COMMANDS and len(sent) <= MOST_FILES
        assert f"{len(said)} commands and {len(sent)} files" in (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
        by_machine = Counter((Path(folder).name, " ".join(words.split()[:2])) for folder, words in said)
        for name in HOSPITALS:
            own = {command: count for (machine, command), count in by_machine.items() if machine == name}
            own.pop("site check", None)  # one of them looks the day before
            assert own == dict.fromkeys(THREE, 1)

    def test_nothing_but_the_mail_goes_between_machines(self, followed: Followed):
        here, said, sent = followed.here, followed.typed, followed.sent
        for folder, words in said:
            assert Path(folder).parent == here and ".." not in words and " /" not in words, words
        copies = [line.split() for _, line in sent]
        came = {(Path(file).name, Path(to).parts[0]) for file, to in copies}
        for name in HOSPITALS:
            assert {file for file, to in came if to == name} == {f"{name}.kit"}
        assert {file for file, to in came if to == "coordinator"} == {f"{name}.request" for name in HOSPITALS}

    def test_private_keys_stay_where_they_were_made(self, followed: Followed):
        here, sent = followed.here, followed.sent
        secrets = {path: path.read_bytes() for path in here.rglob("*.key") if path.is_file()}
        assert Counter(path.relative_to(here).parts[0] for path in secrets) == {
            # long-term, of rows, and for the broker; the coordinator's: server, its certificate, broker and authority
            **dict.fromkeys(HOSPITALS, 3),
            "coordinator": 4,
        }
        assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
        for _, line in sent:
            content = (here / line.split()[0]).read_bytes()
            assert b"PRIVATE" not in content and not any(secret.strip() in content for secret in secrets.values())

    def test_the_model_is_that_of_all_rows(self, followed: Followed):
        here = followed.here
        kits = [load_kit(here / name / f"{name}.kit") for name in HOSPITALS]
        assert len({kit.fingerprint for kit in kits}) == 1
        ready = Rehearsed(kits[0].study, kits[0].roster)
        assert ready.approve({name: read_file(here / name / "table.csv") for name in HOSPITALS}, Policy()) == {}
        expected = rehearse(ready, np.random.default_rng(0)).findings
        model = TrainedModel.load(here / "coordinator" / "first-run" / "model.safetensors")
        assert np.array_equal(model.theta, expected.model.theta)

    def test_a_request_is_one_for_other_authorities_too(self, followed: Followed):
        """A hosted broker's operator has programs of his own, which look for PEM in a file."""
        file = followed.here / "coordinator" / "requests" / "hospital-3.request"
        read_request("hospital-3", file.read_bytes())
