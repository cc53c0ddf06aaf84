"""Ten classic mistakes and their corrected twins, and breaches of the past, audited.

The ten are written with NumPy alone, as a stranger would, each claim stated by hand
(`tests/_mistakes.py`). The replicas are of breaches that this library once had
(`tests/_replicas.py`); their claim and its relation are those that they state. All
under the auditor's defaults, on an ordinary table and neighbours of its own making.

    python examples/benchmarks/audit_mistakes.py [n_seeds] [name ...] > output.txt

Names choose some of the ten, so that a run that was cut short can go on. The auditor's
clock is set to CPU time here: its sixty seconds are those of a machine of its own.
"""

import pathlib
import platform
import sys
import time

import numpy as np

from fairpriv_sklearn.audit import _estimator, audit_estimator

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests"))
from _mistakes import CASES, table  # noqa: E402
from _replicas import REPLICAS  # noqa: E402
from test_audit_breaches import find  # noqa: E402

_estimator._clock = time.process_time
N_SEEDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
CHOSEN = sys.argv[2:]


def main():
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {N_SEEDS} seeds, "
        "two shared cores"
    )
    print(f"{'':<24}{'mistake':^36}{'corrected twin':^28}")
    header = f"{'convicted':>10}{'found by':>12}{'longest':>10}"
    print(f"{'':<24}{header:<36}{'convicted':>10}{'bound':>8}{'longest':>10}")
    for case in CASES:
        if not CHOSEN or case[0].__name__ in CHOSEN:
            line = f"{case[0].__name__:<24}"
            print(f"{line}{row(*case, False)}{row(*case, True)}", flush=True)
    if CHOSEN:
        return
    print("\nReplicas of breaches, one audit each")
    for replica in REPLICAS:
        start = time.process_time()
        report = find(replica)
        kinds = sorted({f.kind for f in report.findings if f.violates})
        print(
            f"{replica[0]:<6}{'convicted' if report.violated else 'NOT FOUND':<11}"
            f"{', '.join(kinds):<22}{report.n_fits:>6} fits"
            f"{time.process_time() - start:>7.1f} CPU s   {report.claim}",
            flush=True,
        )


def row(model, claim, relation, right):
    """One case on all seeds: how many were convicted, by what, the longest audit."""
    reports = [
        audit_estimator(
            model(right=right),
            *table(seed),
            claim=claim,
            neighboring=relation,
            random_state=seed,
        )
        for seed in range(N_SEEDS)
    ]
    convicted = sum(report.violated for report in reports)
    longest = max(report.seconds for report in reports)
    if right:
        bound = max(report.epsilon_lower for report in reports)
        return f"{convicted:>10}{bound:>8.2f}{longest:>10.1f}"
    kinds = [f.kind for r in reports for f in r.findings if f.violates]
    found = max(set(kinds), key=kinds.count) if kinds else "-"
    return f"{convicted:>10}{found:>12}{longest:>10.1f}    "


if __name__ == "__main__":
    main()
    print("\nlongest: CPU seconds of the slowest audit")
