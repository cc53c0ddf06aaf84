"""One budget for everything that an estimator is made of."""
