"""skops' description of a model: made small when a file is written, looked through when one is read.

It is a tree of parts, each with a kind, a name, and parts inside. skops describes an object in full wherever it is
referred to, though it makes it but once; here it is described once, and then by number.
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
    MOVED,
    OBJECT,
    PARTIAL,
    TRUSTED,
)

REFERENCE = "CachedNode"
PROTOCOL = 2  # of skops' format; older ones describe functions in a way of their own
MAX_UNPACKED_BYTES = 4 * 2**30  # far more than a model has, less than many a machine
_ALONE = Lock()  # while skops is asked to do otherwise than it does
MAX_PARTS = 10_000_000  # with everything that is referred to counted each time, as skops will look at it


def parts_of(schema: Any) -> Any:
    """Yield every part, in the order in which they are written."""
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
    """Give parts whose classes moved the names that these have today; return whether there were any."""
    found = False
    for part in parts_of(schema):
        name = MOVED.get(_name(part)) if "__module__" in part and "__class__" in part else None
        if name is not None:
            part["__module__"], _, part["__class__"] = name.rpartition(".")
            found = True
    return found


def shrink(schema: Any, renamed: dict[str, str]) -> Any:
    """Return the description with each object written once, members called by their new names, no places in memory."""
    counts = Counter(part.get("__id__") for part in parts_of(schema) if part["__loader__"] in (OBJECT, REFERENCE))
    numbers: dict[int, int] = {}

    def small(value: Any) -> Any:
        if isinstance(value, list):
            return [small(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "__loader__" not in value:
            return {key: small(item) for key, item in value.items()}
        place: Any = value.get("__id__")
        if place in numbers and value["__loader__"] in (OBJECT, REFERENCE):
            named = {key: value[key] for key in ("__class__", "__module__")}
            return {**named, "__loader__": REFERENCE, "__id__": numbers[place]}
        kept = {key: item for key, item in value.items() if key != "__id__"}
        if "file" in kept:
            kept["file"] = renamed[kept["file"]]
        if value["__loader__"] == OBJECT and counts[place] > 1:
            numbers[place] = len(numbers) + 1  # from 1: skops takes 0 for none
            kept["__id__"] = numbers[place]
        return {key: small(item) for key, item in kept.items()}

    return small(schema)


@contextmanager
def described_once() -> Iterator[None]:
    """Have skops describe each object once, and without indents: vectorisers refer to each of their parts many times.

    Another version of skops, whose insides are not these, may do as it likes: `shrink` finds what is there twice.
    """
    persist = need("skops.io._persist", "Saving a model", "tool")
    known: dict[int, dict[str, Any]] = {}  # by the places of objects, which skops keeps until it is done
    with _ALONE:
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
def audited_once() -> Iterator[None]:
    """Have skops look at each part once: a vectoriser of 1,000 columns refers to each of its parts many times.

    The set of names that a part and all inside it need is kept with the part, so that what skops finds is the same.
    Another version of skops, whose insides are not these, does as it likes, and takes longer.
    """
    node: Any = getattr(need("skops.io._audit", "A model file", "tool"), "Node", None)
    plain = getattr(node, "get_unsafe_set", None)
    if plain is None:
        yield
        return
    found: dict[int, tuple[Any, set[str]]] = {}  # with the part, so that no other takes its place in memory

    def once(part: Any) -> set[str]:
        if id(part) not in found and not hasattr(part, "_computing_unsafe_set"):
            found[id(part)] = part, plain(part)
        return set(found[id(part)][1]) if id(part) in found else set()

    with _ALONE:
        node.get_unsafe_set = once
        try:
            yield
        finally:
            node.get_unsafe_set = plain


class Audit:
    """One walk over a description: what it names that is not on the list, and how much it would come to.

    Whatever looks like a part is judged, also where skops would never look.
    """

    def __init__(self, schema: Any, sizes: dict[str, int]) -> None:
        self.sizes, self.refused, self.bytes = sizes, set[str](), 0
        self._parts_of_number: dict[int, int] = {}
        self._defined: set[int] = set()
        if not isinstance(schema["protocol"], int) or schema["protocol"] < PROTOCOL:
            raise ValueError(f"protocol {schema['protocol']!r}")
        self.n_parts = self._walk(schema)
        if self.n_parts > MAX_PARTS or self.bytes > MAX_UNPACKED_BYTES:
            raise ValueError(f"it would come to {self.n_parts:,} parts and {self.bytes:,} bytes")

    def _walk(self, value: Any) -> int:
        """Return how many parts there are, those behind a reference included."""
        if isinstance(value, list):
            return sum(map(self._walk, value))
        if not isinstance(value, dict):
            return 0
        if "__loader__" not in value:
            return sum(map(self._walk, value.values()))
        if value["__loader__"] == REFERENCE:  # to what has been described in full before: none goes in a circle
            return self._parts_of_number[value["__id__"]]
        number = self._number(value)
        self._judge(value)
        found = 1 + sum(map(self._walk, value.values()))
        if number is not None:
            self._parts_of_number[number] = found
        return found

    def _number(self, part: dict[str, Any]) -> int | None:
        number = part.get("__id__")
        if number is None:
            return None
        if type(number) is not int or number in self._defined or part["__loader__"] != OBJECT:
            raise ValueError(f"the number {number!r} is taken or out of place")
        self._defined.add(number)
        return number

    def _judge(self, part: dict[str, Any]) -> None:
        kind, name = part["__loader__"], f"{part['__module__']}.{part['__class__']}"
        if kind == METHOD:
            name += f".{part['content']['func']}"
        otherwise = kind if kind in KINDS - LISTED_KINDS else None  # then skops has a list of its own
        if TRUSTED.get(name, otherwise) != kind:
            self.refused.add(f"{name} as a {kind.removesuffix('Node')}")
        if kind == PARTIAL and _name(part["content"]["func"]) != IN_PARTIAL:
            self.refused.add(_name(part["content"]["func"]))
        if kind == "RandomGeneratorNode":
            self._judge_generator(part["content"]["bit_generator"]["content"]["bit_generator"])
        if kind == "DictNode" and any("bool" in _name(key) for key in part["key_types"]["content"]):
            self.refused.add("a dict with truth values as keys")  # skops reads "false" as true
        if "file" in part:
            self.bytes += self.sizes[part["file"]]

    def _judge_generator(self, named: dict[str, Any]) -> None:
        """Refuse what is no bit generator: skops calls what is named here, and older versions call whatever it is."""
        name = json.loads(named["content"])
        if named["__loader__"] != "JsonNode" or name not in BIT_GENERATORS:
            self.refused.add(f"numpy.random.{name}")


def _name(part: dict[str, Any]) -> str:
    return f"{part['__module__']}.{part['__class__']}"
