"""Tabular policies whose expectations are finite sums."""

import torch


def two_steps(first, second):
    """log-probabilities per token of all V² sequences, (V², 2): logits (V,) and (V, V)."""
    first, second = first.log_softmax(-1), second.log_softmax(-1)
    return torch.stack([first[:, None].expand_as(second).reshape(-1), second.reshape(-1)], -1)


def sequence_kl(log_prob, reference):
    log_p, log_r = log_prob.sum(-1), reference.sum(-1)
    return (log_p.exp() * (log_p - log_r)).sum()
