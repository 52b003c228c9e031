from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.agent.conftest import SCRIPT, instance_command, runtime_on
from tests.patience import patient
from wharfinger.errors import ServerError
from wharfinger.fleet.agent.processes import LOGS_KEPT, Processes
from wharfinger.process.children import locks
from wharfinger.process.children.lives import ProcessLife, life, started
from wharfinger.process.children.runtime import Ending, InstanceId

FIRST = InstanceId("common", 0, 1)


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(patient(seconds)):
        while not true():
            await asyncio.sleep(0.01)


async def next_ending(runtime: Processes) -> Ending:
    async with asyncio.timeout(patient(10)):
        return await anext(runtime.endings())


def says(runtime: Processes, instance: InstanceId, word: str) -> bool:
    log = runtime.log(instance)
    return log.exists() and word in log.read_text()


async def test_instance_has_its_own_session_log_and_empty_environment(data: Path) -> None:
    async with runtime_on(data) as runtime:
        process = await runtime.start(FIRST, instance_command(runtime.lock(FIRST)))
        await until(lambda: says(runtime, FIRST, "up"))

        assert os.getsid(process.pid) == process.pid
        environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert {part.partition(b"=")[0] for part in environ.split(b"\0") if part} <= {b"PYTHONPATH"}
        assert locks.locked(runtime.lock(FIRST))
        assert locks.signer(runtime.lock(FIRST)) == life(process.pid)


async def test_a_second_start_answers_the_first_process(data: Path) -> None:
    async with runtime_on(data) as runtime:
        command = instance_command(runtime.lock(FIRST))
        one, two = await asyncio.gather(runtime.start(FIRST, command), runtime.start(FIRST, command))
        three = await runtime.start(FIRST, command)

        assert one.pid == two.pid == three.pid
        assert len(runtime.running()) == 1


@pytest.mark.parametrize(
    ("what", "how", "number", "words"), [("exit0", "code", 0, "leaving with exit0"), ("exit3", "code", 3, "exit3")]
)
async def test_end_is_reported_with_its_code_and_last_words(
    data: Path, what: str, how: str, number: int, words: str
) -> None:
    async with runtime_on(data) as runtime:
        await runtime.start(FIRST, instance_command(runtime.lock(FIRST), what))

        ending = await next_ending(runtime)

        assert (ending.id, ending.how, ending.number) == (FIRST, how, number)
        assert words in ending.last_words
        assert runtime.find(FIRST) is None
        assert runtime.lived(FIRST)


async def test_a_life_that_is_over_is_not_begun_again(data: Path) -> None:
    async with runtime_on(data) as runtime:
        command = instance_command(runtime.lock(FIRST), "exit0")
        await runtime.start(FIRST, command)
        await next_ending(runtime)

        with pytest.raises(ServerError, match="has lived already"):
            await runtime.start(FIRST, command)


async def test_sigterm_lets_it_leave_and_sigkill_takes_its_session_along(data: Path) -> None:
    second = InstanceId("common", 1, 1)
    async with runtime_on(data) as runtime:
        await runtime.start(FIRST, instance_command(runtime.lock(FIRST), "polite"))
        await runtime.start(second, instance_command(runtime.lock(second), "child"))
        await until(lambda: says(runtime, FIRST, "up") and says(runtime, second, "up"))
        grandchild = int(runtime.log(second).read_text().split()[1])

        await runtime.terminate(FIRST)
        assert await runtime.wait(FIRST, patient(20))
        await runtime.kill(second)
        assert await runtime.wait(second, patient(20))

        ends = {ending.id: ending for ending in [await next_ending(runtime), await next_ending(runtime)]}
        assert (ends[FIRST].how, ends[FIRST].number) == ("code", 0)
        assert (ends[second].how, ends[second].number) == ("signal", 9)
        await until(lambda: started(grandchild) is None)


async def test_what_an_instance_left_behind_ends_with_it(data: Path) -> None:
    async with runtime_on(data) as runtime:
        process = await runtime.start(FIRST, instance_command(runtime.lock(FIRST), "child"))
        await until(lambda: says(runtime, FIRST, "up"))
        grandchild = int(runtime.log(FIRST).read_text().split()[1])

        os.kill(process.pid, 9)

        assert await runtime.wait(FIRST, patient(20))
        await until(lambda: started(grandchild) is None)


async def test_waiting_for_one_that_stays_ends_in_time(data: Path) -> None:
    async with runtime_on(data) as runtime:
        await runtime.start(FIRST, instance_command(runtime.lock(FIRST), "stubborn"))
        await until(lambda: says(runtime, FIRST, "up"))
        await runtime.terminate(FIRST)

        assert not await runtime.wait(FIRST, 0.1)


