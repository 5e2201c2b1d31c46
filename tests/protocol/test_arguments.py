"""Arguments: what goes out verbatim, what is encoded, and how everything else is refused.

The one claim behind the tables: `encode_arguments` gives one JSON object on one line, or InvalidArgumentsError
with a reason of one line; nothing else ever comes out of it.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
import sys
import types
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from trio_mcp.errors import InvalidArgumentsError
from trio_mcp.protocol.arguments import encode_arguments

BOM = b"\xef\xbb\xbf"


class Colour(enum.StrEnum):
    RED = "red"


class OldColour(str, enum.Enum):  # noqa: UP042 - what people wrote before there was StrEnum
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    ONE = 1


class Text(str):
    def __str__(self) -> str:
        return "not this"


class Number(int):
    def __repr__(self) -> str:
        return "not this"


class Real(float):
    def __repr__(self) -> str:
        return "not this"


class Row(collections.OrderedDict[str, Any]):
    pass


Point = collections.namedtuple("Point", "x y")


@attrs.frozen
class Model:
    a: int = 1


def shown(value: Any) -> str:
    """A test's id; an integer may be too long for a repr."""
    return "huge" if isinstance(value, int) and value > 10**100 else ascii(value)[:40]


def refusal(arguments: Any) -> str:
    with pytest.raises(InvalidArgumentsError) as caught:
        encode_arguments("x", arguments)
    assert caught.value.name == "x"
    assert str(caught.value) == f'arguments for "x" are not a JSON object: {caught.value.reason}'
    assert "\n" not in caught.value.reason
    assert "\r" not in caught.value.reason
    assert caught.value.__suppress_context__
    return caught.value.reason


def outcome(arguments: Any) -> bytes | InvalidArgumentsError:
    """What comes out, checked to be one line either way."""
    came: bytes | InvalidArgumentsError
    try:
        came = encode_arguments("x", arguments)
    except InvalidArgumentsError as error:
        came = error
    assert len((came if isinstance(came, bytes) else came.reason).splitlines()) == 1
    return came


# --- nothing


@pytest.mark.table(
    "arguments",
    [None, {}, "", b"", " ", "\t\r\n ", "\u00a0\u2003", b"\n", "null", b" null\r\n", bytearray(), memoryview(b"")],
    ids=shown,
)
def test_no_arguments_go_out_as_an_empty_object(arguments: Any) -> None:
    """Fault 32: null, absent and `{}` arguments. An object always goes out."""
    assert encode_arguments("x", arguments) == b"{}"


# --- mappings


@pytest.mark.table(
    ("arguments", "wire"),
    [
        ({"a": 1, "b": [True, None, "é", 1.5]}, '{"a":1,"b":[true,null,"é",1.5]}'.encode()),
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}'),
        ({"a": (1, ("b",))}, b'{"a":[1,["b"]]}'),
        ({"a": Point(1, 2)}, b'{"a":[1,2]}'),
        ({"a": 2**53 + 1, "b": 2**64}, b'{"a":9007199254740993,"b":18446744073709551616}'),
        ({"a": -(2**70)}, b'{"a":-1180591620717411303424}'),
        ({"a": 10**4000}, b'{"a":1' + b"0" * 4000 + b"}"),
        ({"a": -0.0, "b": 1e300, "c": 5e-324}, b'{"a":-0.0,"b":1e300,"c":5e-324}'),
        ({"": {"": {}}}, b'{"":{"":{}}}'),
        ({"a\n": "\r\n\u2028\x00\""}, b'{"a\\n":"\\r\\n\xe2\x80\xa8\\u0000\\""}'),
        ({"a": Colour.RED, "b": OldColour.RED, "c": Level.HIGH}, b'{"a":"red","b":"red","c":3}'),
        ({Colour.RED: 1, Text("t"): 2}, b'{"red":1,"t":2}'),
        ({"a": Text("t"), "b": Number(7), "c": Real(1.5)}, b'{"a":"t","b":7,"c":1.5}'),
        (types.MappingProxyType({"a": types.MappingProxyType({"b": 1})}), b'{"a":{"b":1}}'),
        (collections.ChainMap({"a": 1}), b'{"a":1}'),
        ({"a": collections.UserDict(b=1)}, b'{"a":{"b":1}}'),
        (Row(a=1), b'{"a":1}'),
    ],
    ids=shown,
)  # fmt: skip
def test_a_mapping_goes_out_as_one_object(arguments: Any, wire: bytes) -> None:
    """Fault 30: integers beyond 2^53 are exact. Any mapping will do; subclasses count as what they extend."""
    assert encode_arguments("x", arguments) == wire


