"""The plan of a loss: every trained token once, in chunks that share cost rows."""

from __future__ import annotations

import torch

from instruct.objectives.plan import IGNORED, plan_tokens

CPU = torch.device("cpu")


def test_chunks_share_cost_rows_until_their_labels_are_too_many():
    labels = torch.arange(12) // 2  # 0 0 1 1 2 2 3 3 4 4 5 5, in chunks of 4 with 2 labels each
    plan = plan_tokens(labels, 100, 4, 1, 4, has_cost=True, device=CPU)
    assert [(group.labels, len(group.chunks)) for group in plan.groups] == [(slice(0, 4), 2), (slice(4, 6), 1)]
    assert plan.row_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]


def test_without_a_cost_tokens_keep_their_order():
    plan = plan_tokens(torch.tensor([7, 3, 7]), 100, 2, 1, 2, has_cost=False, device=CPU)
    assert plan.order is None
    assert plan.distinct is None
    assert [chunk for group in plan.groups for chunk in group.chunks] == [slice(0, 2), slice(2, 3)]
    masked = plan_tokens(torch.tensor([7, IGNORED, 3]), 100, 2, 1, 2, has_cost=False, device=CPU)
    assert (masked.order.tolist(), masked.labels.tolist()) == ([0, 2], [7, 3])
