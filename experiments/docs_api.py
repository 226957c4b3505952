"""Pages of the public names, one for each folder that they live in, with signatures that fit a narrow screen.

``experiments.docs_reference`` writes them. A signature has one parameter a line; types lose the modules that they come
from, and arrays their numbers. A class lists its methods with their first sentences.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import codedfl
import codedfl_lab

FOLDER = "reference/api"
MOST_COLUMNS = 80  # of a signature's line
_ONE_LINE = 60
_LONG_DEFAULT = 24
_ARRAY = re.compile(r"(?:ndarray|NDArray)\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]")


def api_pages(markdown: Callable[[str], str]) -> dict[str, str]:
    """Path in the site -> Markdown; ``markdown`` turns a docstring into it."""
    folders = list(homes())
    found = {f"{FOLDER}/index.md": _index(folders, markdown)}
    for folder, things in folders:
        lines = [f"# {folder}", "", markdown(_about(folder)), ""]
        for name, thing in things.items():
            lines += [f"## {name}", "", *_signature_block(name, thing), markdown(inspect.getdoc(thing) or ""), ""]
            lines += [*_methods(thing, markdown)]
        found[f"{FOLDER}/{page_of(folder)}"] = "\n".join(lines).rstrip() + "\n"
    return found


def page_of(folder: str) -> str:
    """The file of a folder's page; no dots, which would read as a name of Python."""
    return f"{folder.replace('.', '-')}.md"


def homes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each folder with the public names in it, in the order of the data flow."""
    for package in (codedfl, codedfl_lab):
        found: dict[str, dict[str, Any]] = {}
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(".".join(thing.__module__.split(".")[:2]), {})[name] = thing
        yield from found.items()


def short_signature(name: str, thing: Any, most: int = _ONE_LINE) -> str:
    """As it is called, on one line or with one parameter a line.

    >>> from codedfl import make_solver
    >>> print(short_signature("make_solver", make_solver))
    make_solver(kind: str, settings: SolverSettings) -> Solver
    """
    signature = inspect.signature(thing)
    parts, before = [], None
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            parts.append("*")
        parts.append(_parameter(one))
        before = one.kind
    returned = signature.return_annotation
    end = "" if returned in (inspect.Signature.empty, None, "None") else f" -> {_type(returned)}"
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= most or not parts:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])


def _parameter(one: inspect.Parameter) -> str:
    text = _named(one)
    kind = "" if one.annotation is one.empty else _type(one.annotation)
    text += f": {kind}" if kind and len(kind) + len(text) < MOST_COLUMNS - 24 else ""
    if one.default is one.empty:
        return text
    default = repr(one.default)
    if len(default) > _LONG_DEFAULT or " at 0x" in default or default.startswith("<"):
        default = "..."
    return f"{text} = {default}" if ": " in text else f"{text}={default}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text.replace("'", '"'))
    text = re.sub(r"\b(?:Floats|Singles)\b", "Array", _ARRAY.sub("Array", text))
    kinds = text.split(" | ")
    return " | ".join(dict.fromkeys(kinds)) if "[" not in text else text


def _signature_block(name: str, thing: Any) -> list[str]:
    if getattr(thing, "_is_protocol", False):
        return ["A protocol: whatever has these attributes and methods.", ""]
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return []
    return ["```py", short_signature(name, thing), "```", ""]


def _methods(thing: Any, markdown: Callable[[str], str]) -> list[str]:
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return []
    lines = []
    for name in dir(thing):
        found = inspect.getattr_static(thing, name)
        method = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if name.startswith("_") or not inspect.isfunction(method) or not method.__module__.startswith("codedfl"):
            continue
        said = (inspect.getdoc(getattr(thing, name)) or "").split("\n\n")[0]
        names = ", ".join(_named(one) for one in inspect.signature(method).parameters.values() if one.name != "self")
        shown = names.removeprefix("cls, ") if isinstance(found, classmethod) else names
        lines.append(f"- `{name}({shown})`{': ' if said else ''}{' '.join(markdown(said).split())}")
    return ["**Methods**", "", *lines, ""] if lines else []


def _named(one: inspect.Parameter) -> str:
    if one.kind is one.VAR_POSITIONAL:
        return f"*{one.name}"
    return f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name


def _about(folder: str) -> str:
    package = __import__(folder, fromlist=["_"])
    assert isinstance(package, ModuleType)
    return (inspect.getdoc(package) or "").split("\n\n")[0]


def _index(folders: list[tuple[str, dict[str, Any]]], markdown: Callable[[str], str]) -> str:
    lines = [
        "# Python",
        "",
        "What `import codedfl` and `import codedfl_lab` offer, in the order in which data flow. Each name is loaded"
        " when it is first used, and each has an example, which is run by the tests.",
        "",
    ]
    for folder, things in folders:
        lines += [f"## [{folder}]({page_of(folder)})", "", "| name | what it is |", "|---|---|"]
        for name, thing in things.items():
            said = " ".join(markdown((inspect.getdoc(thing) or "").split("\n\n")[0]).split()).replace("|", "\\|")
            lines.append(f"| [`{name}`]({page_of(folder)}#{name.lower()}) | {said} |")
        lines.append("")
    return "\n".join(lines)
