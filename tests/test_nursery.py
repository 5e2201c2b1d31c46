"""`bare_nursery`: which exception leaves, case by case."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp.nursery import bare_nursery

Task = Callable[[], Awaitable[None]]


def failing(error: BaseException) -> Task:
    """A task that raises this as soon as everybody else waits."""

    async def fail() -> None:
        await wait_all_tasks_blocked()
        raise error

    return fail


async def held(body: Task, *tasks: Task) -> None:
    """This body in a bare nursery with these tasks."""
    with trio.fail_after(5):
        async with bare_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)
            await body()


async def leaving(body: Task, *tasks: Task) -> BaseException:
    """What leaves; it has to."""
    with pytest.raises(BaseException) as caught:
        await held(body, *tasks)
    return caught.value


async def test_nothing_leaves_where_nothing_is_wrong() -> None:
    await held(trio.lowlevel.checkpoint, trio.lowlevel.checkpoint)


@pytest.mark.table("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
async def test_the_bodys_exception_leaves_as_itself(error: BaseException) -> None:
    assert await leaving(failing(error), trio.sleep_forever) is error
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("error", [ValueError("its"), KeyboardInterrupt()], ids=repr)
async def test_one_tasks_exception_leaves_bare_and_cancels_the_body(error: BaseException) -> None:
    assert await leaving(trio.sleep_forever, failing(error)) is error
    assert await leaving(trio.lowlevel.checkpoint, failing(error)) is error


async def test_several_tasks_exceptions_leave_as_a_group() -> None:
    errors = [ValueError("one"), KeyError("two")]
    group = await leaving(trio.sleep_forever, *map(failing, errors))
    assert isinstance(group, ExceptionGroup)
    assert set(group.exceptions) == set(errors)


async def test_the_bodys_exception_wins_and_the_tasks_are_its_notes() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")

    error = await leaving(fail_when_cancelled, failing(KeyError("its")))
    assert repr(error) == "ValueError('mine')"
    assert error.__notes__ == ["meanwhile: KeyError('its')"]


async def test_a_group_of_the_body_leaves_as_it_is() -> None:
    group = ExceptionGroup("mine", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])
    assert await leaving(failing(group), trio.sleep_forever) is group
    assert not hasattr(group, "__notes__")


async def test_a_group_of_the_body_loses_the_cancelled_that_a_task_caused() -> None:
    async def body() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("mine")

    error = await leaving(body, failing(KeyError("its")))
    assert isinstance(error, ExceptionGroup), "without BaseException in it"
    assert [repr(part) for part in error.exceptions] == ["ValueError('mine')"]
    assert error.__notes__ == ["meanwhile: KeyError('its')"]


async def test_an_outer_cancel_passes_and_is_caught_outside() -> None:
    with trio.CancelScope() as scope:

        async def body() -> None:
            scope.cancel()
            await trio.sleep_forever()

        await held(body, trio.sleep_forever)
    assert scope.cancelled_caught


async def test_an_outer_cancel_of_the_tasks_alone_passes_too() -> None:
    with trio.CancelScope() as scope:
        async with bare_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)
            scope.cancel()
        pytest.fail("what stands behind a cancelled nursery runs")


async def test_an_outer_cancel_of_a_body_with_tasks_of_its_own_leaves_no_group() -> None:
    with trio.CancelScope() as scope:

        async def body() -> None:
            async with trio.open_nursery() as inner:
                for _ in range(3):
                    inner.start_soon(trio.sleep_forever)
                scope.cancel()

        await held(body, trio.sleep_forever)
    assert scope.cancelled_caught


async def test_a_tasks_exception_under_an_outer_cancel_is_not_lost() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("its")

    scope = trio.CancelScope()

    async def body() -> None:
        await wait_all_tasks_blocked()
        scope.cancel()
        await trio.sleep_forever()

    with pytest.raises(KeyError), scope:
        await held(body, fail_when_cancelled)


async def test_an_inner_cancel_scope_of_the_body_is_none_of_its_business() -> None:
    async def body() -> None:
        with trio.move_on_after(0) as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught

    await held(body)


async def test_the_context_of_the_bodys_exception_stays() -> None:
    async def body() -> None:
        try:
            raise OSError("first")
        except OSError:
            raise ValueError("second")  # noqa: B904 - its context is what is looked at

    error = await leaving(body)
    assert repr(error.__context__) == "OSError('first')"


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit], ids=lambda kind: kind.__name__)
async def test_what_is_no_exception_wins_over_what_tidying_up_raises(ends: type[BaseException]) -> None:
    async def body() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("tidying up")

    error = await leaving(body, failing(ends()))
    assert type(error) is ends
    assert error.__notes__ == ["meanwhile: ValueError('tidying up')"]
    shown = "".join(traceback.format_exception(error))
    assert "in body" in shown, "the traceback of what is set aside is shown"


async def test_what_is_no_exception_wins_over_the_exceptions_of_other_tasks() -> None:
    error = await leaving(trio.sleep_forever, failing(KeyError("its")), failing(KeyboardInterrupt()))
    assert type(error) is KeyboardInterrupt
    assert error.__notes__ == ["meanwhile: KeyError('its')"]
    assert "KeyError: 'its'" in "".join(traceback.format_exception(error))


async def test_what_a_task_raised_meanwhile_keeps_its_traceback() -> None:
    async def body() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")

    error = await leaving(body, failing(KeyError("its")))
    assert type(error) is ValueError
    assert "raise error" in "".join(traceback.format_exception(error))


async def test_an_exception_that_cannot_be_shown_is_set_aside_all_the_same() -> None:
    class Mute(Exception):  # noqa: N818 - it says nothing
        def __repr__(self) -> str:
            raise RuntimeError

    async def body() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Mute

    error = await leaving(body, failing(KeyboardInterrupt()))
    assert error.__notes__ == ["meanwhile: Mute"]


async def test_exceptions_that_know_one_another_are_set_aside_without_a_circle() -> None:
    one, other = ValueError("one"), KeyError("other")
    other.__context__ = one

    async def body() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise one

    assert await leaving(body, failing(other)) is one
    assert one.__context__ is not other or other.__context__ is None