@pytest.mark.table(
    ("value", "reason"),
    [
        (math.nan, "nan is no JSON number"),
        (math.inf, "inf is no JSON number"),
        (-math.inf, "-inf is no JSON number"),
        (Real("nan"), "nan is no JSON number"),
        (b"x", "bytes is no JSON value"),
        (bytearray(b"x"), "bytearray is no JSON value"),
        (memoryview(b"x"), "memoryview is no JSON value"),
        ({1}, "set is no JSON value"),
        (frozenset(), "frozenset is no JSON value"),
        (datetime.datetime(2026, 1, 1), "datetime is no JSON value"),
        (datetime.date(2026, 1, 1), "date is no JSON value"),
        (datetime.timedelta(1), "timedelta is no JSON value"),
        (decimal.Decimal("1.5"), "Decimal is no JSON value"),
        (Plain.ONE, "Plain is no JSON value"),
        (Model(), "Model is no JSON value"),
        (msgspec.Raw(b"1"), "Raw is no JSON value"),
        (collections.deque(), "deque is no JSON value"),
        (range(2), "range is no JSON value"),
        (object(), "object is no JSON value"),
        (1j, "complex is no JSON value"),
        (int, "type is no JSON value"),
        ("ab\ud800", "lone surrogate at character 2"),
        ({1: 2}, "a key is int, not str"),
        ({None: 2}, "a key is NoneType, not str"),
        ({True: 2}, "a key is bool, not str"),
        ({b"a": 2}, "a key is bytes, not str"),
        ({Level.HIGH: 2}, "a key is Level, not str"),
        ({"\udfff": 2}, "a key: lone surrogate at character 0"),
        (10**4300, "an integer of more than 4300 digits cannot be written out"),
    ],
    ids=shown,
)
@pytest.mark.table(
    ("where", "path"),
    [
        (lambda value: {"ok": 1, "a": value}, "a"),
        (lambda value: {"a": {"b": [0, 1, value]}}, "a.b[2]"),
        (lambda value: {"a": ({"b": (value,)},)}, "a[0].b[0]"),
        (lambda value: types.MappingProxyType({"a": collections.UserDict(b=value)}), "a.b"),
        (lambda value: {"a b": {'"\n': value}}, r'["a b"]["\"\n"]'),
    ],
    ids=["flat", "lists", "tuples", "mappings", "odd keys"],
)
def test_what_is_no_json_value_is_refused_with_its_place(value: Any, reason: str, where: Any, path: str) -> None:
    """Nothing is coerced: msgspec would send NaN as null, a set as a list and a key 1 as "1"."""
    assert refusal(where(value)) == f"{path}: {reason}"


def test_a_bad_key_at_the_top_is_named_without_a_place() -> None:
    assert refusal({1: 2}) == "a key is int, not str"


def test_the_place_in_a_refusal_is_clipped() -> None:
    value: Any = math.nan
    for _ in range(100):
        value = {"k" * 100: value}
    reason = refusal(value)
    assert reason.startswith("…")
    assert reason.endswith(f'"{"k" * 40}"]: nan is no JSON number')
    assert len(reason) < 300


@pytest.mark.parametrize("of", [list, tuple, dict, types.MappingProxyType])
@pytest.mark.parametrize("leaf", [1, math.nan])
def test_what_is_nested_too_deep_is_refused(of: Any, leaf: Any) -> None:
    value: Any = leaf
    for _ in range(20_000):
        value = {"a": value} if of is dict else of({"a": value}) if of is types.MappingProxyType else of([value])
    assert refusal({"a": value}) == "nested too deep, or containing itself"


