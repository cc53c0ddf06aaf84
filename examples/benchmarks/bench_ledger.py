"""Ledger: what a spend costs, in time and bytes, from the first to the 10,000th.

Five kinds of guarantees, in memory and in a file. The cap is chosen so that 10,000
spends use it up to a twentieth: composing is needed all the way. Then how far the total
of 10,000 random splits is above the largest tight total of some sides.
"""

import argparse
import math
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
    compose_epsilon,
)
from fairpriv_sklearn.accounting import _composition as accounting
from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger
from fairpriv_sklearn.privacy._composition import Composition

DELTA = 1e-5
KINDS = {
    "post-processor (maximum)": MaximumEvent(
        [GaussianEvent(0.02, 100)], [PureEvent(0.01)]
    ),
    "close maximum": MaximumEvent([GaussianEvent(0.01, 100)], [PureEvent(0.01)]),
    "discrete Laplace (pure)": PureEvent(0.01),
    "full batch (Gaussian)": GaussianEvent(0.01, 100),
    "batches (sampled)": WithoutReplacementGaussianEvent(0.01, 5.0, 10, 100),
}


def cap_for(event, n_spends: int) -> float:
    """A cap of which `n_spends` of the event take 95 per cent."""
    one = Composition.of([event], "replace_one")
    splits = tuple((pair, n_spends * count) for pair, count in one.splits)
    total = Composition("replace_one", one.plain.times(n_spends), splits)
    return total.epsilon_at(DELTA) / 0.95


def measure(event, path, n_spends: int):
    fit = PrivacyGuarantee.from_events(
        [event], delta=DELTA, neighboring="replace_one", mechanism="a fit"
    )
    ledger = PrivacyLedger(cap_for(event, n_spends), DELTA, path)
    milliseconds, busy, sizes = [], [], []
    for _ in range(n_spends):
        start, start_busy = time.perf_counter(), time.process_time()
        ledger.spend(fit)
        milliseconds.append(1e3 * (time.perf_counter() - start))
        busy.append(1e3 * (time.process_time() - start_busy))
        if path is not None and len(milliseconds) % (n_spends // 2) == 0:
            sizes.append(os.path.getsize(path))
    # The cap was a total too: forget it, so that the first call composes.
    for cached in (
        accounting._dearest_epsilon,
        accounting._epsilon_of,
        accounting._worst_epsilon,
        accounting._worst_curve,
    ):
        cached.cache_clear()
    totals = []
    for _ in range(2):
        start = time.process_time()
        ledger.total()
        totals.append(1e3 * (time.process_time() - start))
    return milliseconds, busy, sizes, totals


def bound(n_kinds: int, n_spends: int) -> str:
    """The total of splits whose sides nearly tie, over what some sides cost."""
    factors = [1 + 2 * i / max(1, n_kinds - 1) for i in range(n_kinds)]
    count, relation = n_spends // n_kinds, "replace_one"
    total = Composition(relation)
    for factor in factors:
        event = MaximumEvent([GaussianEvent(0.01 * factor)], [PureEvent(0.01 * factor)])
        ((pair, _),) = Composition.of([event], relation).splits
        total = total.plus(Composition(relation, splits=((pair, count),)))
    start = time.process_time()
    upper = total.epsilon_at(DELTA)
    milliseconds = 1e3 * (time.process_time() - start)
    lower = compose_epsilon(
        [GaussianEvent(0.01 * f * math.sqrt(count)) for f in factors], DELTA
    )
    return (
        f"{n_kinds:3} kinds: total {upper:.5f}, all on the left {lower:.5f}, "
        f"at most {100 * (upper / lower - 1):.3f} % above; {milliseconds:.0f} ms"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spends", type=int, default=10_000)
    parser.add_argument("--file-spends", type=int, default=10_000)
    options = parser.parse_args()
    print(
        f"bench_ledger.py --spends {options.spends} --file-spends {options.file_spends}"
    )
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    print(f"{versions}, {platform.system()}, {os.cpu_count()} cores")
    print(f"load average at the start: {os.getloadavg()[0]:.1f}\n")
    print("milliseconds a spend: median of the first 100, of the last 100;")
    print("total(): first and second call (processor); file: bytes a spend, two halves")
    for where in ("memory", "file"):
        for name, event in KINDS.items():
            with tempfile.TemporaryDirectory() as folder:
                path = None if where == "memory" else str(Path(folder) / "ledger")
                n = options.spends if path is None else options.file_spends
                times, busy, sizes, totals = measure(event, path, n)
            first, last = times[:100], times[-100:]
            line = (
                f"{where:7}{name:26}"
                f"{statistics.median(first):8.3f}{statistics.median(last):8.3f}"
                f"  processor {statistics.median(busy[:100]):.3f},"
                f" {statistics.median(busy[-100:]):.3f}"
                f"  total() {totals[0]:.1f}, {totals[1]:.3f} ms"
            )
            if sizes:
                half = n // 2
                line += f"  {sizes[0] / half:.0f}, {(sizes[1] - sizes[0]) / half:.0f} B"
            print(line, flush=True)
    print(f"\nkinds of nearly tied splits, {options.spends} in all; processor time")
    for n_kinds in (1, 2, 4, 8, 16):
        print(bound(n_kinds, options.spends), flush=True)


if __name__ == "__main__":
    main()
