"""The plan of a loss: every trained token once, in chunks that share cost rows."""

from __future__ import annotations

import torch

from instruct.objectives.plan import plan_tokens

CPU = torch.device("cpu")


def test_chunks_share_cost_rows_until_their_labels_are_too_many():
    labels = torch.arange(12) // 2  # 0 0 1 1 2 2 3 3 4 4 5 5, in chunks of 4 with 2 labels each
    plan = plan_tokens(labels, 100, 4, 1, 4, has_cost=True, device=CPU)
    assert [(group.labels, len(group.chunks)) for group in plan.groups] == [(slice(0, 4), 2), (slice(4, 6), 1)]
    assert plan.row_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