def test_what_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"a": [1]}
    loop["a"].append(loop)
    assert refusal(loop) == "nested too deep, or containing itself"


@pytest.mark.slow
def test_at_every_depth_a_mapping_goes_out_or_is_refused() -> None:
    """Also at the depths where one of the walks just succeeds and the next one just does not."""
    limit = sys.getrecursionlimit()
    for leaf in (1, math.nan, Text("t")):
        outcomes = set()
        for depth in range(0, limit + 100, 7):
            value: Any = leaf
            for _ in range(depth):
                value = [value]
            try:
                encode_arguments("x", {"a": value})
                outcomes.add("sent")
            except InvalidArgumentsError as error:
                outcomes.add(error.reason.split(": ")[-1])
        assert "nested too deep, or containing itself" in outcomes
        assert len(outcomes) == 2


def test_the_same_value_may_stand_in_several_places() -> None:
    shared = [1]
    assert encode_arguments("x", {"a": shared, "b": [shared, shared]}) == b'{"a":[1],"b":[[1],[1]]}'


def test_the_callers_mapping_is_not_changed() -> None:
    arguments = {"a": (1, Text("t")), "b": {"c": [Level.HIGH]}}
    encode_arguments("x", arguments)
    assert arguments == {"a": (1, "t"), "b": {"c": [3]}}
    assert type(arguments["a"]) is tuple
    assert type(arguments["a"][1]) is Text


# --- raw text

VERBATIM = [
    '{"a":1}',
    '  { "a" :  1.10 , "b":1e2 }\t',
    '{"a":1,"a":2}',
    '{"n":123456789012345678901234567890.000}',
    '{"n":' + "9" * 5000 + "}",
    '{"n":[1e999,-0,-0.0,1E+2,5e-9999]}',
    '{"a":"\\u0041\\/\\ud83d\\ude00"}',
    '{"a":"\u2028\u2029\u0085\u00e9\U0001f600\x7f"}',
    '{"a":"\\n\\r"}',
    '{"a":[[[[[[]]]]]],"b":{"c":{}}}',
    '{"":null}',
]


@pytest.mark.table("text", VERBATIM, ids=shown)
def test_raw_json_goes_out_verbatim(text: str) -> None:
    data = text.encode()
    for arguments in (text, Text(text), data, bytearray(data), memoryview(data), memoryview(data)[::1]):
        sent = encode_arguments("x", arguments)
        assert type(sent) is bytes
        assert sent == data


@pytest.mark.table(
    ("text", "wire"),
    [
        ('{\n  "a": 1\n}\n', b'{   "a": 1 } '),
        ('\r\n{"a":\r\n[1,\r2]}\r', b'  {"a":  [1, 2]} '),
        ('{"a":"\\r\\n"\r}', b'{"a":"\\r\\n" }'),
    ],
)
def test_line_ends_between_tokens_become_spaces(text: str, wire: bytes) -> None:
    """A bare CR, too: official servers read stdin with universal newlines and would see two lines."""
    assert encode_arguments("x", text) == wire
    assert encode_arguments("x", text.encode()) == wire


