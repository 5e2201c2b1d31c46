"""The envelope: any bytes give messages or ProtocolError, and nothing else ever comes out of reading."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.depth import examples
from trio_mcp.errors import ProtocolError, RequestError
from trio_mcp.protocol.messages import (
    SHORT,
    Line,
    answer_line,
    decode_json,
    encode_json,
    notification_line,
    read_error,
    read_line,
    reencode_json,
    request_line,
    request_pieces,
    salvage_answer_id,
)

BOM = b"\xef\xbb\xbf"


def members(line: Line) -> dict[str, Any]:
    """What a line has, the undecoded members as bytes."""
    found: dict[str, Any] = {"id": line.id, "method": line.method}
    found |= {name: bytes(getattr(line, name)) for name in ("params", "result", "error")}
    return {name: value for name, value in found.items() if value not in (None, b"")}


def read_one(data: bytes) -> dict[str, Any]:
    (line,) = read_line(data)
    return members(line)


# --- reading a line


@pytest.mark.table(
    ("data", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', {"id": 1, "result": b"{}"}),
        (b'{"jsonrpc":"2.0","id":"a","result":{}}', {"id": "a", "result": b"{}"}),
        (b'{"jsonrpc":"2.0","id":1.0,"result":{}}', {"id": 1, "result": b"{}"}),
        (b'{"id":' + b"9" * 30 + b',"result":1}', {"id": 10**30 - 1, "result": b"1"}),
        (b'{"jsonrpc":"2.0","id":0,"method":"ping"}', {"id": 0, "method": "ping"}),
        (b'{"jsonrpc":"2.0","method":"n","params":{"a":1.10}}', {"method": "n", "params": b'{"a":1.10}'}),
        (b'{"id":null,"error":{"code":1}}', {"error": b'{"code":1}'}),
        (b'{"error":{"code":1}}', {"error": b'{"code":1}'}),
        (b'{"id":1,"result":null}', {"id": 1, "result": b"null"}),
        (b'{"id":1,"result":{},"error":null}', {"id": 1, "result": b"{}", "error": b"null"}),
        (b' { "result" : [ 1 , 2 ] , "id" : 3 } \r', {"id": 3, "result": b"[ 1 , 2 ]"}),
        (b'{"id":1,"result":{},"more":[{"id":2}]}', {"id": 1, "result": b"{}"}),
        (b'{"level":"info","msg":"listening"}', {}),
        (b"{}", {}),
        ('{"method":"\u2028é"}'.encode(), {"method": "\u2028é"}),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_a_line_is_read_with_its_contents_undecoded(data: bytes, expected: dict[str, Any]) -> None:
    assert read_one(data) == expected


@pytest.mark.table(
    ("data", "expected"),
    [
        (BOM + b'{"id":1,"result":{}}', {"id": 1, "result": b"{}"}),
        (b'{"id":1,"result":{"n":NaN}}', {"id": 1, "result": b'{"n":NaN}'}),
        (b'{"id":1,"result":[Infinity,-Infinity]}', {"id": 1, "result": b"[Infinity,-Infinity]"}),
        (b'{"id":1,"result":"\\ud800"}', {"id": 1, "result": b'"\\ud800"'}),
        (b'{"params":{"a":"\\ud83d x"},"method":"m"}', {"method": "m", "params": b'{"a":"\\ud83d x"}'}),
        (b'{"id":1,"method":"\xff"}', {"id": 1, "method": "\ufffd"}),
        (b'{"id":true,"method":"m"}', {"method": "m"}),
        (b'{"id":[1],"error":{"code":1}}', {"error": b'{"code":1}'}),
        (b'{"id":{},"result":1}', {"result": b"1"}),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_msgspec_refuses_is_read_by_the_standard_library(data: bytes, expected: dict[str, Any]) -> None:
    """Fault 30: a NaN costs at most its own call. An id that is neither string nor number is none."""
    assert read_one(data) == expected


def test_invalid_utf8_inside_the_contents_is_left_to_whoever_decodes_them() -> None:
    """Fault 13: the bad byte costs itself."""
    line = read_one(b'{"id":1,"result":{"text":"a\xffb"}}')
    assert line["id"] == 1
    assert decode_json(line["result"]) == {"text": "a\ufffdb"}


def test_a_batch_is_unpacked() -> None:
    """2025-03-26 has batches, and some servers wrap one answer in an array."""
    assert read_one(b'[{"id":1,"result":{}}]') == {"id": 1, "result": b"{}"}
    lines = read_line(b'[{"id":1,"result":{}},{"method":"m"},{"id":2,"error":{"code":1}}]')
    assert [members(line) for line in lines] == [
        {"id": 1, "result": b"{}"},
        {"method": "m"},
        {"id": 2, "error": b'{"code":1}'},
    ]


@pytest.mark.table(
    "data",
    [
        b"", b" ", b"\r", b"\x00", BOM, b"\xff\xfe", b"hello", b"[INFO] ready", b"5", b'"text"', b"null", b"true",
        b"NaN", b"[]", b"[1]", b'["a"]', b"[[]]", b'[{"id":1},2]', b"{not json", b"{", b'{"id":1',
        b'{"id":1,"result":{"a":[1,2', b'{"id":1}{"id":2}', b'{"id":1} x', b'{"id":1,}', b"{'id':1}", b'{"id":01}',
        b'{"method":5}', b'{"method":["m"]}', b'{"id":' + b"9" * 5000 + b"}",
        b'{"id":1,"result":"' + b"x" * 100_000, b'{"id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 100_000, b'{"a":' * 100_000, '{"id":1}'.encode("utf-16"),
    ],
    ids=lambda data: ascii(data)[2:42],
)  # fmt: skip
def test_a_line_that_is_no_message_is_a_protocol_error(data: bytes) -> None:
    """Fault 11: banners, logs, an empty line, a bare scalar. The error shows a clipped sample."""
    with pytest.raises(ProtocolError) as caught:
        read_line(data)
    assert len(caught.value.payload) <= 200
    assert len(str(caught.value)) < 200


@pytest.mark.table(
    ("data", "is_answer"),
    [
        (b'{"id":1,"result":{}}', True),
        (b'{"id":1,"result":null}', True),
        (b'{"id":1,"error":{"code":1}}', True),
        (b'{"id":1,"error":null}', False),
        (b'{"id":1,"error":null,"result":1}', True),
        (b'{"id":1}', False),
        (b'{"level":"info"}', False),
    ],
)
def test_an_answer_has_a_result_or_an_error(data: bytes, is_answer: bool) -> None:
    (line,) = read_line(data)
    assert line.is_answer is is_answer


_PIECES = [
    b"{", b"}", b"[", b"]", b":", b",", b'"', b'"id"', b'"id":1', b'"id":', b'"method":', b'"result":',
    b'"error":', b'"params":', b'"jsonrpc":"2.0"', b'"code":', b"\\", b"\\u", b"d800", b"\\ud83d", b"1",
    b"-", b"0", b".5", b"e9", b"1e999", b"null", b"true", b"NaN", b"Infinity", b" ", b"\r", b"\x00", b"\xff",
    b"\xc3\xa9", b"\xc3", BOM,
]  # fmt: skip
jsonish = st.lists(st.sampled_from(_PIECES), max_size=25).map(b"".join)
_keys = st.sampled_from(["id", "method", "params", "result", "error", "jsonrpc", "code"]).map(
    lambda key: f'"{key}":'.encode()
)
_values = st.sampled_from([b"1", b"null", b'"m"', b"{}", b"NaN", b"1e999", b'"\\ud800"', b'"\xff"']) | jsonish
messagish = st.tuples(
    st.sampled_from([b"", b" ", BOM, b"["]).map(lambda before: before + b"{"),
    st.lists(st.tuples(_keys, _values).map(b"".join), max_size=5).map(b",".join),
    st.sampled_from([b"}", b"}]", b"", b"}}", b"} "]),
).map(b"".join)
any_bytes = st.binary(max_size=60) | jsonish | messagish


@given(any_bytes)
@settings(max_examples=examples(500))
@example(b'{"id":NaN,"method":"m"}')
@example(b'{"id":1e999,"result":NaN}')
def test_any_bytes_give_messages_or_a_protocol_error(data: bytes) -> None:
    """The fuzz invariant. What is read can be read on: each undecoded member decodes, or is a ProtocolError."""
    try:
        lines = read_line(data)
    except ProtocolError:
        return
    assert lines
    for line in lines:
        assert isinstance(line.id, int | str | float | None)
        assert isinstance(line.method, str | None)
        for name in ("params", "result", "error"):
            if content := bytes(getattr(line, name)):
                with contextlib.suppress(ProtocolError):
                    decode_json(content)


@given(any_bytes)
@settings(max_examples=examples(500))
@example(b'{"code":NaN,"message":"x"}')
@example(b'{"code":1e999,"message":"x"}')
@example(b'{"code":-1e999}')
def test_any_bytes_give_a_value_an_error_or_an_id(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_json(data)
    assert type(read_error(data)) in (RequestError, ProtocolError)
    assert type(salvage_answer_id(data)) in (int, str, type(None))


@pytest.mark.parametrize("leaf", [b"1", b"NaN"])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_at_every_depth_a_line_is_read_or_refused(leaf: bytes, opening: bytes, closing: bytes) -> None:
    """Also where the nesting is just not too deep for one step and just too deep for the next."""
    edge = bisect.bisect_left(
        range(100_000), True, key=lambda depth: refuses(opening * depth + leaf + closing * depth)
    )
    for depth in range(edge - 30, edge + 5):
        result = opening * depth + leaf + closing * depth
        line = b'{"id":1,"result":' + result + b"}"
        for data in (line, b"[" + line + b"]"):
            with contextlib.suppress(ProtocolError):
                (message,) = read_line(data)
                decode_json(bytes(message.result))
        read_error(line)
        salvage_answer_id(line)


def refuses(data: bytes) -> bool:
    try:
        decode_json(data)
    except ProtocolError:
        return True
    return False


# --- decoding and encoding


@pytest.mark.table(
    ("data", "value"),
    [
        (b"9007199254740993", 2**53 + 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9" * 4300, 10**4300 - 1),
        (b"1e999", math.inf),
        (b"-Infinity", -math.inf),
        (b'{"a":[1.5,null,true]}', {"a": [1.5, None, True]}),
        (b'"\\ud800"', "\ud800"),
        (b'"a\xffb"', "a\ufffdb"),
        (BOM + b"[]", []),
        (b" 1 ", 1),
    ],
    ids=lambda value: "long" if isinstance(value, int) and value > 10**50 else ascii(value)[:30],
)
def test_json_is_decoded_as_widely_as_python_can(data: bytes, value: Any) -> None:
    """Fault 30."""
    assert decode_json(data) == value


def test_nan_is_decoded() -> None:
    assert math.isnan(decode_json(b"NaN"))


@pytest.mark.table(
    "data", [b"", b"{", b"9" * 4301, b"[" * 100_000, b"1 2", b"\xff", b"'a'"], ids=lambda d: ascii(d)[:20]
)
def test_what_is_no_json_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_json(data)
    assert caught.value.__suppress_context__


wide_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet=st.characters()), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(wide_values)
def test_reencoding_keeps_what_was_decoded(value: Any) -> None:
    """NaN and lone surrogates included; by repr, since NaN equals nothing."""
    data = reencode_json(value)
    assert data.isascii()
    assert b"\n" not in data
    assert repr(decode_json(data)) == repr(_without_pairs(value))


def _without_pairs(value: Any) -> Any:
    """Two surrogates side by side become one character in JSON: there is no other way to write that character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [_without_pairs(item) for item in value]
    if isinstance(value, dict):
        return {_without_pairs(key): _without_pairs(item) for key, item in value.items()}
    return value


