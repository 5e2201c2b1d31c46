"""Negotiation as a machine: scripts of what happens and what is decided, then any order of events at all."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.depth import examples
from trio_mcp.protocol.negotiation import (
    ERAS,
    Agreed,
    Decision,
    Died,
    Discover,
    EraMemory,
    Initialize,
    Negotiation,
    Refused,
    Restart,
    Wait,
)
from trio_mcp.protocol.revisions import LEGACY_VERSIONS, MODERN_VERSIONS, ProtocolChoice, request_meta

MODERN = MODERN_VERSIONS[0]
NEWEST, OLDER, *_, OLDEST = LEGACY_VERSIONS
UNKNOWN = "2099-01-01"

SERVER_INFO = {"name": "s", "version": "0"}


def discovered(*versions: str, **more: Any) -> dict[str, Any]:
    return {"supportedVersions": list(versions), "capabilities": {"tools": {}}, **more}


def initialized(version: str, **more: Any) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": SERVER_INFO, **more}


# What happens, as a call of the machine.
def answers_discover(result: Any) -> tuple[Any, ...]:
    return ("discover_answered", result)


def fails_discover(code: int, message: str = "no", data: Any = None) -> tuple[Any, ...]:
    return ("discover_failed", code, message, data)


def answers_initialize(result: Any) -> tuple[Any, ...]:
    return ("initialize_answered", result)


def fails_initialize(code: int, message: str = "no", data: Any = None) -> tuple[Any, ...]:
    return ("initialize_failed", code, message, data)


BEGIN, SILENT, EXITS = ("begin",), ("silent",), ("exited",)

IS_MODERN = answers_discover(discovered(MODERN))
IS_LEGACY = answers_initialize(initialized(NEWEST))
MODERN_AGREED = Agreed("modern", MODERN, {}, {"tools": {}}, None)
LEGACY_AGREED = Agreed("legacy", NEWEST, SERVER_INFO, {"tools": {}}, None)
WAIT = Wait()


def unsupported(*supported: Any) -> tuple[Any, ...]:
    return fails_discover(-32022, "unsupported", {"supported": list(supported), "requested": MODERN})


def play(protocol: ProtocolChoice, remembered: Any, script: list[tuple[tuple[Any, ...], Decision]]) -> None:
    negotiation = Negotiation(protocol, remembered)
    for (event, *facts), expected in script:
        assert getattr(negotiation, event)(*facts) == expected


AUTO = {
    "a modern server": [(BEGIN, Discover(MODERN)), (IS_MODERN, MODERN_AGREED)],
    "a legacy server that does not know the probe": [
        (BEGIN, Discover(MODERN)),
        (fails_discover(-32601), Initialize(NEWEST)),
        (IS_LEGACY, LEGACY_AGREED),
    ],
    "a legacy server that is silent on the probe": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (IS_LEGACY, LEGACY_AGREED),
        (fails_discover(-32601), WAIT),
    ],
    "a modern server that is slow to start": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (IS_MODERN, MODERN_AGREED),
        (fails_initialize(-32601), WAIT),
    ],
    "a slow modern server that refuses initialize first": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (fails_initialize(-32601), WAIT),
        (SILENT, WAIT),
        (IS_MODERN, MODERN_AGREED),
    ],
    "a slow legacy server that answers both in order": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (fails_discover(-32601), WAIT),
        (IS_LEGACY, LEGACY_AGREED),
    ],
    "both fail, initialize first": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (fails_initialize(-32602, "bad\nversion"), WAIT),
        (fails_discover(-32601), Refused("initialize failed: bad version (code -32602)")),
    ],
    "both fail, the probe first": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (fails_discover(-32601), WAIT),
        (fails_initialize(-32603, ""), Refused("initialize failed: (code -32603)")),
    ],
    "a legacy server that exits on the probe": [
        (BEGIN, Discover(MODERN)),
        (EXITS, Restart()),
        (EXITS, WAIT),
        (BEGIN, Initialize(NEWEST)),
        (IS_LEGACY, LEGACY_AGREED),
    ],
    "a legacy server that answers the probe with an error and exits": [
        (BEGIN, Discover(MODERN)),
        (fails_discover(-32600), Initialize(NEWEST)),
        (EXITS, Restart()),
        (BEGIN, Initialize(NEWEST)),
        (IS_LEGACY, LEGACY_AGREED),
    ],
    "a broken command costs two starts": [
        (BEGIN, Discover(MODERN)),
        (EXITS, Restart()),
        (BEGIN, Initialize(NEWEST)),
        (EXITS, Died()),
    ],
    "a server that exits when both have been sent": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (EXITS, Restart()),
        (BEGIN, Initialize(NEWEST)),
        (SILENT, WAIT),
        (fails_initialize(-32603), Refused("initialize failed: no (code -32603)")),
    ],
    "a server that wants another modern revision than the one sent": [
        (BEGIN, Discover(MODERN)),
        (unsupported(UNKNOWN, MODERN), Discover(MODERN)),
        (IS_MODERN, MODERN_AGREED),
    ],
    "one correction is enough": [
        (BEGIN, Discover(MODERN)),
        (unsupported(MODERN), Discover(MODERN)),
        (unsupported(MODERN), Refused("server/discover failed: unsupported (code -32022)")),
    ],
    "once positively modern, a failure is no reason to fall back": [
        (BEGIN, Discover(MODERN)),
        (unsupported(MODERN), Discover(MODERN)),
        (SILENT, WAIT),
        (fails_discover(-32603), Refused("server/discover failed: no (code -32603)")),
    ],
    "once positively modern, an exit is no reason to start again": [
        (BEGIN, Discover(MODERN)),
        (unsupported(MODERN), Discover(MODERN)),
        (EXITS, Died()),
    ],
    "a correction while initialize is open": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (unsupported(MODERN), Discover(MODERN)),
        (fails_initialize(-32601), WAIT),
        (IS_MODERN, MODERN_AGREED),
    ],
    "an error that lists legacy revisions only": [
        (BEGIN, Discover(MODERN)),
        (unsupported(OLDEST, OLDER), Initialize(OLDER)),
        (answers_initialize(initialized(OLDER)), Agreed("legacy", OLDER, SERVER_INFO, {"tools": {}}, None)),
    ],
    "an error that lists legacy revisions only, while initialize is open": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (unsupported(OLDER), WAIT),
        (IS_LEGACY, LEGACY_AGREED),
    ],
    "an error that lists legacy revisions only, after initialize failed": [
        (BEGIN, Discover(MODERN)),
        (SILENT, Initialize(NEWEST)),
        (fails_initialize(-32602), WAIT),
        (unsupported(OLDER), Refused("initialize failed: no (code -32602)")),
    ],
    "an answer that lists legacy revisions only": [
        (BEGIN, Discover(MODERN)),
        (answers_discover(discovered(UNKNOWN, OLDEST, OLDER)), Initialize(OLDER)),
        (answers_initialize(initialized(OLDEST)), Agreed("legacy", OLDEST, SERVER_INFO, {"tools": {}}, None)),
    ],
    "the events of a negotiation that is over": [
        (BEGIN, Discover(MODERN)),
        (IS_MODERN, MODERN_AGREED),
        *[(event, WAIT) for event in (BEGIN, IS_MODERN, IS_LEGACY, SILENT, EXITS)],
        (fails_discover(-32020), WAIT),
        (fails_initialize(-32020), WAIT),
    ],
    "events that come before the beginning": [
        *[(event, WAIT) for event in (IS_MODERN, IS_LEGACY, SILENT, EXITS)],
        (fails_discover(-32020), WAIT),
        (fails_initialize(-32020), WAIT),
        (BEGIN, Discover(MODERN)),
        (BEGIN, WAIT),
        (IS_LEGACY, WAIT),
    ],
}


@pytest.mark.table("remembered", [None, "modern"])
@pytest.mark.table("script", AUTO.values(), ids=AUTO.keys())
def test_auto_takes_what_is_positively_modern_and_else_legacy(script: Any, remembered: Any) -> None:
    """Faults 21 and 22. A remembered modern era changes nothing: the server may have been replaced."""
    play("auto", remembered, script)


@pytest.mark.table(
    "answer",
    [
        *[fails_discover(code) for code in (-32700, -32600, -32601, -32602, -32603, -32000, -32001)],
        *[fails_discover(code) for code in (-32042, -32019, -32023, 0, 1)],
        fails_discover(-32602, "x", {"supported": [MODERN]}),
        fails_discover(-32022),
        fails_discover(-32022, "x", {"supported": MODERN}),
        fails_discover(-32022, "x", [MODERN]),
        *map(answers_discover, ({}, [], None, "x", 1)),
        answers_discover({"supportedVersions": [UNKNOWN]}),
        answers_discover({"capabilities": {}}),
        answers_discover({"supportedVersions": [UNKNOWN], "capabilities": None}),
        answers_discover({"supportedVersions": [UNKNOWN, 1], "capabilities": {}}),
        answers_discover({"supportedVersions": {"0": MODERN}, "capabilities": {}}),
        answers_discover(discovered(MODERN, resultType="input_required")),
        answers_discover(initialized(NEWEST)),
    ],
    ids=lambda event: f"{event[0]} {event[1:]}"[:60],
)
def test_whatever_is_not_positively_modern_is_legacy(answer: Any) -> None:
    """Fault 23: the fallback hangs on no single error code."""
    play("auto", None, [(BEGIN, Discover(MODERN)), (answer, Initialize(NEWEST)), (IS_LEGACY, LEGACY_AGREED)])


@pytest.mark.table("code", [-32020, -32021])
@pytest.mark.table("protocol", ["auto", "modern", MODERN])
def test_a_recognised_modern_error_is_surfaced_and_never_falls_back(code: int, protocol: ProtocolChoice) -> None:
    refused = Refused(f"server/discover failed: needs sampling (code {code})")
    play(
        protocol,
        None,
        [(BEGIN, Discover(MODERN)), (fails_discover(code, "needs\r\n sampling"), refused), (EXITS, WAIT)],
    )


@pytest.mark.parametrize(
    "event", [answers_discover(discovered(UNKNOWN, "2098-01-01")), unsupported(UNKNOWN, 7, "2098-01-01")]
)
def test_without_a_common_revision_both_lists_are_named(event: Any) -> None:
    play(
        "auto",
        None,
        [
            (BEGIN, Discover(MODERN)),
            (
                event,
                Refused(
                    "no common protocol revision: the server speaks 2099-01-01, 2098-01-01, "
                    "this client 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"
                ),
            ),
        ],
    )


@pytest.mark.parametrize("event", [answers_discover(discovered()), unsupported()])
def test_an_empty_list_of_revisions_is_no_common_revision(event: Any) -> None:
    negotiation = Negotiation("auto", None)
    negotiation.begin()
    decision = getattr(negotiation, event[0])(*event[1:])
    assert isinstance(decision, Refused)
    assert "the server speaks none, this client" in decision.reason


def test_a_refusal_stays_short_whatever_the_server_lists() -> None:
    negotiation = Negotiation("auto", None)
    negotiation.begin()
    decision = negotiation.discover_answered(discovered(*["a\nb"] * 10_000))
    assert isinstance(decision, Refused)
    assert len(decision.reason.splitlines()) == 1
    assert len(decision.reason) < 500


# --- modern

NOT_MODERN = "the server speaks no modern protocol revision"
ONLY_LEGACY = f"no common protocol revision: the server speaks {NEWEST}, this client {MODERN}"


@pytest.mark.table("protocol", ["modern", MODERN])
@pytest.mark.table("remembered", [None, "modern", "legacy"])
def test_modern_still_discovers(protocol: ProtocolChoice, remembered: Any) -> None:
    play(protocol, remembered, [(BEGIN, Discover(MODERN)), (SILENT, WAIT), (IS_MODERN, MODERN_AGREED)])


@pytest.mark.table("protocol", ["modern", MODERN])
@pytest.mark.table(
    ("event", "decision"),
    [
        (fails_discover(-32601, "x"), Refused(f"{NOT_MODERN}: server/discover failed: x (code -32601)")),
        (answers_discover({}), Refused(f"{NOT_MODERN}: server/discover was answered with something else")),
        (answers_discover(discovered(NEWEST)), Refused(ONLY_LEGACY)),
        (unsupported(NEWEST), Refused(ONLY_LEGACY)),
        (EXITS, Died()),
    ],
    ids=["error", "no result", "legacy listed", "legacy supported", "exit"],
)
def test_modern_never_falls_back(protocol: ProtocolChoice, event: Any, decision: Decision) -> None:
    play(protocol, None, [(BEGIN, Discover(MODERN)), (event, decision), (SILENT, WAIT)])


# --- legacy


@pytest.mark.table("remembered", [None, "modern", "legacy"])
def test_legacy_skips_the_probe(remembered: Any) -> None:
    play("legacy", remembered, [(BEGIN, Initialize(NEWEST)), (SILENT, WAIT), (IS_LEGACY, LEGACY_AGREED)])


@pytest.mark.table("protocol", ["legacy", *LEGACY_VERSIONS])
def test_legacy_is_never_started_again_and_never_probed(protocol: ProtocolChoice) -> None:
    version = NEWEST if protocol == "legacy" else protocol
    play(protocol, None, [(BEGIN, Initialize(version)), (EXITS, Died())])
    refused = Refused("initialize failed: no (code -32601)")
    play(protocol, None, [(BEGIN, Initialize(version)), (fails_initialize(-32601), refused)])


@pytest.mark.table("version", LEGACY_VERSIONS)
@pytest.mark.table("protocol", ["auto", "legacy"])
def test_any_legacy_revision_is_accepted_in_the_answer(protocol: ProtocolChoice, version: str) -> None:
    negotiation = Negotiation(protocol, "legacy")
    assert negotiation.begin() == Initialize(NEWEST)
    decision = negotiation.initialize_answered(initialized(version))
    assert decision == Agreed("legacy", version, SERVER_INFO, {"tools": {}}, None)


@pytest.mark.table("version", [UNKNOWN, MODERN, "", "2025-11-25 "])
@pytest.mark.table("protocol", ["auto", "legacy"])
def test_another_revision_in_the_answer_is_refused(protocol: ProtocolChoice, version: str) -> None:
    negotiation = Negotiation(protocol, "legacy")
    negotiation.begin()
    decision = negotiation.initialize_answered(initialized(version))
    assert isinstance(decision, Refused)
    assert f"the server speaks {version.strip() or 'none'}, this client " in decision.reason
    assert OLDEST in decision.reason


@pytest.mark.table(("pinned", "answered"), list(itertools.permutations(LEGACY_VERSIONS, 2)))
def test_a_pinned_legacy_revision_alone_is_accepted(pinned: ProtocolChoice, answered: str) -> None:
    refused = Refused(f"no common protocol revision: the server speaks {answered}, this client {pinned}")
    play(pinned, None, [(BEGIN, Initialize(pinned)), (answers_initialize(initialized(answered)), refused)])


@pytest.mark.table("result", [{}, [], None, "x", {"protocolVersion": 1}, {"protocolVersion": None}])
def test_an_answer_to_initialize_without_a_revision_is_refused(result: Any) -> None:
    refused = Refused("initialize was answered without a protocolVersion")
    play("legacy", None, [(BEGIN, Initialize(NEWEST)), (answers_initialize(result), refused)])


def test_the_revisions_that_a_refusal_of_initialize_names_are_followed_once() -> None:
    negotiation = Negotiation("legacy", None)
    assert negotiation.begin() == Initialize(NEWEST)
    refusal = (-32602, "unsupported", {"supported": [None, OLDEST, OLDER, UNKNOWN]})
    assert negotiation.initialize_failed(*refusal) == Initialize(OLDER)
    assert isinstance(negotiation.initialize_failed(*refusal), Refused)


@pytest.mark.table(
    "result",
    [
        {"supportedVersions": [None, 1, MODERN], "capabilities": {"tools": {}}},
        {"supportedVersions": MODERN, "capabilities": {"tools": {}}},
        {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "resultType": None, "instructions": 5},
        {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "_meta": None, "serverInfo": None},
    ],
)
def test_an_odd_member_of_the_answer_to_the_probe_costs_itself(result: Any) -> None:
    play("auto", None, [(BEGIN, Discover(MODERN)), (answers_discover(result), MODERN_AGREED)])


@pytest.mark.table("more", [{}, {"capabilities": None}, {"capabilities": []}, {"capabilities": "x"}])
def test_a_server_that_names_a_modern_revision_is_modern_whatever_it_says_of_capabilities(more: Any) -> None:
    agreed = Agreed("modern", MODERN, {}, {}, None)
    result = {"supportedVersions": [MODERN], **more}
    play("auto", None, [(BEGIN, Discover(MODERN)), (answers_discover(result), agreed)])


def test_the_revisions_that_an_error_of_initialize_lists_are_named() -> None:
    event = fails_initialize(-32602, "unsupported", {"supported": ["2024-10-07", 3]})
    refused = Refused("initialize failed: unsupported (code -32602); the server speaks 2024-10-07")
    play("legacy", None, [(BEGIN, Initialize(NEWEST)), (event, refused)])


# --- remembered


REMEMBERED_LEGACY = {
    "as remembered": [(BEGIN, Initialize(NEWEST)), (SILENT, WAIT), (IS_LEGACY, LEGACY_AGREED)],
    "modern by now": [
        (BEGIN, Initialize(NEWEST)),
        (fails_initialize(-32601), Discover(MODERN)),
        (IS_MODERN, MODERN_AGREED),
    ],
    "answers initialize with nothing": [
        (BEGIN, Initialize(NEWEST)),
        (answers_initialize({}), Discover(MODERN)),
        (fails_discover(-32601), Refused("initialize was answered without a protocolVersion")),
    ],
    "neither": [
        (BEGIN, Initialize(NEWEST)),
        (fails_initialize(-32000, "no API key"), Discover(MODERN)),
        (fails_discover(-32601), Refused("initialize failed: no API key (code -32000)")),
    ],
    "silent on the probe after its error": [
        (BEGIN, Initialize(NEWEST)),
        (fails_initialize(-32000, "no API key"), Discover(MODERN)),
        (SILENT, Refused("initialize failed: no API key (code -32000)")),
    ],
    "exits on the probe after its error": [
        (BEGIN, Initialize(NEWEST)),
        (fails_initialize(-32000, "no API key"), Discover(MODERN)),
        (EXITS, Refused("initialize failed: no API key (code -32000)")),
    ],
    "exits": [(BEGIN, Initialize(NEWEST)), (EXITS, Died())],
    "modern by now, legacy revisions only": [
        (BEGIN, Initialize(NEWEST)),
        (fails_initialize(-32000, "no API key"), Discover(MODERN)),
        (answers_discover(discovered(NEWEST)), Refused("initialize failed: no API key (code -32000)")),
    ],
}


@pytest.mark.table("script", REMEMBERED_LEGACY.values(), ids=REMEMBERED_LEGACY.keys())
def test_what_is_remembered_as_legacy_is_spared_the_probe(script: Any) -> None:
    play("auto", "legacy", script)


# --- what a server says of itself


@pytest.mark.table(
    ("more", "expected"),
    [
        ({}, ({}, None)),
        ({"_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}}, (SERVER_INFO, None)),
        ({"serverInfo": SERVER_INFO}, (SERVER_INFO, None)),
        ({"_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}, "serverInfo": {}}, (SERVER_INFO, None)),
        ({"_meta": {"io.modelcontextprotocol/serverInfo": "x"}}, ({}, None)),
        ({"_meta": [], "serverInfo": []}, ({}, None)),
        ({"instructions": "be kind", "resultType": "complete"}, ({}, "be kind")),
        ({"instructions": 7}, ({}, None)),
    ],
    ids=str,
)
def test_a_modern_server_is_described_by_its_meta(more: Any, expected: Any) -> None:
    negotiation = Negotiation("auto", None)
    negotiation.begin()
    decision = negotiation.discover_answered(discovered(MODERN, **more))
    assert decision == Agreed("modern", MODERN, expected[0], {"tools": {}}, expected[1])


@pytest.mark.table(
    ("more", "expected"),
    [
        ({}, Agreed("legacy", NEWEST, {}, {}, None)),
        ({"capabilities": [], "serverInfo": []}, Agreed("legacy", NEWEST, {}, {}, None)),
        ({"capabilities": None, "serverInfo": "x", "instructions": []}, Agreed("legacy", NEWEST, {}, {}, None)),
        ({"capabilities": {"x": 1}, "instructions": "hi"}, Agreed("legacy", NEWEST, {}, {"x": 1}, "hi")),
    ],
    ids=str,
)
def test_a_legacy_server_need_not_describe_itself_well(more: Any, expected: Agreed) -> None:
    negotiation = Negotiation("legacy", None)
    negotiation.begin()
    assert negotiation.initialize_answered({"protocolVersion": NEWEST, **more}) == expected


def test_empty_capabilities_may_be_an_array() -> None:
    """PHP servers write an empty object as `[]`."""
    negotiation = Negotiation("auto", None)
    negotiation.begin()
    decision = negotiation.discover_answered({"supportedVersions": [MODERN], "capabilities": []})
    assert decision == Agreed("modern", MODERN, {}, {}, None)


@pytest.mark.table("protocol", ["", "AUTO", UNKNOWN, "2025-11-26"])
def test_an_unknown_protocol_is_a_value_error(protocol: Any) -> None:
    with pytest.raises(ValueError, match="unknown protocol"):
        Negotiation(protocol, None)


# --- any order of events


def acceptable(protocol: ProtocolChoice) -> tuple[str, ...]:
    return {
        "auto": MODERN_VERSIONS + LEGACY_VERSIONS,
        "modern": MODERN_VERSIONS,
        "legacy": LEGACY_VERSIONS,
    }.get(protocol, (protocol,))


protocols = st.sampled_from(["auto", "auto", "auto", "modern", "legacy", MODERN, OLDER])
eras = st.sampled_from([None, "modern", "legacy"])
version_lists = st.lists(st.sampled_from([MODERN, *LEGACY_VERSIONS, UNKNOWN, 5, None]), max_size=3)
junk: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.text(max_size=5) | st.lists(st.none(), max_size=1) | st.just({})
)
discover_results = junk | st.fixed_dictionaries(
    {},
    optional={
        "supportedVersions": version_lists | junk,
        "capabilities": junk,
        "_meta": junk,
        "serverInfo": junk,
        "instructions": junk,
        "resultType": st.just("complete") | junk,
    },
)
initialize_results = junk | st.fixed_dictionaries(
    {},
    optional={
        "protocolVersion": st.sampled_from([MODERN, *LEGACY_VERSIONS, UNKNOWN]) | junk,
        "capabilities": junk,
        "serverInfo": junk,
        "instructions": junk,
    },
)
codes = st.sampled_from([-32020, -32021, -32022, -32022, -32600, -32601, -32602, 0]) | st.integers()
error_data = junk | st.fixed_dictionaries({"supported": version_lists | junk})


class AnyOrder(RuleBasedStateMachine):
    """Whatever is reported in whatever order: one final decision at most, and never a dead end before it."""

    @initialize(protocol=protocols, remembered=eras)
    def start(self, protocol: ProtocolChoice, remembered: Any) -> None:
        self.protocol = protocol
        self.negotiation = Negotiation(protocol, remembered)
        self.decisions: list[Decision] = []
        self.to_begin = True  # the driver has a process that it has not spoken to
        self.open: set[str] = set()
        self.over = False

    def take(self, decision: Decision) -> None:
        if self.over:
            assert decision == WAIT
        self.decisions.append(decision)
        match decision:
            case Discover(version):
                assert "discover" not in self.open
                assert version in MODERN_VERSIONS
                assert version in acceptable(self.protocol)
                self.open.add("discover")
            case Initialize(version):
                assert "initialize" not in self.open
                assert version in LEGACY_VERSIONS
                assert version in acceptable(self.protocol)
                self.open.add("initialize")
            case Restart():
                self.open.clear()
                self.to_begin = True
            case Agreed(era, version):
                assert version in acceptable(self.protocol)
                assert version in (MODERN_VERSIONS if era == "modern" else LEGACY_VERSIONS)
                self.over = True
            case Refused(reason):
                assert reason.isprintable() or "\n" not in reason
                assert reason
                self.over = True
            case Died():
                self.over = True
            case _:
                assert decision == WAIT

    @rule()
    def begin(self) -> None:
        decision = self.negotiation.begin()
        assert isinstance(decision, Discover | Initialize) == (self.to_begin and not self.over)
        self.to_begin = False
        self.take(decision)

    @rule(result=discover_results)
    def discover_answered(self, result: Any) -> None:
        was_open = "discover" in self.open
        self.open.discard("discover")
        decision = self.negotiation.discover_answered(result)
        assert was_open or decision == WAIT
        self.take(decision)

    @rule(code=codes, message=st.text(max_size=5), data=error_data)
    def discover_failed(self, code: int, message: str, data: Any) -> None:
        was_open = "discover" in self.open
        self.open.discard("discover")
        decision = self.negotiation.discover_failed(code, message, data)
        assert was_open or decision == WAIT
        self.take(decision)

    @rule()
    def silent(self) -> None:
        self.take(self.negotiation.silent())

    @rule()
    def exited(self) -> None:
        decision = self.negotiation.exited()
        expects_more = not self.over and not self.to_begin
        assert isinstance(decision, Restart | Died | Refused) == expects_more
        self.take(decision)

    @rule(result=initialize_results)
    def initialize_answered(self, result: Any) -> None:
        was_open = "initialize" in self.open
        self.open.discard("initialize")
        decision = self.negotiation.initialize_answered(result)
        assert was_open or decision == WAIT
        self.take(decision)

    @rule(code=codes, message=st.text(max_size=5), data=error_data)
    def initialize_failed(self, code: int, message: str, data: Any) -> None:
        was_open = "initialize" in self.open
        self.open.discard("initialize")
        decision = self.negotiation.initialize_failed(code, message, data)
        assert was_open or decision == WAIT
        self.take(decision)

    @invariant()
    def something_is_always_awaited(self) -> None:
        """Else the driver would wait for ever on a server that answers everything."""
        assert self.over or self.to_begin or self.open

    @invariant()
    def nothing_is_sent_too_often(self) -> None:
        kinds = [type(decision) for decision in self.decisions]
        restarts = kinds.count(Restart)
        assert restarts <= 1
        assert kinds.count(Initialize) <= 1 + restarts
        assert kinds.count(Discover) <= 2
        last_start = kinds[kinds.index(Restart) :] if restarts else kinds
        assert last_start.count(Initialize) <= 1
        if restarts:
            assert self.protocol == "auto"
            assert Discover not in last_start
        if self.protocol in ("modern", MODERN):
            assert Initialize not in kinds
        if self.protocol in ("legacy", OLDER):
            assert Discover not in kinds


AnyOrder.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=25)
TestAnyOrderOfEvents = AnyOrder.TestCase


@given(
    protocols,
    eras,
    st.lists(
        st.tuples(discover_results, initialize_results, codes, error_data, st.integers(0, 3)),
        min_size=8,
        max_size=8,
    ),
)
@settings(max_examples=examples(300))
def test_a_server_that_reacts_at_all_is_settled_within_a_few_steps(
    protocol: ProtocolChoice, remembered: Any, reactions: list[Any]
) -> None:
    """A driver's own loop: each open request is answered, fails, or the process exits."""
    negotiation = Negotiation(protocol, remembered)
    decision = negotiation.begin()
    open_requests: list[str] = []
    for discover_result, initialize_result, code, data, kind in reactions:
        match decision:
            case Agreed() | Refused() | Died():
                return
            case Restart():
                open_requests.clear()
                decision = negotiation.begin()
                continue
            case Discover():
                open_requests.append("discover")
            case Initialize():
                open_requests.append("initialize")
        if kind == 3:
            decision = negotiation.exited()
            continue
        asked = open_requests.pop(0 if kind else -1)
        if asked == "discover":
            decision = (
                negotiation.discover_answered(discover_result)
                if kind == 1
                else negotiation.discover_failed(code, "no", data)
            )
        else:
            decision = (
                negotiation.initialize_answered(initialize_result)
                if kind == 1
                else negotiation.initialize_failed(code, "no", data)
            )
    assert isinstance(decision, Agreed | Refused | Died)


