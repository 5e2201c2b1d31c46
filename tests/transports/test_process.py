"""The stop ladder, step by step, with a group on paper: what is done, in which order, at which second."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints

from tests.fakes import DEAF_TO_EOF, DEAF_TO_TERM, IMMORTAL, POLITE, FakeHandle, FakeProcess, Manners
from trio_mcp.transports.limits import ProcessLimits

LIMITS = ProcessLimits()

STOP_TIMEOUT = 5.0

#: The most that a close may take, promised as stop_timeout and a fixed bound.
FIXED_BOUND = 5.0


async def stop(
    leader: Manners, children: Iterable[Manners] = (), stop_timeout: float = STOP_TIMEOUT
) -> FakeHandle:
    """Run the ladder from second 0 on; the handle with its log."""
    process = FakeProcess(leader, children)
    assert trio.current_time() == 0
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch)
            with assert_checkpoints():
                await process.stop(stop_timeout)
            nursery.cancel_scope.cancel()
    return process.handle


async def test_a_polite_leader_without_children_costs_no_wait(autojump_clock: MockClock) -> None:
    handle = await stop(POLITE)
    assert handle.log == [(0, "EOF"), (0, "SIGTERM"), (0, "SIGCONT"), (0, "reap"), (0, "release")]
    assert trio.current_time() == 0


async def test_a_leader_gets_the_time_it_needs_after_the_end_of_its_input(autojump_clock: MockClock) -> None:
    handle = await stop(Manners(eof=4.5))
    assert handle.log == [(0, "EOF"), (4.5, "SIGTERM"), (4.5, "SIGCONT"), (4.5, "reap"), (4.5, "release")]


async def test_children_of_a_polite_leader_are_signalled_and_waited_for(autojump_clock: MockClock) -> None:
    handle = await stop(POLITE, [Manners(term=0.25)])
    assert handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "release"]
    assert 0.25 <= trio.current_time() < LIMITS.group_grace


async def test_a_child_deaf_to_sigterm_is_killed_after_group_grace(autojump_clock: MockClock) -> None:
    handle = await stop(POLITE, [DEAF_TO_TERM])
    assert handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "SIGKILL", "release"]
    assert handle.log[-2:] == [(LIMITS.group_grace, "SIGKILL"), (LIMITS.group_grace, "release")]


async def test_a_leader_deaf_to_the_end_of_input_is_signalled_at_stop_timeout(autojump_clock: MockClock) -> None:
    handle = await stop(DEAF_TO_EOF)
    at = STOP_TIMEOUT
    assert handle.log == [(0, "EOF"), (at, "SIGTERM"), (at, "SIGCONT"), (at, "reap"), (at, "release")]


async def test_a_leader_that_is_just_in_time_is_not_cut_short(autojump_clock: MockClock) -> None:
    handle = await stop(Manners(eof=STOP_TIMEOUT - 0.001))
    assert handle.log[1] == (STOP_TIMEOUT - 0.001, "SIGTERM")


async def test_stop_timeout_0_signals_at_once(autojump_clock: MockClock) -> None:
    handle = await stop(DEAF_TO_EOF, stop_timeout=0)
    assert handle.log[:3] == [(0, "EOF"), (0, "SIGTERM"), (0, "SIGCONT")]


async def test_a_leader_gets_term_grace_to_tidy_up(autojump_clock: MockClock) -> None:
    handle = await stop(Manners(term=LIMITS.term_grace - 0.001))
    assert "SIGKILL" not in handle.names
    assert handle.log[-1][0] == pytest.approx(STOP_TIMEOUT + LIMITS.term_grace - 0.001)


async def test_a_leader_deaf_to_sigterm_is_killed_after_term_grace(autojump_clock: MockClock) -> None:
    handle = await stop(DEAF_TO_TERM)
    at = STOP_TIMEOUT + LIMITS.term_grace
    assert handle.log[3:] == [(at, "SIGKILL"), (at, "reap"), (at, "release")]


async def test_children_die_with_a_leader_that_has_to_be_killed(autojump_clock: MockClock) -> None:
    handle = await stop(DEAF_TO_TERM, [DEAF_TO_TERM, DEAF_TO_TERM])
    assert handle.names == ["EOF", "SIGTERM", "SIGCONT", "SIGKILL", "reap", "release"]
    assert trio.current_time() == STOP_TIMEOUT + LIMITS.term_grace


async def test_a_leader_that_never_dies_is_left_behind_unreaped_and_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Reaping would block, and the group must not be asked while the leader may be a zombie."""
    with caplog.at_level(logging.ERROR, "trio_mcp.transports"):
        handle = await stop(IMMORTAL)
    assert handle.names == ["EOF", "SIGTERM", "SIGCONT", "SIGKILL", "release"]
    assert trio.current_time() == STOP_TIMEOUT + LIMITS.term_grace + LIMITS.kill_grace
    assert handle.looks == []
    assert "left behind" in caplog.text


