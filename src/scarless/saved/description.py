"""skops' description of a model: shortened when a file is written, checked when a file is read.

The description is a tree of parts. Each part has a kind, a name, and inner parts. skops repeats the description of an
object wherever it is referenced, although it creates the object once. Here an object is described once, and referenced
by number.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import SimpleNamespace
from typing import Any

from scarless.outside.extras import need
from scarless.saved.trusted import (
    BIT_GENERATORS,
    IN_PARTIAL,
    KINDS,
    LISTED_KINDS,
    METHOD,
    MOVED_CLASSES,
    OBJECT,
    PARTIAL,
    TRUSTED,
)

REFERENCE = "CachedNode"
MIN_PROTOCOL = 2  # oldest supported version of skops' format; older versions describe functions differently
MAX_UNPACKED_BYTES = 4 * 2**30  # far more than a model needs, but less than the memory of many machines
_PATCHING = Lock()  # held while functions of skops are replaced
MAX_PARTS = 10_000_000  # referenced parts are counted each time, because skops visits them each time


def parts_of(schema: Any) -> Any:
    """Yield every part of a description, in its order."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def rename_moved(schema: Any) -> bool:
    """Replace the names of classes that moved by their current names; return whether any was replaced."""
    found = False
    for part in parts_of(schema):
        name = MOVED_CLASSES.get(_name(part)) if "__module__" in part and "__class__" in part else None
        if name is not None:
            part["__module__"], _, part["__class__"] = name.rpartition(".")
            found = True
    return found


