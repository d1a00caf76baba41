"""The changes of a file that some test should notice, and the blocks in which they lie.

A block is what a function runs from top to bottom: its body, a branch, a loop. Its number is its
first line; what runs when a module is imported is block 0.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from textwrap import shorten
from typing import Any, NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES = ("body", "orelse", "finalbody")
_TYPES = ("annotation", "returns", "decorator_list")
_SPEAKING = ("print", "say", "log")
_TEXTS = ("help", "description", "metavar")
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class _Place(NamedTuple):
    """A node, what replaces it, and where it is; `chosen`: in a module's constant, or a timeout."""

    node: Any
    put: Callable[[ast.AST], None]
    parent: ast.AST
    field: str
    block: int
    chosen: bool


@dataclass(frozen=True)
class Change:
    """One change of a file: as code, before and after; `index`: which of all of the file's."""

    path: str
    line: int
    before: str
    after: str
    block: int
    index: int
    # Stays the same as long as the changed code does.
    identity: str

    def __str__(self) -> str:
        before, after = shorten(self.before, 100), shorten(self.after, 100)
        return f"{self.path}:{self.line}  {before}  →  {after}"


def changes(path: str, source: str) -> list[Change]:
    """Find all changes of a file."""
    alike: Counter[str] = Counter()
    found = []
    for index, (place, new) in enumerate(_replacements(ast.parse(source))):
        before, after = _text(place.node), _text(new)
        identity = f"{path} {before} {after}"
        alike[identity] += 1
        identity += f" {alike[identity]}"
        line = place.node.lineno
        found.append(Change(path, line, before, after, place.block, index, identity))
    return found


def changed(source: str, change: Change) -> str:
    """Make one of the changes of a file."""
    tree = ast.parse(source)
    place, new = next(islice(_replacements(tree), change.index, None))
    place.put(new)
    return ast.unparse(tree)


def marked(source: str, definition: str) -> str:
    """Have every block of a file call `_mark_` with its number; `definition` says what that is."""
    tree = ast.parse(source)
    bodies = {
        body[0].lineno: body
        for node in ast.walk(tree)
        for name in _BODIES
        if isinstance(body := getattr(node, name, None), list) and body
    }
    for block in {place.block for place in _places(tree)} - {0}:
        _insert(bodies[block], f"_mark_({block})")
    _insert(tree.body, f"{definition}\n_mark_(0)")
    return ast.unparse(tree)


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _insert(body: list[ast.stmt], code: str) -> None:
    """Put code at the top of a body, below a docstring and imports from the future."""
    at = 0
    for statement in body:
        match statement:
            case ast.Expr(ast.Constant()) | ast.ImportFrom(module="__future__"):
                at += 1
            case _:
                break
    body[at:at] = ast.parse(code).body


def _places(parent: ast.AST, block: int = 0, chosen: bool = False) -> Iterator[_Place]:
    match parent:
        case ast.Assign() if not block:
            chosen = True
        case ast.keyword(arg="timeout"):
            chosen = True
        case ast.Lambda():
            chosen = False
    opens = isinstance(parent, _FUNCTIONS) or (block and not isinstance(parent, ast.ClassDef))
    for field, value in ast.iter_fields(parent):
        if field in _TYPES:
            continue
        many = isinstance(value, list)
        inner = value[0].lineno if opens and field in _BODIES and many and value else block
        for index, child in enumerate(value if many else [value]):
            if isinstance(child, ast.AST):
                put = partial(value.__setitem__, index) if many else partial(setattr, parent, field)
                yield _Place(child, put, parent, field, inner, chosen)
                if not _is_silent(child):
                    yield from _places(child, inner, chosen)


def _is_silent(node: ast.AST) -> bool:
    """Whether what is below a node makes a text for people, or runs in no test."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
            return name in _SPEAKING
        case ast.If(ast.Compare(ast.Name("__name__")) | ast.Name("TYPE_CHECKING")):
            return True
    return False


def _replacements(tree: ast.AST) -> Iterator[tuple[_Place, ast.AST]]:
    """Find the nodes that can be replaced, each with what it becomes."""
    for place in _places(tree):
        for new in _alternatives(place):
            yield place, new


def _alternatives(place: _Place) -> Iterator[ast.AST]:
    node = place.node
    if place.field in ("test", "ifs") and isinstance(node, ast.Name | ast.Attribute | ast.Call):
        yield ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.Compare(left, ops, others):
            for at, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:at], other(), *ops[at + 1 :]], others)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS and not _has_text(node):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)) if not place.chosen:
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.keyword(arg=str(name)) if name not in _TEXTS and not _makes(place.parent):
            yield ast.keyword(None, ast.Dict([], []))
        case ast.Return(ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call() as call) if not _is_silent(call):
            yield ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def _has_text(node: ast.AST) -> bool:
    """Whether an operand is a text or a list: then it is no arithmetic."""
    match node:
        case ast.Constant(str() | bytes()) | ast.JoinedStr() | ast.List() | ast.Tuple():
            return True
        case ast.BinOp(left, _, right):
            return _has_text(left) or _has_text(right)
    return False


def _makes(call: ast.AST) -> bool:
    """Whether a call makes an object: without one of its fields it would be a mere TypeError."""
    match call:
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
            return name[0].isupper() and name != "Field"
    return True