# --- errors


@pytest.mark.table(
    ("data", "code", "message", "payload"),
    [
        (b'{"code":-32601,"message":"no"}', -32601, "no", None),
        (b'{"code":-32602,"message":"no","data":{"a":[1]}}', -32602, "no", {"a": [1]}),
        (b'{"code":-32601.0,"message":"no"}', -32601, "no", None),
        (b'{"code":0}', 0, "", None),
        (b'{"code":1,"message":null,"data":null}', 1, "", None),
        (b'{"code":1,"message":{"a":1}}', 1, "", None),
        (b'{"code":1' + b"0" * 400 + b',"message":"x"}', 10**400, "x", None),
        (b'{"code":1,"message":"a\xff","data":"\\ud800"}', 1, "a\ufffd", "\ud800"),
    ],
)
def test_an_error_is_read(data: bytes, code: int, message: str, payload: Any) -> None:
    error = read_error(data)
    assert isinstance(error, RequestError)
    assert type(error.code) is int
    assert (error.code, error.message, error.data) == (code, message, payload)


@pytest.mark.table(
    "data",
    [
        b"{}", b"[]", b"null", b"5", b'"boom"', b"{", b'{"message":"x"}', b'{"code":"1"}', b'{"code":null}',
        b'{"code":NaN,"message":"x"}', b'{"code":Infinity}', b'{"code":1e999}',
    ],
)  # fmt: skip
def test_an_error_that_is_none_is_a_protocol_error(data: bytes) -> None:
    error = read_error(data)
    assert isinstance(error, ProtocolError)
    assert error.payload


