"""Nodes as Flower runs them, and a grid in this process: every message goes through records to the client app."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from experiments.federation import node_configs, server_config
from experiments.local_study import LocalStudy, agree
from flwr.app import Context, Message, RecordDict
from sklearn.datasets import load_diabetes

from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.flower.client import make_client_app
from codedfl.flower.records import HELLO, Hello
from codedfl.run.rehearsal import dealt_out

DEVICES = 5
RUN_CONFIG = {"study-file": "/no/such/study.toml"}  # the server's own: a node must not look at it


def diabetes_tables() -> dict[str, RawTable]:
    data = load_diabetes()
    columns = {str(column): data.data[:, j] for j, column in enumerate(data.feature_names)}
    table = as_raw_table({**columns, "outcome": data.target}, "table.csv")
    return dealt_out(table, DEVICES, np.random.default_rng(0))


def diabetes_study(tables: dict[str, RawTable]) -> dict[str, Any]:
    """As drafted from one device's table, with wide ranges, a score and standard errors."""
    table = tables["device-0"]
    content = tomllib.loads(study_text(draft_of_table(table, "outcome", "stays", task="regression")))
    for column in content["column"]:
        column.update(range=[-0.25, 0.25], step=1e-5)
    content["target"].update(range=[0, 400], step=1.0)
    content["result"] = {"held_out": 0.4, "inference": True}
    return {key: value for key, value in content.items() if key != "format"}


@dataclass
class Node:
    """One node by its own configuration; a message starts its app anew."""

    config: dict[str, Any]
    context: Context = field(init=False)

    def greet(self, hello: Hello) -> RecordDict:
        return self.answer(Message(hello.record(), 2, HELLO), "1").content

    def answer(self, message: Message, number: str) -> Message:
        message.metadata.__dict__["_message_id"] = number
        self.context = Context(1, 2, dict(self.config), RecordDict(), dict(RUN_CONFIG))
        return make_client_app()(message, self.context)


@dataclass
class NodesGrid:
    """A ``Grid`` whose nodes answer when their reply is asked for."""

    nodes: dict[int, Node]
    sent: dict[str, tuple[int, Message]] = field(default_factory=dict)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            number = f"call-{len(self.sent)}"
            self.sent[number] = (message.metadata.dst_node_id, message)
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers: Iterable[str]) -> Iterable[Message]:
        found = [(number, *self.sent[number]) for number in numbers]
        return [self.nodes[node].answer(message, number) for number, node, message in found if node in self.nodes]


@dataclass
class Machines:
    """A study that all nodes approved."""

    folder: Path
    made: LocalStudy = field(init=False)

    def __post_init__(self) -> None:
        tables = diabetes_tables()
        self.made = agree(self.folder / "study", diabetes_study(tables), tables)
        self.nodes = {100 + place: Node(config) for place, config in enumerate(node_configs(self.made))}
        self.grid = NodesGrid(self.nodes)

    @property
    def output(self) -> Path:
        return self.folder / "server"

    def config(self, **patience: float) -> dict[str, Any]:
        return server_config(self.made, self.output, **patience)
