"""How models predict texts: perplexity, entropy and the temperature that matches it, distances from a reference."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from instruct.analysis.clusters import repeats
from instruct.base.errors import InputError, InstructError, counted
from instruct.base.output import progress
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.engines.forward import ForwardModel, TextRow
from instruct.measuring.texts.options import HeldOutOptions
from instruct.run.measurements import Number, numbers

if TYPE_CHECKING:
    import torch

DISTANCES = (
    "forward_cross_entropy",
    "reverse_cross_entropy",
    "total_variation",
    "forward_kl",
    "reverse_kl",
    "jensen_shannon",
)
# Where temperatures are looked for, and how near the entropies have to be, in nats.
COLDEST, HOTTEST, TOLERANCE = 0.05, 10.0, 1e-3
_FIRST = (0.6, 0.8, 0.9, 1.0, 1.15, 1.4)
_PASSES = 30
_MOST_NATS = 709.0  # whose exponential is a float64


@dataclass(frozen=True)
class HeldOut:
    """Texts to be predicted.

    Attributes:
        ids: what identifies each text: its file and row, or its prefix.
        prefixes: what is read before each text and not scored; "" if there is nothing.
        texts: what is scored.
        whole: whether each text is a whole document, which an end token ends.
        clusters: of texts that depend on each other, by id; see `repeats`.
    """

    ids: list[str]
    prefixes: list[str]
    texts: list[str]
    whole: bool
    clusters: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Of everything that the numbers depend on."""
        content = [self.prefixes, self.texts, self.whole, *filter(None, [self.clusters])]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_held_out(options: HeldOutOptions) -> HeldOut:
    """The texts of a card or of files.

    Raises:
        InputError: as `load_rows`; or the rows are not plain texts.
    """
    card = load_dataset_card(options.card) if options.card else None
    if card and card.purpose == "continue":  # texts, of which its prefixes are cut
        card = card.model_copy(update={"purpose": "train"})
    rows = load_rows(
        card,
        files=options.files,
        limit=options.limit,
        documents=options.documents,
        encoding=options.encoding,
        section="evaluation.texts.held_out",
    )
    name = ", ".join(options.files or []) or str(options.card)
    if not rows.plain_text:
        raise InputError(f"evaluation.texts.held_out: {name} has prompts and answers; give plain texts")
    texts = [row["text"] for row in rows.rows]
    clusters = repeats(dict(zip(rows.sources, texts, strict=True)))
    return HeldOut(list(rows.sources), [""] * len(texts), texts, whole=True, clusters=clusters)


@dataclass(frozen=True)
class Window:
    """A part of a text that fits into a model: `row`'s tokens from its start on belong to the text `place`."""

    place: int
    row: TextRow


def windows(model: ForwardModel, held_out: HeldOut, max_length: int) -> list[Window]:
    """Every token that has one before it, in exactly one window: a text that is too long is read in windows that
    overlap by half, so that a token has at least half a window before it.

    A whole text ends with the end token, as in training.

    Raises:
        InputError: a prefix leaves no room in the model's context, or the tokenizer has no end token.
    """
    limit = min(max_length, model.context)
    rows = model.encode_after(held_out.prefixes, held_out.texts)
    parts: list[Window] = []
    for place, row in enumerate(rows):
        ids = list(row.ids)
        if held_out.whole and ids[-1:] != [model.end]:
            ids.append(model.end)
        if row.start >= limit and row.start < len(ids) and not held_out.whole:
            raise InputError(
                f"prefix {held_out.ids[place]!r} has {row.start} tokens, and {limit} are read at a time; shorten the "
                "prefixes or raise evaluation.texts.max_length"
            )
        parts += [Window(place, part) for part in _parts(ids, row.start, limit)]
    return parts


def _parts(ids: Sequence[int], start: int, limit: int) -> list[TextRow]:
    parts, scored = [], start
    while scored < len(ids):
        begin = 0 if scored < limit else scored - limit // 2
        end = min(len(ids), begin + limit)
        parts.append(TextRow(ids[begin:end], scored - begin))
        scored = end
    return parts


@dataclass(frozen=True)
class Likelihoods:
    """What a model says about texts, one entry a text.

    Attributes:
        nats: −ln p of the scored tokens, end token included; float64.
        tokens: that were scored.
        end_nats: the end token's share; 0 if none was scored.
        words, bytes: of the text that was scored: without what the first token covers, which has nothing before it.
    """

    nats: np.ndarray
    tokens: np.ndarray
    end_nats: np.ndarray
    words: np.ndarray
    bytes: np.ndarray

    def perplexity(self, of: np.ndarray | slice = slice(None)) -> float | None:
        """exp of the mean over the tokens of all texts, or of some; None: they have none."""
        tokens = self.tokens[of].sum()
        return _exp(float(self.nats[of].sum() / tokens)) if tokens else None


