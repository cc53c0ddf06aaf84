"""Ten classic mistakes and their corrected twins under the auditor, with its defaults.

The classes are those of the tests (`tests/_mistakes.py`): written with NumPy alone, as
a stranger would, each claim stated by hand.

    python examples/benchmarks/audit_mistakes.py [n_seeds] > audit_mistakes.txt
"""

import pathlib
import platform
import sys

import numpy as np

from fairpriv_sklearn.audit import audit_estimator

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests"))
from _mistakes import CASES, table  # noqa: E402

N_SEEDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20


def main():
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {N_SEEDS} seeds"
    )
    print(f"{'':<24}{'mistake':^34}{'corrected twin':^34}")
    header = f"{'convicted':>10}{'found by':>12}{'seconds':>10}"
    print(f"{'':<24}{header:<34}{'convicted':>10}{'bound':>10}{'seconds':>10}")
    for model, claim, relation in CASES:
        line = f"{model.__name__:<24}"
        for right in (False, True):
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
            seconds = max(report.seconds for report in reports)
            if right:
                what = f"{max(report.epsilon_lower for report in reports):.2f}"
                line += f"{convicted:>10}{what:>10}{seconds:>10.1f}"
            else:
                kinds = [f.kind for r in reports for f in r.findings if f.violates]
                what = max(set(kinds), key=kinds.count) if kinds else "-"
                line += f"{convicted:>10}{what:>12}{seconds:>10.1f}  "
        print(line, flush=True)


if __name__ == "__main__":
    main()
