"""How far a model's next-token distributions are from those of a reference model that shares its vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from instruct.base.errors import InputError
from instruct.engines.forward import ForwardModel
from instruct.measuring.texts.held_out import HeldOut, Window
from instruct.run.measurements import Number, numbers

if TYPE_CHECKING:
    import torch

NAMES = (
    "forward_cross_entropy",
    "reverse_cross_entropy",
    "total_variation",
    "forward_kl",
    "reverse_kl",
    "jensen_shannon",
)


def check_vocabularies(reference: ForwardModel, model: ForwardModel) -> None:
    """Refuse to compare the probabilities of different tokens.

    Raises:
        InputError: the models' vocabularies differ.
    """
    own, other = model.tokenizer.get_vocab(), reference.tokenizer.get_vocab()
    if own != other:
        raise InputError(
            f"evaluation.texts.reference_model: {reference.engine.options.subject} has another vocabulary "
            f"({len(other):,} tokens) than {model.engine.options.subject} ({len(own):,}), and distances compare the "
            "probabilities of the same tokens; name a model with the same tokenizer, or leave distances out of "
            "evaluation.texts.metrics"
        )


def distances(
    reference: ForwardModel,
    model: ForwardModel,
    held_out: HeldOut,
    found: Sequence[Window],
    temperatures: Sequence[float] = (1.0,),
) -> list[dict[str, np.ndarray]]:
    """Each distance of the model (q) from the reference (p), by NAMES: its mean over the scored tokens of each text;
    float64, [texts]; NaN for a text without any. At each temperature of the model's distributions, in one pass.

    Both models read the same texts in step, so that no more than one batch's logits of each are in memory.

    Raises:
        InputError: as `check_vocabularies`.
    """
    check_vocabularies(reference, model)
    rows = [each.row for each in found]
    # Embeddings may be padded differently; no text has the ids beyond both.
    vocabulary = min(reference.vocabulary, model.vocabulary)
    sums = np.zeros((len(temperatures), len(NAMES), len(held_out.texts)))
    tokens = np.zeros(len(held_out.texts))
    portions = zip(reference.distributions(rows, vocabulary), model.distributions(rows, vocabulary), strict=True)
    for (number, p), (same, q) in portions:
        assert number == same
        assert p.shape == q.shape
        place = found[number].place
        tokens[place] += len(p)
        for i, temperature in enumerate(temperatures):
            tempered = q if temperature == 1 else (q / temperature).log_softmax(-1)
            sums[i, :, place] += [float(value.double().sum()) for value in position_distances(p, tempered)]
    with np.errstate(invalid="ignore"):
        return [dict(zip(NAMES, each / tokens, strict=True)) for each in sums]


def position_distances(p: torch.Tensor, q: torch.Tensor) -> list[torch.Tensor]:
    """NAMES between distributions given as ln p and ln q, [positions, vocabulary]; each [positions], in nats but for
    total variation, which is between 0 and 1."""
    import torch

    p_share, q_share = p.exp(), q.exp()
    middle = torch.logaddexp(p, q) - np.log(2)
    return [
        -(p_share * q).sum(-1),
        -(q_share * p).sum(-1),
        (p_share - q_share).abs().sum(-1) / 2,
        (p_share * (p - q)).sum(-1),
        (q_share * (q - p)).sum(-1),
        ((p_share * (p - middle)).sum(-1) + (q_share * (q - middle)).sum(-1)) / 2,
    ]


def mean_distances(
    at: Sequence[dict[str, np.ndarray]], temperatures: Sequence[float], reference: str, sampled: float
) -> list[Number]:
    """The means over texts of what `distances` gives; the first is a system's own, the others are its curve.

    Args:
        sampled: the temperature of a control, whose model already has it; of other systems 1.
    """
    rows: list[Number] = []
    for name in NAMES:
        own, *others = [float(np.nanmean(values[name])) for values in at]
        curve = [list(point) for point in zip(temperatures[1:], others, strict=True)]
        texts = int(np.isfinite(at[0][name]).sum())
        rows += numbers({name: own}, texts, temperature=sampled, reference=reference, curve=curve)
    return rows