def shrink(schema: Any, renamed: dict[str, str]) -> Any:
    """Return the description with each object written once, new names of members, and no memory addresses."""
    counts = Counter(part.get("__id__") for part in parts_of(schema) if part["__loader__"] in (OBJECT, REFERENCE))
    numbers: dict[int, int] = {}

    def shrunk(value: Any) -> Any:
        if isinstance(value, list):
            return [shrunk(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "__loader__" not in value:
            return {key: shrunk(item) for key, item in value.items()}
        address: Any = value.get("__id__")
        if address in numbers and value["__loader__"] in (OBJECT, REFERENCE):
            named = {key: value[key] for key in ("__class__", "__module__")}
            return {**named, "__loader__": REFERENCE, "__id__": numbers[address]}
        kept = {key: item for key, item in value.items() if key != "__id__"}
        if "file" in kept:
            kept["file"] = renamed[kept["file"]]
        if value["__loader__"] == OBJECT and counts[address] > 1:
            numbers[address] = len(numbers) + 1  # from 1, because skops treats 0 as no number
            kept["__id__"] = numbers[address]
        return {key: shrunk(item) for key, item in kept.items()}

    return shrunk(schema)


@contextmanager
def described_once() -> Iterator[None]:
    """Make skops describe each object once and without indents, because vectorisers reference their parts many times.

    If the internals of another version of skops differ, nothing is changed, and `shrink` removes the duplicates.
    """
    persist = need("skops.io._persist", "Saving a model", "tool")
    known: dict[int, dict[str, Any]] = {}  # by address; skops keeps the objects until it has finished
    with _PATCHING:
        dispatch: Any = getattr(persist, "_get_state", None)
        plain = getattr(persist, "json", None)
        if not hasattr(dispatch, "register") or plain is not json:
            yield
            return
        describe = dispatch.dispatch(object)

        def once(value: Any, context: Any) -> dict[str, Any]:
            if id(value) in known:
                return dict(known[id(value)])
            state: dict[str, Any] = describe(value, context)
            if state["__loader__"] == OBJECT:
                known[id(value)] = {**{key: state[key] for key in ("__class__", "__module__")}, "__loader__": REFERENCE}
            return state

        dispatch.register(object, once)
        persist.json = SimpleNamespace(**{**vars(json), "dumps": lambda value, **_: json.dumps(value)})
        try:
            yield
        finally:
            dispatch.register(object, describe)
            persist.json = plain


@contextmanager
def checked_once() -> Iterator[None]:
    """Make skops check each part once, because a vectoriser of 1,000 columns references its parts many times.

    The first check of a part stores the names that it and its inner parts need; later checks return the stored names.
    If the internals of another version of skops differ, nothing is changed, and the check takes longer.
    """
    node: Any = getattr(need("skops.io._audit", "A model file", "tool"), "Node", None)
    plain = getattr(node, "get_unsafe_set", None)
    if plain is None:
        yield
        return
    found: dict[int, tuple[Any, set[str]]] = {}  # holds the part too, so that its address is not reused

    def once(part: Any) -> set[str]:
        if id(part) not in found and not hasattr(part, "_computing_unsafe_set"):
            found[id(part)] = part, plain(part)
        return set(found[id(part)][1]) if id(part) in found else set()

    with _PATCHING:
        node.get_unsafe_set = once
        try:
            yield
        finally:
            node.get_unsafe_set = plain


class ModelTooLarge(ValueError):
    """A model with more parts or bytes than a model file may have."""


class DescriptionCheck:
    """Result of a check of a description: the names that are not trusted, and the size of the model.

    Everything that looks like a part is checked, even if skops would not read it.
    """

    def __init__(self, schema: Any, sizes: dict[str, int]) -> None:
        self.sizes, self.refused, self.bytes = sizes, set[str](), 0
        self._parts_of_number: dict[int, int] = {}
        self._defined: set[int] = set()
        if not isinstance(schema["protocol"], int) or schema["protocol"] < MIN_PROTOCOL:
            raise ValueError(
                f"its protocol must be a whole number of at least {MIN_PROTOCOL}; it is {schema['protocol']!r}"
            )
        self.n_parts = self._visit(schema)
        if self.n_parts > MAX_PARTS or self.bytes > MAX_UNPACKED_BYTES:
            raise ModelTooLarge(
                f"is too large: the model has {self.n_parts:,} parts and {self.bytes:,} bytes, but at most "
                f"{MAX_PARTS:,} parts and {MAX_UNPACKED_BYTES:,} bytes are allowed"
            )

    def _visit(self, value: Any) -> int:
        """Check a value, and return its number of parts, including referenced parts."""
        if isinstance(value, list):
            return sum(map(self._visit, value))
        if not isinstance(value, dict):
            return 0
        if "__loader__" not in value:
            return sum(map(self._visit, value.values()))
        if value["__loader__"] == REFERENCE:  # A reference to a later part raises KeyError, so there are no cycles.
            return self._parts_of_number[value["__id__"]]
        number = self._number(value)
        self._check(value)
        found = 1 + sum(map(self._visit, value.values()))
        if number is not None:
            self._parts_of_number[number] = found
        return found

    def _number(self, part: dict[str, Any]) -> int | None:
        number = part.get("__id__")
        if number is None:
            return None
        if type(number) is not int or number in self._defined or part["__loader__"] != OBJECT:
            raise ValueError(f"the object number {number!r} is used twice, or in a wrong place")
        self._defined.add(number)
        return number

    def _check(self, part: dict[str, Any]) -> None:
        kind, name = part["__loader__"], f"{part['__module__']}.{part['__class__']}"
        if kind == METHOD:
            name += f".{part['content']['func']}"
        otherwise = kind if kind in KINDS - LISTED_KINDS else None  # skops' own list applies to these kinds
        if TRUSTED.get(name, otherwise) != kind:
            self.refused.add(f"{name} as a {kind.removesuffix('Node')}")
        if kind == PARTIAL and _name(part["content"]["func"]) != IN_PARTIAL:
            self.refused.add(_name(part["content"]["func"]))
        if kind == "RandomGeneratorNode":
            self._check_generator(part["content"]["bit_generator"]["content"]["bit_generator"])
        if kind == "DictNode" and any("bool" in _name(key) for key in part["key_types"]["content"]):
            self.refused.add("a dict with booleans as keys")  # skops reads "false" as true
        if "file" in part:
            self.bytes += self.sizes[part["file"]]

    def _check_generator(self, named: dict[str, Any]) -> None:
        """Refuse a name that is not a bit generator, because older versions of skops call anything that is named."""
        name = json.loads(named["content"])
        if named["__loader__"] != "JsonNode" or name not in BIT_GENERATORS:
            self.refused.add(f"numpy.random.{name}")


def _name(part: dict[str, Any]) -> str:
    return f"{part['__module__']}.{part['__class__']}"