def likelihoods(model: ForwardModel, held_out: HeldOut, found: Sequence[Window]) -> Likelihoods:
    """The likelihood of each text; `found` are its windows (`held_out.windows`).

    Raises:
        InstructError: the model gives NaN.
    """
    count = len(held_out.texts)
    nats, tokens, end_nats = np.zeros(count), np.zeros(count, int), np.zeros(count)
    for window, values in zip(found, model.log_probabilities([window.row for window in found]), strict=True):
        if np.isnan(values).any():
            raise InstructError(f"{model.engine.options.subject}: gives NaN for a text; its training has diverged")
        place, row = window.place, window.row
        nats[place] -= float(values.sum(dtype=np.float64))
        tokens[place] += len(values)
        if held_out.whole and row.ids[-1] == model.end:
            end_nats[place] = -float(values[-1])
    words, sizes = np.zeros(count, int), np.zeros(count, int)
    for place, text in enumerate(held_out.texts):
        scored = text if held_out.prefixes[place] else _without_first_token(model, text)
        words[place], sizes[place] = len(scored.split()), len(scored.encode())
    return Likelihoods(nats, tokens, end_nats, words, sizes)


def _without_first_token(model: ForwardModel, text: str) -> str:
    """The part of a text that is scored; all of it if the tokenizer puts a token before it."""
    (ids,) = model.encode([text])
    covered = model.tokenizer.decode(ids[:1], skip_special_tokens=True)
    # A token may be a part of a character, which does not decode.
    return text.removeprefix(covered) if text.startswith(covered) else text[1:]


def perplexity(values: Likelihoods) -> list[Number]:
    """exp of the mean negative log-likelihood per token, the end token of a text included, and per word and byte of
    the text without it, so that systems with different tokenizers can be compared.

    Raises:
        InputError: the texts have no token.
    """
    if not values.tokens.sum():
        raise InputError("evaluation.texts.held_out: its texts have no token that the model can read; give other texts")
    text = float(values.nats.sum() - values.end_nats.sum())
    tokens, words, sizes = int(values.tokens.sum()), int(values.words.sum()), int(values.bytes.sum())
    figures = {
        "perplexity": values.perplexity(),
        "word_perplexity": _exp(text / words) if words else None,
        "byte_perplexity": _exp(text / sizes) if sizes else None,
    }
    return numbers(figures, int((values.tokens > 0).sum()), tokens=tokens, words=words, bytes=sizes)


def oracle_perplexity(
    values: Likelihoods, seeds: Sequence[int], reference: str, human: Likelihoods | None = None
) -> list[Number]:
    """Perplexity of continuations under a reference model, per token of the reference, over all and for each seed that
    they were sampled with; beside it that of the human continuations. Empty continuations have no token and are
    counted."""
    by_seed = {str(seed): values.perplexity(np.array(seeds) == seed) for seed in sorted(set(seeds))}
    return numbers(
        {"oracle_perplexity": values.perplexity()},
        len(values.tokens),
        reference=reference,
        human=human.perplexity() if human else None,
        by_seed={seed: value for seed, value in by_seed.items() if value is not None},
        tokens=int(values.tokens.sum()),
        empty=int((values.tokens == 0).sum()),
    )


def _exp(nats: float) -> float:
    return math.exp(min(nats, _MOST_NATS))


@dataclass(frozen=True)
class Entropies:
    """Sums over the scored tokens of each text.

    Attributes:
        nats: −Σ p ln p of the distributions at each temperature, summed; float64, [temperatures, texts].
        tokens: [texts].
    """

    nats: np.ndarray
    tokens: np.ndarray

    @property
    def means(self) -> list[float]:
        """Mean entropy per token at each temperature."""
        return [float(value) for value in self.nats.sum(1) / self.tokens.sum()]


def entropies(
    model: ForwardModel, held_out: HeldOut, found: Sequence[Window], temperatures: Sequence[float]
) -> Entropies:
    """The entropies of a model's next-token distributions on texts, teacher-forced, at several temperatures, in one
    pass. A temperature T makes p of softmax(logits / T), as in sampling; 0 makes it certain."""
    count = len(held_out.texts)
    nats, tokens = np.zeros((len(temperatures), count)), np.zeros(count, int)
    for place, (logs,) in _distributions(found, model):
        tokens[place] += len(logs)
        for i, temperature in enumerate(temperatures):
            if temperature > 0:
                scaled = _at(temperature, logs)
                nats[i, place] -= float((scaled.exp() * scaled).sum(-1).double().sum())
    return Entropies(nats, tokens)