@pytest.mark.table(
    ("arguments", "reason"),
    [
        ("[1]", "it is an array"),
        ('"a"', "it is a string"),
        ("1", "it is a number"),
        ("-1.5", "it is a number"),
        ("9" * 5000, "it is a number"),
        ("true", "it is a boolean"),
        ("[null]", "it is an array"),
        ("{}{}", "Extra data: line 1 column 3 (char 2)"),
        ("{} x", "Extra data: line 1 column 4 (char 3)"),
        ("{}\x00", "Extra data: line 1 column 3 (char 2)"),
        ("null null", "Extra data: line 1 column 6 (char 5)"),
        ("nul", "Expecting value: line 1 column 1 (char 0)"),
        ("\u00a0null", "Expecting value: line 1 column 1 (char 0)"),
        ("hello", "Expecting value: line 1 column 1 (char 0)"),
        ('{"a":1', "Expecting ',' delimiter: line 1 column 7 (char 6)"),
        ("{'a':1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"a":\n"b\n"}', "Invalid control character at: line 2 column 3 (char 8)"),
        ('{"a":"\r"}', "Invalid control character at: line 1 column 7 (char 6)"),
        ('{"a":NaN}', "NaN is no JSON number"),
        ('{"a":[1,Infinity]}', "Infinity is no JSON number"),
        ('{"a":-Infinity}', "-Infinity is no JSON number"),
        ("NaN", "NaN is no JSON number"),
        ('{"a":"\\ud800"}', "lone surrogate in an escape"),
        ('{"a":"\\udc00 and more"}', "lone surrogate in an escape"),
        ('{"\\ud800\\ud800":1}', "lone surrogate in an escape"),
        ('{"a":"\ud800"}', "lone surrogate at character 6"),
        ("\ufeff{}", "it begins with a byte order mark"),
        (BOM + b"{}", "it begins with a byte order mark"),
        (b'{"a":"\xff"}', "invalid UTF-8 at byte 6"),
        (b'{"\xc0\x80":1}', "invalid UTF-8 at byte 2"),
        (b'{"a":"\xed\xa0\x80"}', "invalid UTF-8 at byte 6"),
        ('{"a":1}'.encode("utf-16"), "invalid UTF-8 at byte 0"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep, or containing itself"),
        ("[" * 100_000, "nested too deep, or containing itself"),
    ],
    ids=shown,
)
def test_raw_text_that_is_not_one_object_is_refused(arguments: Any, reason: str) -> None:
    assert refusal(arguments) == reason
    if isinstance(arguments, bytes):
        assert refusal(bytearray(arguments)) == refusal(memoryview(arguments)) == reason


@pytest.mark.table(
    "text", ['{"a":1.}', '{"a":01}', '{"a":+1}', '{"a":1,}', '{"a":tru}', '{"a":"\\x"}', "{,}", "{1:2}"]
)
def test_nearly_json_is_refused(text: str) -> None:
    assert "(char " in refusal(text)


def test_what_is_sent_does_not_change_with_the_callers_buffer() -> None:
    buffer = bytearray(b'{"a":1}')
    sent = encode_arguments("x", buffer)
    buffer[5:6] = b"2"
    assert sent == b'{"a":1}'


def test_memory_that_is_not_in_one_piece_is_read_in_order() -> None:
    assert encode_arguments("x", memoryview(b"{x}x")[::2]) == b"{}"


def test_a_released_memoryview_is_refused() -> None:
    view = memoryview(b"{}")
    view.release()
    assert "released" in refusal(view)


# --- neither


@pytest.mark.table(
    ("arguments", "reason"),
    [
        ([], "got list"),
        ([("a", 1)], "got list"),
        ((), "got tuple"),
        (0, "got int"),
        (False, "got bool"),
        (1.5, "got float"),
        ({1}, "got set"),
        (Model(), "got Model"),
        (msgspec.Raw(b"{}"), "got Raw"),
        (dict, "got type"),
    ],
    ids=shown,
)
def test_what_is_neither_mapping_nor_text_is_refused(arguments: Any, reason: str) -> None:
    assert refusal(arguments) == reason


# --- invariants

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), json_values, max_size=5)


@given(objects)
def test_a_mapping_comes_back_as_it_was(arguments: dict[str, Any]) -> None:
    """By repr: 1, 1.0 and True are equal, and the order of keys counts."""
    sent = encode_arguments("x", arguments)
    assert repr(json.loads(sent)) == repr(arguments)
    assert b"\n" not in sent
    assert b"\r" not in sent


@given(objects)
def test_both_walks_write_the_same(arguments: dict[str, Any]) -> None:
    """Plain dicts go a fast way, other mappings a slow one."""
    assert encode_arguments("x", types.MappingProxyType(arguments)) == encode_arguments("x", arguments)


@given(
    objects,
    st.booleans(),
    st.sampled_from([None, 0, 1, "\t"]),
    st.sampled_from(["\n", "\r", "\r\n", " "]),
    st.booleans(),
)
def test_raw_text_keeps_every_byte_but_line_ends(
    value: dict[str, Any], ascii_only: bool, indent: Any, line_end: str, as_text: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).replace("\n", line_end)
    sent = encode_arguments("x", text if as_text else text.encode())
    assert sent == text.encode().replace(b"\n", b" ").replace(b"\r", b" ")
    assert repr(json.loads(sent)) == repr(value)


