"""docs/protocol.md is what the specification makes, and names every request, field and code that the package has."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

from codedfl.sum import wire
from experiments import docs_protocol
from spec import device, numbers, secrets, server, study
from spec import wire as of_spec

SCREEN = 50  # lines


def test_the_page_is_what_the_specification_makes() -> None:
    assert docs_protocol.PAGE.read_text(encoding="utf-8") == docs_protocol.page()


def test_every_request_and_all_that_it_has_is_on_it() -> None:
    page = docs_protocol.page()
    assert [*wire.KINDS] == [*of_spec.KINDS]
    for kind, (common, own) in wire.KINDS.items():
        assert f"| `{kind}` |" in page
        assert [*common.__struct_fields__] == [*of_spec.KINDS[kind][0]]
        assert [*own.__struct_fields__] == [*of_spec.KINDS[kind][1]]


def test_replies_have_the_fields_of_the_package() -> None:
    assert [*of_spec.REQUEST] == [*wire.Request.__struct_fields__]
    assert [*of_spec.REPLY] == [*wire.Reply.__struct_fields__]
    sealed = {"draw": wire.Drawn, "upload": wire.Uploaded, "answer": wire.Answered, "certify": wire.Answered}
    for kind, (_, _, shape) in of_spec.KINDS.items():
        assert [*shape] == [*sealed.get(kind, wire.Nothing).__struct_fields__]


def test_every_code_is_on_it() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(wire.__file__).parent.glob("*.py"))
    codes = set(re.findall(r'Refused\(\s*"(\w+)"', source))
    assert codes >= {"study", "rows", "budget"} and all(f"| `{code}` |" in docs_protocol.page() for code in codes)


def test_what_a_device_understands_fits_one_screen() -> None:
    assert len(docs_protocol.shapes().splitlines()) <= SCREEN


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
    modules = [numbers, secrets, study, of_spec, device, server]
    ours = {name for one in modules for name, value in vars(one).items() if inspect.isfunction(value)}
    assert names & {name for name in ours if not hasattr(dataclasses, name)} <= shown