def entropy(values: Entropies, index: int, temperature: float) -> list[Number]:
    """The mean of one of the temperatures, in nats per token."""
    tokens, texts = int(values.tokens.sum()), int((values.tokens > 0).sum())
    return numbers({"entropy": values.means[index]}, texts, temperature=temperature, tokens=tokens)


def matching_temperatures(
    measure: Callable[[list[float]], list[float]], targets: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """The temperature at which a model's mean entropy is each target, and that entropy; no entry where none is.

    Entropy grows with temperature. Brackets are narrowed by interpolation, guarded by bisection, with all targets in
    one pass over the texts at a time, until the entropies are within TOLERANCE.

    Args:
        measure: mean entropies at temperatures between COLDEST and HOTTEST, which it measures in one pass.
        targets: nats per token, by system.
    """
    known = dict(zip(_FIRST, measure(list(_FIRST)), strict=True))
    if any(not min(known.values()) <= target <= max(known.values()) for target in targets.values()):
        ends = [COLDEST, HOTTEST]
        known |= zip(ends, measure(ends), strict=True)
    least, most = min(known.values()) - TOLERANCE, max(known.values()) + TOLERANCE
    targets = {name: target for name, target in targets.items() if least <= target <= most}
    for number in range(_PASSES):
        guesses = {
            name: _between(known, target, bisect=number % 3 == 2)
            for name, target in targets.items()
            if abs(known[nearest(known, target)] - target) > TOLERANCE
        }
        if not guesses:
            break
        asked = sorted(set(guesses.values()))
        known |= zip(asked, measure(asked), strict=True)
    return {name: (nearest(known, target), known[nearest(known, target)]) for name, target in targets.items()}


def nearest(known: dict[float, float], target: float) -> float:
    """The temperature whose entropy is nearest to `target`; of several, that nearest to 1."""
    return min(known, key=lambda temperature: (abs(known[temperature] - target), abs(temperature - 1)))


def _between(known: dict[float, float], target: float, bisect: bool) -> float:
    """A temperature between the two whose entropies are around `target`."""
    low = max((t for t in known if known[t] <= target), default=min(known))
    high = min((t for t in known if t > low), default=max(known))
    share = 0.5 if bisect or known[high] == known[low] else (target - known[low]) / (known[high] - known[low])
    return low + min(max(share, 0.01), 0.99) * (high - low)


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
    """DISTANCES of the model (q) from the reference (p) by name: means over the scored tokens of each text; float64,
    [texts]; NaN for a text without any. At each temperature of the model's distributions, in one pass.

    Raises:
        InputError: as `check_vocabularies`.
    """
    check_vocabularies(reference, model)
    # Embeddings may be padded differently; no text has the ids beyond both.
    vocabulary = min(reference.vocabulary, model.vocabulary)
    sums = np.zeros((len(temperatures), len(DISTANCES), len(held_out.texts)))
    tokens = np.zeros(len(held_out.texts))
    for place, (p, q) in _distributions(found, reference, model, vocabulary=vocabulary):
        tokens[place] += len(p)
        for i, temperature in enumerate(temperatures):
            positions = position_distances(p, _at(temperature, q))
            sums[i, :, place] += [float(value.double().sum()) for value in positions]
    with np.errstate(invalid="ignore"):
        return [dict(zip(DISTANCES, totals / tokens, strict=True)) for totals in sums]


def position_distances(p: torch.Tensor, q: torch.Tensor) -> list[torch.Tensor]:
    """DISTANCES between distributions given as ln p and ln q, [positions, vocabulary]; each [positions], in nats but
    for total variation, which is between 0 and 1."""
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
    for name in DISTANCES:
        own, *others = [float(np.nanmean(values[name])) for values in at]
        curve = [list(point) for point in zip(temperatures[1:], others, strict=True)]
        texts = int(np.isfinite(at[0][name]).sum())
        rows += numbers({name: own}, texts, temperature=sampled, reference=reference, curve=curve)
    return rows


def _distributions(
    parts: Sequence[Window], *models: ForwardModel, vocabulary: int | None = None
) -> Iterator[tuple[int, list[torch.Tensor]]]:
    """The place of a text and the distributions of each model at some of its tokens, in step, so that no more than one
    batch's logits of each are in memory."""
    rows, last = [window.row for window in parts], None
    with progress(f"predictions of {counted(len(rows), 'text')}", len(rows)) as done:
        for portions in zip(*(model.distributions(rows, vocabulary) for model in models), strict=True):
            (number,) = {number for number, _ in portions}
            if number != last:  # portions of a row follow each other
                done(1)
            last = number
            yield parts[number].place, [logs for _, logs in portions]


def _at(temperature: float, logs: torch.Tensor) -> torch.Tensor:
    return logs if temperature == 1 else (logs / temperature).log_softmax(-1)
