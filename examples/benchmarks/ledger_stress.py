"""Race and kill processes that spend from one ledger file, and time a spend.

python examples/benchmarks/ledger_stress.py --rounds 100 \\
    > examples/benchmarks/ledger_stress.txt

A race: sixteen processes want two spends each when only two are left. A kill: four
processes spend without pause and report each spend once it is acknowledged; all are
killed with SIGKILL after a random time. Then the file must be sound, hold each
acknowledged spend, and no more than one spend beyond those per process. Apart: a thread
and a process wait at one ledger, whose file is held, while another is spent from. Needs
`fork`.
"""

import argparse
import os
import platform
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from fairpriv_sklearn.accounting import GaussianEvent, PureEvent
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
)

N_RACERS = 16
N_VICTIMS = 4
FIT = PrivacyGuarantee(1.0, 0.0, "replace_one", "counts", events=(PureEvent(1.0),))
GAUSSIAN_FIT = PrivacyGuarantee.from_events(
    [GaussianEvent(0.01, 100)],
    delta=1e-5,
    neighboring="replace_one",
    mechanism="sums",
)


def spawn(work) -> tuple[int, int]:
    """Run `work(pipe to write to)` in a child; return its id and the other end."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            work(write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    return child, read_end


def read_all(descriptor: int) -> list[str]:
    """Return the complete lines that a child wrote."""
    with os.fdopen(descriptor) as stream:
        return [line[:-1] for line in stream if line.endswith("\n")]


def race(folder) -> dict:
    """Let processes race for the last two spends of a budget."""
    path = Path(folder) / "race.ledger"
    ledger = PrivacyLedger(5, 1e-5, path)
    for _ in range(3):
        ledger.spend(FIT)
    gate_out, gate_in = os.pipe()  # all wait until it is closed

    def racer(pipe):
        os.close(gate_in)
        os.read(gate_out, 1)
        for _ in range(2):
            try:
                ledger.spend(FIT, label=str(os.getpid()))
                os.write(pipe, b"accepted\n")
            except BudgetExceededError:
                os.write(pipe, b"refused\n")

    children = [spawn(racer) for _ in range(N_RACERS)]
    os.close(gate_in)
    os.close(gate_out)
    answers = [line for _, pipe in children for line in read_all(pipe)]
    for child, _ in children:
        os.waitpid(child, 0)
    return {
        "answers": len(answers),
        "accepted": answers.count("accepted"),
        "recorded": len(ledger.spends()),
        "epsilon": ledger.total().epsilon,
    }


def kill(folder, seconds: float) -> dict:
    """Kill processes amid their spends and compare the file with what they reported."""
    path = Path(folder) / "kill.ledger"
    ledger = PrivacyLedger(float("inf"), 1e-5, path)

    def victim(pipe):
        for number in range(1_000_000):
            label = f"{os.getpid()} {number}"
            ledger.spend(GAUSSIAN_FIT, label=label)
            os.write(pipe, f"{label}\n".encode())

    children = [spawn(victim) for _ in range(N_VICTIMS)]
    time.sleep(seconds)
    for child, _ in children:
        os.kill(child, signal.SIGKILL)
    for child, _ in children:
        os.waitpid(child, 0)
    acknowledged = {line for _, pipe in children for line in read_all(pipe)}
    journal = Path(f"{path}-journal")
    interrupted = journal.exists() and journal.stat().st_size > 0

    # Opening checks the whole file; `spends` the digest of each row and their chain.
    ledger = PrivacyLedger(float("inf"), 1e-5, path)
    recorded = [spend["label"] for spend in ledger.spends()]
    ledger.spend(GAUSSIAN_FIT, label="alive")
    with sqlite3.connect(path) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return {
        "acknowledged": len(acknowledged),
        "recorded": len(recorded),
        "lost": len(acknowledged - set(recorded)),
        "twice": len(recorded) - len(set(recorded)),
        "unacknowledged": len(set(recorded) - acknowledged),
        "interrupted": interrupted,
        "sound": sound and len(ledger.spends()) == len(recorded) + 1,
    }


def apart(folder, n_spends: int = 200) -> dict:
    """Spend from one ledger while a thread and a process wait at another."""
    held, free = (
        PrivacyLedger(1000, 1e-5, Path(folder) / f"{name}.ledger")
        for name in ("held", "free")
    )
    gate_out, gate_in = os.pipe()

    def wait(pipe):
        os.close(gate_in)
        os.read(gate_out, 1)
        held.spend(FIT)

    child, pipe = spawn(wait)  # before the file is held: a fork keeps such locks
    blocker = sqlite3.connect(held.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    os.close(gate_in)
    thread = threading.Thread(target=held.spend, args=(FIT,))
    thread.start()
    milliseconds = []
    for _ in range(n_spends):
        start = time.perf_counter()
        free.spend(FIT)
        milliseconds.append(1e3 * (time.perf_counter() - start))
    waited = thread.is_alive() and os.waitpid(child, os.WNOHANG) == (0, 0)
    blocker.execute("ROLLBACK")
    blocker.close()
    thread.join()
    read_all(pipe)
    os.waitpid(child, 0)
    os.close(gate_out)
    return {
        "waited": waited,
        "recorded": (len(held.spends()), len(free.spends())),
        "median": statistics.median(milliseconds),
        "longest": max(milliseconds),
    }


def timings(path, n_spends: int = 1000) -> tuple[list[float], float]:
    """Return the milliseconds of each spend, sorted, and the mean on the processor."""
    ledger = PrivacyLedger(50, 1e-5, path)
    milliseconds = []
    busy = time.process_time()
    for number in range(n_spends):
        start = time.perf_counter()
        ledger.spend(GAUSSIAN_FIT, label=f"fit {number}")
        milliseconds.append(1e3 * (time.perf_counter() - start))
    busy = time.process_time() - busy
    return sorted(milliseconds), 1e3 * busy / n_spends


def flush_milliseconds(folder, n_times: int = 100) -> float:
    """Return the median time the disk takes for one `fsync`."""
    milliseconds = []
    with open(Path(folder) / "flush", "wb", buffering=0) as stream:
        for _ in range(n_times):
            stream.write(b"x")
            start = time.perf_counter()
            os.fsync(stream.fileno())
            milliseconds.append(1e3 * (time.perf_counter() - start))
    return statistics.median(milliseconds)


def print_timings(folder):
    print(f"\none fsync of this disk: median {flush_milliseconds(folder):.2f} ms")
    for name, path in (("memory", None), ("SQLite", Path(folder) / "timed.ledger")):
        sorted_times, busy = timings(path)
        n_times = len(sorted_times)
        print(
            f"{name}: {n_times} spends, "
            f"median {sorted_times[n_times // 2]:.3f} ms, "
            f"mean {statistics.fmean(sorted_times):.3f} ms, "
            f"95 % {sorted_times[int(0.95 * n_times)]:.3f} ms, "
            f"longest {sorted_times[-1]:.3f} ms; "
            f"{busy:.3f} ms of it on the processor"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    n_rounds = parser.parse_args().rounds
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    print(f"ledger_stress.py --rounds {n_rounds}")
    print(f"{versions}, {platform.system()}, {os.cpu_count()} cores")
    print(f"load average at the start: {os.getloadavg()[0]:.1f}")

    races, kills = [], []
    chance = random.Random(0)
    for number in range(n_rounds):
        with tempfile.TemporaryDirectory() as folder:
            races.append(race(folder))
            kills.append(kill(folder, seconds=chance.uniform(0.005, 0.2)))
        print(f"round {number + 1} of {n_rounds}", end="\r", file=sys.stderr)

    print(f"\n{n_rounds} races of {N_RACERS} processes for the last 2 of 5 spends")
    print(f"  accepted in each race: {sorted({one['accepted'] for one in races})}")
    print(f"  recorded in each file: {sorted({one['recorded'] for one in races})}")
    print(
        f"  largest total: {max(one['epsilon'] for one in races):.6g} under a cap of 5"
    )

    def total(key):
        return sum(one[key] for one in kills)

    print(f"\n{n_rounds} rounds of {N_VICTIMS} processes killed amid their spends")
    print(f"  acknowledged spends: {total('acknowledged')}")
    print(f"  acknowledged but lost: {total('lost')}")
    print(f"  recorded twice: {total('twice')}")
    print(f"  recorded, killed before the acknowledgement: {total('unacknowledged')}")
    print(f"  rounds that left a journal to roll back: {total('interrupted')}")
    print(f"  files damaged: {sum(not one['sound'] for one in kills)}")

    with tempfile.TemporaryDirectory() as folder:
        two = apart(folder)
        print("\n200 spends from a ledger, while others wait at another that is held")
        print(f"  they waited all the while: {two['waited']}")
        print(f"  median {two['median']:.3f} ms, longest {two['longest']:.3f} ms")
        print(f"  recorded then, held and free: {two['recorded']}")
        print_timings(folder)

    no_overspend = all(one["accepted"] == 2 and one["recorded"] == 5 for one in races)
    no_loss = total("lost") == total("twice") == 0 and all(k["sound"] for k in kills)
    no_waiting = two["waited"] and two["recorded"] == (2, 200)
    sys.exit(0 if no_overspend and no_loss and no_waiting else 1)


if __name__ == "__main__":
    main()