# --- beside the machine


def test_the_metadata_of_a_modern_request_has_the_keys_of_the_specification() -> None:
    meta = request_meta(MODERN, SERVER_INFO, {"elicitation": {"form": {}}})
    assert meta == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": SERVER_INFO,
    }


def test_each_request_has_metadata_of_its_own() -> None:
    """The caller adds a progress token to it."""
    info = dict(SERVER_INFO)
    meta = request_meta(MODERN, info, {})
    meta["progressToken"] = 7
    meta["io.modelcontextprotocol/clientInfo"]["name"] = "changed"
    assert "progressToken" not in request_meta(MODERN, info, {})
    assert info == SERVER_INFO


def test_an_era_is_remembered_until_it_is_forgotten() -> None:
    memory = EraMemory()
    key = ("uvx", ("server",), None)
    assert memory.recall(key) is None
    memory.remember(key, "legacy")
    assert memory.recall(("uvx", ("server",), None)) == "legacy"
    memory.remember(key, "modern")
    assert memory.recall(key) == "modern"
    memory.forget(key)
    memory.forget(key)
    assert memory.recall(key) is None


def test_the_memory_of_eras_is_bounded_and_keeps_the_newest() -> None:
    memory = EraMemory(limit=3)
    for key in "abc":
        memory.remember(key, "legacy")
    memory.remember("a", "modern")
    memory.remember("d", "modern")
    assert [memory.recall(key) for key in "abcd"] == ["modern", None, "legacy", "modern"]
    assert len(memory) == 3


def test_the_memory_of_the_process_holds_1024_servers() -> None:
    assert isinstance(ERAS, EraMemory)
    memory = EraMemory()
    for number in range(2000):
        memory.remember(number, "legacy")
    assert len(memory) == 1024
    assert memory.recall(1999) == "legacy"
    assert memory.recall(975) is None


def test_the_memory_of_eras_may_be_used_by_several_threads() -> None:
    """A program may run trio in more than one."""
    memory = EraMemory(limit=2)
    failures: list[BaseException] = []

    def use(offset: int) -> None:
        try:
            for number in range(2000):
                memory.remember((offset, number % 5), "legacy")
                memory.forget((offset + 1, number % 5))
                memory.recall((offset, number % 5))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(memory) <= 2