# --- writing


def parsed(line: bytes) -> Any:
    """The line as the strictest reader has it."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    return json.loads(line.decode())


@pytest.mark.table("method", ["tools/call", "ping", 'quo"te', "back\\slash", "line\nend\r", "\u2028é"])
def test_requests_and_notifications_are_one_line_each(method: str) -> None:
    """Connection.request takes any method."""
    envelope = {"jsonrpc": "2.0", "method": method}
    assert parsed(request_line(7, method, b'{"a":1}')) == {**envelope, "id": 7, "params": {"a": 1}}
    assert parsed(notification_line(method)) == envelope
    assert parsed(notification_line(method, b'{"b":2}')) == {**envelope, "params": {"b": 2}}


def test_params_are_spliced_in_untouched() -> None:
    params = b'{"arguments":{"n": 1.10, "n": 2}}'
    assert params in request_line(1, "tools/call", params)
    assert params in notification_line("n", params)


def test_a_long_request_in_pieces_is_the_same_line_and_holds_the_very_piece() -> None:
    long = b"x" * SHORT
    pieces = request_pieces(1, "tools/call", (b'{"a":"', long, b'"', b"}"))
    assert isinstance(pieces, tuple)
    assert b"".join(pieces) == request_line(1, "tools/call", b'{"a":"' + long + b'"}')
    assert any(piece is long for piece in pieces)


@pytest.mark.parametrize("params", [b'{"a":1}', (b"{", b'"a":1', b"}")])
def test_a_short_request_is_one_piece_however_its_params_come(params: bytes | tuple[bytes, ...]) -> None:
    assert request_pieces(7, "ping", params) == request_line(7, "ping", b'{"a":1}')


@pytest.mark.parametrize("size", [SHORT - 2, SHORT - 1])
def test_a_long_result_is_kept_without_a_copy_and_reads_the_same(size: int) -> None:
    result = b'"%b"' % (b"x" * size)
    (line,) = read_line(b'{"id":1,"result":%b}' % result)
    assert line.is_plain_answer
    assert isinstance(line.result_kept, bytes) == (len(result) <= SHORT)
    assert bytes(line.result_kept) == result
    assert decode_json(line.result_kept) == "x" * size


@pytest.mark.table(
    "data",
    [
        b'{"id":1}',
        b'{"id":"1","result":{}}',
        b'{"id":1.0,"result":{}}',
        b'{"id":1,"result":{},"error":null}',
        b'{"id":1,"result":{},"method":"m"}',
        b'{"result":{}}',
    ],
)
def test_only_a_result_with_a_whole_number_and_nothing_else_is_a_plain_answer(data: bytes) -> None:
    (line,) = read_line(data)
    assert not line.is_plain_answer


@pytest.mark.table("id_", [0, 7, 2**70, "a", 'q"\n', ""])
def test_answers_are_one_line_each(id_: Any) -> None:
    envelope = {"jsonrpc": "2.0", "id": id_}
    assert parsed(answer_line(id_, b"{}")) == {**envelope, "result": {}}
    error = {"code": -32601, "message": "line\nend"}
    assert parsed(answer_line(id_, RequestError(-32601, "line\nend"))) == {**envelope, "error": error}
    with_data = RequestError(-32601, "line\nend", {"a": ["\r"]})
    assert parsed(answer_line(id_, with_data)) == {**envelope, "error": {**error, "data": {"a": ["\r"]}}}


def test_an_answer_can_be_written_for_any_id_that_can_be_read() -> None:
    """The peer's ids and methods come back in answers, lone surrogates included."""
    assert parsed(answer_line("\ud800", b"{}"))["id"] == "\ud800"
    assert parsed(answer_line(1, RequestError(-32601, "\ud800")))["error"]["message"] == "\ud800"


