"""Writes `cometmq/blocking/__init__.pyi`: `python -m tests.sdk.blocking_stub`.

The stub follows from the same declaration as the classes themselves: the signatures are those of the asynchronous
classes, read from their source, with `async` taken out of them.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from cometmq import blocking
from cometmq.client import message

STUB = Path(blocking.__file__).with_suffix(".pyi")
ATTRIBUTES = {"group": "str", "sent": "int", "topic": "str"}  # those whose source has no annotation
HEAD = '"""Derived from the asynchronous classes by `python -m tests.sdk.blocking_stub`; do not edit."""\n'
RENAMED = {"AsyncGenerator": "Generator", "AbstractAsyncContextManager": "AbstractContextManager"}
DERIVED = {"ReceivedMessage", *blocking.DECLARED}
ENTER = "def __enter__(self) -> Self: ..."
EXIT = (
    "def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None)"
    " -> None: ..."
)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))


class Writer:
    """Collects what the signatures name: imports, and aliases that speak of messages."""

    def __init__(self) -> None:
        self.imports: set[tuple[str, str]] = {
            ("typing", "Self"),
            ("types", "TracebackType"),
        }
        self.aliases: dict[str, str] = {}

    def text(self, node: ast.expr, module: str) -> str:
        """An annotation as it stands in the stub."""
        node = Translate(self, module).visit(ast.parse(ast.unparse(node), mode="eval").body)
        return ast.unparse(node)

    def name(self, name: str, module: str) -> None:
        """See to it that a name of a module means something in the stub."""
        if name in DERIVED or hasattr(builtins, name) or name in self.aliases:
            return
        for node in tree_of(module).body:
            block = node.body if isinstance(node, ast.If) else [node]
            for inner in block:
                if isinstance(inner, ast.ImportFrom) and inner.module and any(a.name == name for a in inner.names):
                    if inner.module.startswith("cometmq.client"):
                        self.name(name, inner.module)
                    else:
                        self.imports.add((inner.module, name))
                    return
                if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == name:
                    self.aliases[name] = ""  # keeps one that names itself from going round
                    self.aliases[name] = f"{name} = {self.text(inner.value, module)}"
                    return
                if isinstance(inner, ast.ClassDef) and inner.name == name:
                    self.imports.add((module, name))
                    return
        raise LookupError(f"{module} has no {name}")


class Translate(ast.NodeTransformer):
    """Takes `async` out of an annotation."""

    def __init__(self, writer: Writer, module: str) -> None:
        self.writer = writer
        self.module = module

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):  # a forward reference
            return self.visit(ast.parse(node.value, mode="eval").body)  # type: ignore[no-any-return]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        text = ast.unparse(node)
        if text == "asyncio.Future":
            self.writer.imports.add(("concurrent.futures", "Future"))
            return ast.Name("Future")
        module, _, name = text.rpartition(".")
        self.writer.imports.add((module, name))
        return ast.Name(name)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "AsyncGenerator":
            found = self.visit(node.slice.elts[0])  # type: ignore[attr-defined]
            self.writer.imports.add(("collections.abc", "Generator"))
            return ast.parse(f"Generator[{ast.unparse(found)}]", mode="eval").body
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in RENAMED:
            self.writer.imports.add(("contextlib", RENAMED[node.id]))
            return ast.Name(RENAMED[node.id])
        self.writer.name(node.id, self.module)
        return node


def function(writer: Writer, node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> str:
    arguments = ast.parse(ast.unparse(node.args).join(["def f(", "): ..."])).body[0].args  # type: ignore[attr-defined]
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for one in listed:
        if one is not None and one.annotation is not None:
            one.annotation = ast.Name(writer.text(one.annotation, module))
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [None if default is None else ast.Constant(...) for default in arguments.kw_defaults]
    returns = writer.text(node.returns, module) if node.returns is not None else "None"
    mark = "@property\n    " if any(ast.unparse(one) == "property" for one in node.decorator_list) else ""
    return f"{mark}def {node.name}({ast.unparse(arguments)}) -> {returns}: ..."


def attribute(writer: Writer, node: ast.ClassDef, name: str, module: str) -> str:
    if name in ATTRIBUTES:
        return f"{name}: {ATTRIBUTES[name]}"
    for inner in ast.walk(node):
        if isinstance(inner, ast.AnnAssign) and ast.unparse(inner.target) == f"self.{name}":
            return f"{name}: {writer.text(inner.annotation, module)}"
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            for argument in inner.args.args:  # one that is kept as it was given
                if argument.arg == name and argument.annotation is not None:
                    return f"{name}: {writer.text(argument.annotation, module)}"
    raise LookupError(f"say in ATTRIBUTES what {node.name}.{name} is")


def class_text(writer: Writer, name: str, source: type, offers: list[str]) -> str:
    module = source.__module__
    (node,) = [one for one in tree_of(module).body if isinstance(one, ast.ClassDef) and one.name == source.__name__]
    functions: dict[str, Any] = {
        one.name: one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    lines = [f"class {name}:"]
    if "start" in offers:
        lines.append(f"    {function(writer, functions['__init__'], module)}")
    for offered in offers:
        found = functions.get(offered)
        text = function(writer, found, module) if found else attribute(writer, node, offered, module)
        lines.append(f"    {text}")
    if "__aenter__" in functions:
        lines += [f"    {ENTER}", f"    {EXIT}"]
    return "\n".join(lines)


def render() -> str:
    writer = Writer()
    received = message.ReceivedMessage
    public = [name for name in dir(received) if name[0] != "_" and name != "deliverer"]
    classes = [class_text(writer, "ReceivedMessage", received, public)]
    for name, (source, offers) in blocking.DECLARED.items():
        classes.append(class_text(writer, name, source, offers.split()))
    imports = [f"from {module} import {name}" for module, name in sorted(writer.imports)]
    parts = [HEAD, *imports, *writer.aliases.values(), *classes, f"__all__ = {sorted(DERIVED)}"]
    text = "\n".join(parts)
    for command in (["check", "--fix", "-q", "--select", "I"], ["format", "-q"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(render(), encoding="utf-8")
