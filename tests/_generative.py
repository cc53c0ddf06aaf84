"""Public numbers of small generator fits, shared by two test modules."""

from fairpriv_sklearn.generative import (
    _network_training,
    _semidual,
    _slices,
)


def semidual_plan(**changes):
    numbers = {
        "n_classes": 3,
        "n_components": 4,
        "n_points": 3,
        "n_steps": 2,
        "mean_clip": 1.5,
        "clip": 0.7,
        "shares": (0.1, 0.3, 0.6),
        "regularization": 0.05,
        "n_records": None,
    }
    return _semidual.SemidualPlan(**{**numbers, **changes})


def sliced_plan(**changes):
    return _slices.SlicedPlan(
        moments=semidual_plan(**changes),
        n_projections=7,
        n_bins=6,
        share=0.4,
        n_flow_steps=20,
    )


def network_plan(**changes):
    numbers = {
        "n_classes": 2,
        "n_features": 3,
        "n_steps": 5,
        "batch_size": 4,
        "sampling_rate": 0.1,
        "noise_multiplier": 1.0,
        "clip": 0.05,
        "regularization": 0.1,
        "l1_weight": 0.0,
        "label_cost": 5.0,
        "debiasing": 0.5,
        "hidden_layer_sizes": (6,),
        "latent_dim": 2,
        "learning_rate": 1e-3,
        "output_bias": 0.0,
    }
    return _network_training.NetworkPlan(**{**numbers, **changes})