@given(st.integers(1, 10**12), st.dictionaries(st.text(), st.text(), max_size=3))
def test_what_is_written_is_read_again(id_: int, params: dict[str, str]) -> None:
    encoded = encode_json(params)
    line = request_line(id_, "tools/call", encoded).removesuffix(b"\n")
    assert read_one(line) == {"id": id_, "method": "tools/call", "params": encoded}
    assert read_one(answer_line(id_, encoded).removesuffix(b"\n")) == {"id": id_, "result": encoded}


# --- what is left of an answer

CUT = [
    '{"jsonrpc":"2.0","id":71,"result":{"id":8,"error":{"id":9},"text":"say \\"id\\":9,{[\\\\"},"x":[{"id":3}]}',
    '{"result":{"id":8,"jsonrpc":"2.0","text":"\\"id\\":9}"},"jsonrpc":"2.0","id":71}',
    '{"jsonrpc":"2.0","result":{"a":{"x":1,"id":8},"jsonrpc":"2.0","id":9},"id":71}',
    '{"id":71,"error":{"code":-32603,"message":"é \\"result\\""},"jsonrpc":"2.0"}',
    ' { "jsonrpc" : "2.0" , "id" : 71 , "result" : { "id" : 8 } } ',
]


@pytest.mark.table("text", CUT)
def test_an_answer_cut_anywhere_is_never_taken_for_another(text: str) -> None:
    """Its own call fails, or nobody's: never the call 7 for the answer 71."""
    data = text.encode()
    for place in range(len(data) + 1):
        assert salvage_answer_id(data[:place]) in (None, 71), data[:place]


