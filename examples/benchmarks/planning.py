"""What `expected_error` says of groups of some sizes at some budgets.

Takes two minutes. The group sizes are those of the phase that adds the noise.
"""

from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator

from fairpriv_sklearn.model_selection import expected_error
from fairpriv_sklearn.postprocessing import DP2DPClassifier, DPBarycenterTransformer

SIZES = [[700, 700], [5000, 5000], [9500, 500]]
EPSILONS = [0.1, 0.5, 1.0]


def main():
    print(
        "                       KS error of the   KS distance       parity difference,"
    )
    print("                       distributions     after repair      DP2DPClassifier")
    print("groups       epsilon   mean    worst     noise   without   noise   without")
    anything = FrozenEstimator(DummyClassifier().fit([[0], [0]], [0, 1]))
    for sizes in SIZES:
        for epsilon in EPSILONS:
            repairs = (
                DPBarycenterTransformer(epsilon=epsilon, bounds=(0, 1)),
                DP2DPClassifier(
                    anything, epsilon=epsilon, classes=[0, 1], base_guarantee="public"
                ),
            )
            numbers, classes = (
                expected_error(repair, group_sizes=sizes, n_repeats=40)
                for repair in repairs
            )
            print(
                f"{' + '.join(map(str, sizes)):12} {epsilon:7}   "
                f"{numbers.error:.3f}   {numbers.worst_error:.3f}     "
                f"{numbers.violation:.3f}   {numbers.violation_without_noise:.3f}     "
                f"{classes.violation:.3f}   {classes.violation_without_noise:.3f}"
            )


if __name__ == "__main__":
    main()