async def test_a_group_that_never_looks_empty_ends_the_wait_all_the_same(autojump_clock: MockClock) -> None:
    """Zombie orphans count as present where no init reaps them."""
    handle = await stop(POLITE, [IMMORTAL])
    assert handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "SIGKILL", "release"]
    assert handle.log[-2:] == [
        (LIMITS.group_grace, "SIGKILL"),
        (LIMITS.group_grace + LIMITS.orphan_grace, "release"),
    ]


@pytest.mark.parametrize("children", [(), (IMMORTAL,)])
@pytest.mark.parametrize("leader", [POLITE, DEAF_TO_EOF, DEAF_TO_TERM, IMMORTAL, Manners(term=1.999, kill=1.999)])
async def test_whatever_happens_the_ladder_ends_within_its_bound(
    autojump_clock: MockClock, leader: Manners, children: tuple[Manners, ...]
) -> None:
    await stop(leader, children)
    assert trio.current_time() <= STOP_TIMEOUT + FIXED_BOUND


@pytest.mark.parametrize("children", [(), (POLITE,), (DEAF_TO_TERM,), (IMMORTAL,)])
@pytest.mark.parametrize("leader", [POLITE, DEAF_TO_EOF, DEAF_TO_TERM, Manners(eof=1.0, term=0.5)])
async def test_the_leader_is_reaped_only_after_the_group_was_signalled(
    autojump_clock: MockClock, leader: Manners, children: tuple[Manners, ...]
) -> None:
    """Reaping frees the group's number: whoever has it next would be signalled. `FakeHandle` holds the rest:
    it refuses to be reaped alive, and to say whether it is empty before it has been reaped."""
    handle = await stop(leader, children)
    assert handle.names.index("SIGTERM") < handle.names.index("reap")
    assert handle.looks[0] >= {name: at for at, name in handle.log}["reap"]
    assert handle.names.count("reap") == handle.names.count("release") == 1


async def test_a_stopped_process_is_continued_so_that_it_can_act_on_sigterm(autojump_clock: MockClock) -> None:
    handle = await stop(DEAF_TO_EOF)
    assert handle.names.index("SIGCONT") == handle.names.index("SIGTERM") + 1


async def test_a_leader_that_was_gone_before_the_stop_costs_no_wait(autojump_clock: MockClock) -> None:
    process = FakeProcess()
    process.exit(3)
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch)
            await process.exited.wait()
            await process.stop(STOP_TIMEOUT)
    assert (process.returncode, trio.current_time()) == (3, 0)
    assert process.handle.names == ["EOF", "SIGTERM", "SIGCONT", "reap", "release"]


async def test_the_ladder_looks_rarely_at_a_group_that_stays(autojump_clock: MockClock) -> None:
    handle = await stop(POLITE, [IMMORTAL])
    assert len(handle.looks) < 30
