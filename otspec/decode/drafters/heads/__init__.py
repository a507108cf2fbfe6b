"""Draft heads on the target's last hidden state (Medusa, MLP speculator): model, drafter and training."""