async def test_next_runtime_adopts_live_processes_and_reports_ended_ones(data: Path) -> None:
    second = InstanceId("common", 1, 7)
    async with runtime_on(data) as earlier:
        process = await earlier.start(FIRST, instance_command(earlier.lock(FIRST), "polite"))
        gone = await earlier.start(second, instance_command(earlier.lock(second)))
        await until(lambda: says(earlier, FIRST, "up") and says(earlier, second, "up"))
    os.kill(gone.pid, 9)
    os.waitpid(gone.pid, 0)

    async with runtime_on(data) as runtime:
        ended = await runtime.adopt()

        assert [(ending.id, ending.how, ending.last_words) for ending in ended] == [(second, "unknown", "up")]
        assert [(known.id, known.pid, known.adopted) for known in runtime.running()] == [(FIRST, process.pid, True)]
        again = await runtime.start(FIRST, instance_command(runtime.lock(FIRST)))
        assert again.pid == process.pid

        signed = time.time() - 3600
        os.utime(runtime.lock(FIRST), (signed, signed))
        await runtime.terminate(FIRST)
        ending = await next_ending(runtime)
        assert (ending.id, ending.how) == (FIRST, "unknown")
        assert ending.lived >= 3600  # until now, though it may have said nothing for long


async def test_process_of_an_agent_killed_right_after_the_fork_is_adopted(data: Path) -> None:
    """The earlier one dies before it has signed the lock; its child, which has not locked it yet, is stopped there."""
    dying = textwrap.dedent(
        """
        import os, pathlib, signal, subprocess, sys
        from wharfinger.process.children import locks
        path = pathlib.Path(sys.argv[1])
        lock = locks.take(path)
        stopped = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)\\n" + sys.argv[2]
        child = subprocess.Popen([sys.executable, "-c", stopped, str(path), "sleep"],
                                 pass_fds=(lock.descriptor,), start_new_session=True)
        os.waitpid(child.pid, os.WUNTRACED)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    async with runtime_on(data) as runtime:
        path = runtime.lock(FIRST)
        path.parent.mkdir(parents=True)
        subprocess.run([sys.executable, "-c", dying, str(path), SCRIPT], check=False)
        assert path.read_bytes() == b""

        assert await runtime.adopt() == []

        (adopted,) = runtime.running()
        assert adopted.adopted
        assert (await runtime.start(FIRST, instance_command(path))).pid == adopted.pid
        os.kill(adopted.pid, 18)  # SIGCONT
        await until(lambda: locks.signer(path) == life(adopted.pid))


async def test_one_that_dies_while_it_is_looked_for_has_ended(data: Path) -> None:
    """Its lock was held at the first look, and no process is found that has it."""
    async with runtime_on(data) as runtime:
        lock = locks.take(runtime.lock(FIRST))
        assert lock is not None
        lock.sign(ProcessLife(os.getpid(), "an earlier process"))

        class Dies(logging.Handler):
            def emit(self, _: logging.LogRecord) -> None:
                lock.close()

        dies = Dies()
        logging.getLogger("wharfinger.fleet.agent.processes").addHandler(dies)
        try:
            ended = await runtime.adopt()
        finally:
            logging.getLogger("wharfinger.fleet.agent.processes").removeHandler(dies)

        assert [(ending.id, ending.how) for ending in ended] == [(FIRST, "unknown")]
        assert runtime.running() == []


async def test_lock_without_a_process_is_no_incarnation(data: Path) -> None:
    async with runtime_on(data) as runtime:
        lock = locks.take(runtime.lock(FIRST))
        assert lock is not None
        lock.close()  # the agent died between the lock and the fork

        assert await runtime.adopt() == []
        assert not runtime.lived(FIRST)
        assert (await runtime.start(FIRST, instance_command(runtime.lock(FIRST)))).pid


async def test_a_pid_that_is_used_again_is_never_hit(data: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        async with runtime_on(data) as runtime:
            lock = locks.take(runtime.lock(FIRST))
            known = life(bystander.pid)
            assert lock is not None
            assert known is not None
            lock.sign(ProcessLife(known.pid, "another-boot:" + known.started.partition(":")[2]))
            lock.close()

            ended = await runtime.adopt()
            await runtime.terminate(FIRST)
            await runtime.kill(FIRST)

            assert [(ending.id, ending.last_words) for ending in ended] == [(FIRST, "the host was started anew")]
            assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_an_executable_that_cannot_be_run_leaves_no_life(data: Path) -> None:
    async with runtime_on(data) as runtime:
        command = instance_command(runtime.lock(FIRST))
        broken = type(command)(data / "nothing", (), {})

        with pytest.raises(ServerError, match="cannot be run"):
            await runtime.start(FIRST, broken)

        assert not runtime.lived(FIRST)
        assert (await runtime.start(FIRST, command)).pid


async def test_a_start_whose_asker_went_away_is_known(data: Path) -> None:
    async with runtime_on(data) as runtime:
        asking = asyncio.create_task(runtime.start(FIRST, instance_command(runtime.lock(FIRST))))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

        await until(lambda: runtime.find(FIRST) is not None)


async def test_what_is_forgotten_leaves_the_last_logs_only(data: Path) -> None:
    async with runtime_on(data) as runtime:
        for incarnation in range(1, LOGS_KEPT + 3):
            instance = InstanceId("common", 0, incarnation)
            (runtime.folder(instance) / "secret").write_text("hidden")
            await runtime.start(instance, instance_command(runtime.lock(instance), "exit0"))
            await next_ending(runtime)
            await runtime.forget(instance)

        left = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
        assert left == {f"instances/common/0/{incarnation}.log" for incarnation in range(3, LOGS_KEPT + 3)}


async def test_files_of_one_that_never_started_are_forgotten_too(data: Path) -> None:
    """Secrets may lie there."""
    async with runtime_on(data) as runtime:
        (runtime.folder(FIRST) / "secret").write_text("kept")
        (data / "instances" / "common" / "0" / "config").mkdir()
        assert list(runtime.remains()) == [FIRST]

        await runtime.forget(FIRST)
        assert list(runtime.remains()) == []
        assert [path.name for path in (data / "instances" / "common" / "0").iterdir()] == ["config"]


async def test_what_lives_is_not_forgotten(data: Path) -> None:
    async with runtime_on(data) as runtime:
        await runtime.start(FIRST, instance_command(runtime.lock(FIRST)))

        await runtime.forget(FIRST)

        assert locks.locked(runtime.lock(FIRST))


async def test_memory_is_bounded_where_there_is_no_cgroup(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with runtime_on(data) as runtime:
        process = await runtime.start(FIRST, instance_command(runtime.lock(FIRST), memory=512 * 1024 * 1024, cpu=500))

        bounds = Path(f"/proc/{process.pid}/limits").read_text()

        assert any(line.startswith("Max data size") and str(512 * 1024 * 1024) in line for line in bounds.splitlines())
        assert "cgroup_not_delegated" in caplog.text


async def test_the_next_runtime_puts_limits_on_again(data: Path) -> None:
    """As when the earlier one died right after the fork, or its part of the hierarchy was made anew."""
    (former := data / "former").mkdir()
    (group := data / "group").mkdir()
    second = FIRST._replace(slot=1)
    async with runtime_on(data, former) as earlier:
        bounded = instance_command(earlier.lock(FIRST), memory=512 * 1024 * 1024, cpu=500)
        process = await earlier.start(FIRST, bounded)
        await earlier.start(second, instance_command(earlier.lock(second)))
        await until(lambda: says(earlier, FIRST, "up") and says(earlier, second, "up"))

    async with runtime_on(data, group) as runtime:
        await runtime.adopt()

        assert len(runtime.running()) == 2
        assert [entry.name for entry in group.iterdir()] == ["common.0.1"]
        assert (group / "common.0.1" / "memory.max").read_text() == str(512 * 1024 * 1024)
        assert (group / "common.0.1" / "cpu.max").read_text() == "50000 100000"
        assert (group / "common.0.1" / "cgroup.procs").read_text() == str(process.pid)


async def test_adopted_instance_without_a_cgroup_is_bounded_and_logged_once(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (former := data / "former").mkdir()
    instances = [FIRST, FIRST._replace(slot=1)]
    async with runtime_on(data, former) as earlier:  # a tree of files bounds nothing
        for instance in instances:
            await earlier.start(instance, instance_command(earlier.lock(instance), memory=512 * 1024 * 1024))
        await until(lambda: all(says(earlier, instance, "up") for instance in instances))

    async with runtime_on(data) as runtime:
        await runtime.adopt()

        for process in runtime.running():
            lines = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
            assert any(line.startswith("Max data size") and str(512 * 1024 * 1024) in line for line in lines)
        assert len(runtime.running()) == 2
        assert caplog.text.count("cgroup_not_delegated") == 1


async def test_files_of_strange_names_are_passed_over(data: Path) -> None:
    strange = data / "instances" / "common" / "x"
    strange.mkdir(parents=True)
    (strange / "1.lock").write_text("{}")
    async with runtime_on(data) as runtime:
        assert await runtime.adopt() == []
