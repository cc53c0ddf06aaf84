"""What fits by noisy gradients share: bounded rows, budget, penalty, progress."""
