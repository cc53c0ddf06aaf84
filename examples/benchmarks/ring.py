"""A ring from histograms and from gradients: the sliced distance to the records.

10,000 records about a circle of radius 1, six seeds, as many samples: the root of the
mean over 100 directions of the squared Wasserstein distance of the projections. The
network's settings were chosen by looking at this ring.

    OMP_NUM_THREADS=1 python examples/benchmarks/ring.py
"""

import platform
import warnings

import numpy as np
import sklearn

from fairpriv_sklearn.generative import DPSlicedWassersteinGenerator

ANGLES = np.pi * np.arange(100) / 100
DIRECTIONS = np.vstack([np.cos(ANGLES), np.sin(ANGLES)])


def ring(seed, n=10_000):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = 1 + 0.05 * rng.normal(size=n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def distance(points, others):
    gaps = np.sort(points @ DIRECTIONS, axis=0) - np.sort(others @ DIRECTIONS, axis=0)
    return np.sqrt(np.mean(gaps**2))


def main():
    warnings.simplefilter("ignore")
    print("OMP_NUM_THREADS=1 python examples/benchmarks/ring.py")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    fresh = [distance(ring(seed), ring(seed + 100)) for seed in range(6)]
    print(f"fresh records: {np.mean(fresh):.4f}")
    print(f"{'method':12}{'epsilon':>8}{'distance':>10}{'s.e.':>8}")
    for method in ("histogram", "gradient"):
        for epsilon in (3.0, 1.0, 0.2):
            found = []
            for seed in range(6):
                records = ring(seed)
                generator = DPSlicedWassersteinGenerator(
                    method=method,
                    epsilon=epsilon,
                    bounds=(-1.5, 1.5),
                    random_state=seed,
                )
                samples = generator.fit(records).sample(len(records))
                found.append(distance(samples, records))
            error = np.std(found, ddof=1) / len(found) ** 0.5
            print(f"{method:12}{epsilon:>8}{np.mean(found):>10.4f}{error:>8.4f}")


if __name__ == "__main__":
    main()