def test_an_answer_cut_in_its_result_is_known_by_its_id() -> None:
    data = CUT[0].encode()
    for place in range(data.index(b'"result":') + 9, len(data)):
        assert salvage_answer_id(data[:place]) == 71


def test_an_answer_nested_too_deep_is_known_by_its_id() -> None:
    data = b'{"jsonrpc":"2.0","id":"71","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert salvage_answer_id(data) == "71"


@pytest.mark.table(
    "data",
    [
        b"", b"hello", b'{"id":7}', b'{"jsonrpc":"2.0","id":7}', b'{"id":7,"result":{',
        b'{"jsonrpc":"2.0","result":{', b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"result":',
        b'{"jsonrpc":"2.0","id":true,"result":{', b'{"jsonrpc":"2.0","id":null,"result":{',
        b'{"jsonrpc":"2.0","id":7.5,"result":{', b'{"jsonrpc":"2.0","id":{},"result":',
        b'{"a":{"jsonrpc":"2.0","id":7,"result":{', b'"jsonrpc":"2.0","id":7,"result":',
        b'{"x":"\\"jsonrpc\\":\\"2.0\\",\\"id\\":7,\\"result\\":',
    ],
)  # fmt: skip
def test_what_was_no_answer_has_no_id_to_salvage(data: bytes) -> None:
    assert salvage_answer_id(data) is None


@pytest.mark.table("filler", [b'\\"', b'\\"a\\": ', b"\\\\", b"[", b'"', b'","', b"\\", b" ", b"x ", b":", b'\n"'])
def test_salvaging_is_linear_in_the_line(filler: bytes) -> None:
    """A cut-off JSON text inside JSON has an escaped quote every few bytes. Quadratic takes minutes."""
    data = b'{"jsonrpc":"2.0","id":71,"result":{"text":"' + filler * (150_000 // len(filler))
    started = time.perf_counter()
    salvage_answer_id(data)
    assert time.perf_counter() - started < 2


@pytest.mark.table(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":[' + b"1," * 100_000 + b"!]}",
        b'{"result":[' + b"1," * 100_000 + b'!],"jsonrpc":"2.0","id":7}',
        b'{"result":[' + b"1," * 100_000 + b'!],"id":"seven","jsonrpc":"2.0"}',
    ],
    ids=["at its head", "at its tail", "at its tail, a string"],
)
def test_the_id_of_a_long_broken_answer_is_found_at_either_end(line: bytes) -> None:
    assert salvage_answer_id(line) in (7, "seven")


def test_a_long_broken_answer_is_not_read_as_a_whole() -> None:
    """The reader must not be held up by what is broken anyway: an id that is far from both ends is not found."""
    filler = b"1," * 100_000
    assert (
        salvage_answer_id(b'{"jsonrpc":"2.0","x":[' + filler + b'1],"id":7,"result":[' + filler + b"!]}") is None
    )


@pytest.mark.parametrize("text", ["}", "} }", "a { b } c }", '\\"}'])
def test_a_brace_in_a_text_does_not_make_a_member_of_the_result_the_id_of_the_answer(text: str) -> None:
    """The line is cut behind an object in the result: its id would fail a call that still runs."""
    data = b'{"jsonrpc":"2.0","result":{"text":"%b","id":5}' % text.encode()
    assert salvage_answer_id(data) is None
    whole = data + b',"id":7}'
    assert salvage_answer_id(whole) == 7
