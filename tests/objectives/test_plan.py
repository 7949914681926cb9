"""The plan of a loss: every trained token once, in chunks that share cost rows."""

from __future__ import annotations

import pytest
import torch

from instruct.objectives.plan import IGNORED, plan_tokens

CPU = torch.device("cpu")


@pytest.mark.parametrize("distinct", [1, 5, 40])
@pytest.mark.parametrize(("size", "most_labels"), [(1, 1), (8, 8), (8, 16), (64, 64)])
def test_every_trained_token_is_in_one_chunk_with_the_cost_row_of_its_label(distinct, size, most_labels):
    labels = torch.randint(0, distinct, (50,), generator=torch.Generator().manual_seed(distinct))
    labels[3::7] = IGNORED
    plan = plan_tokens(labels, 100, size, 1, most_labels, has_cost=True, device=CPU)
    seen = []
    for group in plan.groups:
        distinct_labels = plan.distinct[group.labels]
        assert len(distinct_labels) <= most_labels
        for chunk in group.chunks:
            assert chunk.stop - chunk.start <= size
            own = plan.labels[chunk]
            assert torch.equal(own, labels[plan.order[chunk]])
            assert torch.equal(own, distinct_labels[plan.row_of[chunk]])
            seen += plan.order[chunk].tolist()
    assert sorted(seen) == (labels != IGNORED).nonzero()[:, 0].tolist()
    assert plan.most_labels == max(group.labels.stop - group.labels.start for group in plan.groups)


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
