"""docs/protocol.md is what the specification makes, and names every message that the package has."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re

from codedfl.protocol.messages import Kind
from experiments import docs_protocol
from spec import coded_padded, fixed_point, numbers, parties, role_keys, secrets, wire


def test_the_page_is_what_the_specification_makes() -> None:
    assert docs_protocol.PAGE.read_text(encoding="utf-8") == docs_protocol.page()


def test_every_message_is_on_it() -> None:
    page = docs_protocol.page()
    assert not [kind for kind in Kind if f"`{kind}`" not in page]


def test_every_function_that_its_code_calls_is_on_it() -> None:
    """Whoever has the page alone finds what each line of it means."""
    code = "\n\n".join(
        re.findall(r'```python title="from the specification"\n(.*?)```', docs_protocol.page(), re.DOTALL)
    )
    nodes = [*ast.walk(ast.parse(code))]
    shown = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    names = {one.id for one in called if isinstance(one, ast.Name)}
    names |= {one.attr for one in called if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)}
    modules = [numbers, fixed_point, secrets, wire, parties, coded_padded, role_keys]
    ours = {name for one in modules for name, value in vars(one).items() if inspect.isfunction(value)}
    assert names & {name for name in ours if not hasattr(dataclasses, name)} <= shown