_PIECES = [
    b"{", b"}", b"[", b"]", b":", b",", b'"', b'"a"', b'"a":', b"\\", b"\\u", b"d800", b"dc00", b"\\ud83d",
    b"\\ude00", b"1", b"-", b"0", b".5", b"e9", b"1e999", b"null", b"true", b"NaN", b"Infinity", b" ", b"\n",
    b"\r", b"\x00", b"\x0c", b"\xff", b"\xc3\xa9", b"\xc3", b"\xe2\x80\xa8", BOM,
]  # fmt: skip
jsonish = st.lists(st.sampled_from(_PIECES), max_size=20).map(b"".join)
inside_object = jsonish.map(lambda middle: b'{"a":"' + middle + b'"}') | jsonish.map(
    lambda middle: b'{"a":' + middle + b"}"
)


def _judge(data: bytes) -> Any:
    """What the standard library makes of it, with the rules that it leaves out; ValueError where it is no JSON."""

    def no_constant(constant: str) -> None:
        raise ValueError(constant)

    value = json.loads(data.decode(), parse_constant=no_constant, parse_int=str)
    json.dumps(value, ensure_ascii=False).encode()
    return value


@given(st.binary(max_size=50) | jsonish | inside_object)
@settings(max_examples=examples(1000))
@example(b'{"a":"\\ud83d\\ude00"}')
@example(b'{"a":"\\ud83d\n"}')
def test_any_bytes_give_one_object_on_one_line_or_a_refusal(data: bytes) -> None:
    """The standard library is the judge of what is an object."""
    try:
        is_object = isinstance(_judge(data), dict)
    except ValueError:
        is_object = False
    sent = outcome(data)
    if isinstance(sent, InvalidArgumentsError):
        assert not is_object
    elif is_object:
        assert sent == data.replace(b"\n", b" ").replace(b"\r", b" ")
    else:
        assert sent == b"{}"
        assert data.decode().strip() in ("", "null")


@given(st.text(alphabet=st.characters(), max_size=30))
def test_any_text_gives_one_object_or_a_refusal(text: str) -> None:
    """Surrogates included."""
    sent = outcome(text)
    assert isinstance(sent, InvalidArgumentsError) or isinstance(json.loads(sent), dict)


_odd_leaves = st.sampled_from(
    [math.nan, math.inf, b"x", {1}, datetime.date(2026, 1, 1), decimal.Decimal(1), Plain.ONE, Model(), object(),
     "\ud800", Colour.RED, Level.HIGH, Text("t"), Number(1), Real(1.5), 1, "a", None, True]
)  # fmt: skip
_odd_keys = st.sampled_from(["a", "b", "\ud800", 1, None, Colour.RED, Level.HIGH, Text("t"), (1,), b"a"])
odd_values = st.recursive(
    _odd_leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_odd_keys, inner, max_size=3)
        | st.dictionaries(_odd_keys, inner, max_size=3).map(types.MappingProxyType)
    ),
    max_leaves=10,
)


def _is_json(value: Any) -> bool:
    if isinstance(value, str):
        return "\ud800" not in value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    if isinstance(value, dict | types.MappingProxyType):
        return all(isinstance(key, str) and _is_json(key) and _is_json(item) for key, item in value.items())
    return value is None or isinstance(value, int)


@given(odd_values)
@settings(max_examples=examples(500))
def test_any_python_value_is_encoded_exactly_or_refused(value: Any) -> None:
    sent = outcome({"v": value})
    if isinstance(sent, InvalidArgumentsError):
        assert not _is_json(value)
        assert sent.reason.startswith("v")
    else:
        assert _is_json(value)
        assert json.loads(sent)["v"] == _as_lists(value)


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_lists(item) for item in value]
    if isinstance(value, dict | types.MappingProxyType):
        return {key: _as_lists(item) for key, item in value.items()}
    return value
