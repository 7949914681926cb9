"""The goldfish mask against the authors' code; equal passages lose the same tokens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from instruct.objectives import Goldfish


def authors_mask(targets: Tensor, k: int, width: int) -> Tensor:
    """What github.com/ahans30/goldfish-loss, lit_gpt/utils.py, `apply_goldfish` with "hash-table", drops of `targets`.

    Their targets are the input shifted by one: targets[:, t] is input[:, t + 1].
    """
    generator = torch.Generator()
    generator.manual_seed(2971215073)
    table = torch.rand(1_000_003, generator=generator)
    dropped = torch.zeros_like(targets, dtype=torch.bool)
    for row in range(targets.shape[0]):
        for last in range(width - 1, targets.shape[1]):
            key = torch.ones((), dtype=torch.long)
            for token in targets[row, last - width + 1 : last + 1]:
                key = key * token
            dropped[row, last] = table[key % 1_000_003] < 1 / k
    return dropped


def tokens(rows: int, length: int, seed: int = 0, vocabulary: int = 128_000) -> Tensor:
    return torch.randint(1, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("k", "context"), [(3, 13), (4, 4), (2, 1), (32, 7)])
def test_the_mask_equals_the_authors_code(k, context):
    """Products of 13 token ids overflow 64 bits: the same wrap-around and the same sign of the remainder."""
    input_ids = tokens(3, 60)
    mask = Goldfish(k, context).mask(input_ids)
    assert not mask[:, 0].any()
    assert torch.equal(mask[:, 1:], authors_mask(input_ids[:, 1:], k, context))


@pytest.mark.parametrize("k", [2, 3, 4, 32])
@pytest.mark.parametrize("context", [1, 13, 32])
def test_one_token_in_k_is_dropped(k, context):
    mask = Goldfish(k, context).mask(tokens(40, 2_000))
    assert mask.float().mean().item() == pytest.approx(1 / k, rel=0.05)


def test_a_passage_loses_the_same_tokens_at_every_position():
    context, passage = 5, tokens(1, 50, seed=1)[0]
    alone = Goldfish(4, context).mask(passage[None])[0]
    for before in (1, 7, 30):
        text = torch.cat([tokens(1, before, seed=2)[0], passage])
        inside = Goldfish(4, context).mask(text[None])[0, before:]
        assert torch.equal(inside[context:], alone[context:])


def test_no_token_is_dropped_before_a_full_context():
    for context in (1, 5, 13):
        mask = Goldfish(2, context).mask(tokens(500, 20))
        assert not mask[:, :context].any()
        assert mask[:, context].any()
    assert not Goldfish(2, 13).mask(tokens(4, 13)).any()
    assert not Goldfish(2, 13).mask(tokens(4, 3)).any()


def test_packed_rows_lose_the_same_tokens_as_padded_ones():
    lengths = [3, 30, 1, 14, 25]
    rows = [tokens(1, length, seed=index)[0] for index, length in enumerate(lengths)]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    packed = torch.cat(rows)[None]
    position_ids = torch.cat([torch.arange(length) for length in lengths])[None]

    expected = Goldfish(2, 4).mask(padded)
    found = Goldfish(2, 4).mask(packed, position_ids)[0].split(lengths)

    assert any(mask.any() for mask in found)
    for index, length in enumerate(lengths):
        assert torch.equal(found[index], expected[index, :length])


def test_windows_with_token_0_are_always_dropped_for_k_up_to_4_and_never_above():
    input_ids = tokens(1, 200)
    input_ids[0, 100] = 0
    assert Goldfish(4, 13).mask(input_ids)[0, 100:113].all()
    assert not Goldfish(5, 13).mask(input_ids)[0, 100:113].any()


@pytest.mark.parametrize(
    ("k", "context", "message"),
    [(1, 13, "k is 1"), (0, 13, "k is 0"), (4, 0, "context 0"), (4, 33, "context 33")],
)
def test_invalid_parameters_are_refused(k, context, message):
    with pytest.raises(ValueError, match=message):
        Goldfish(k, context).mask(tokens(1, 20))
