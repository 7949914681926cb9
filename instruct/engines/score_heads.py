"""A small head on a language model's states as an engine: one forward pass scores an answer.

The features of an answer are the mean of its tokens' states after some of the model's blocks, each state divided by its
root mean square, and the logarithm of one plus its characters. The score is their weighted sum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
from pydantic import Field, PositiveInt

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.engines.base import EngineOptions, Message, Prompt
from instruct.engines.encode import encode_prompt
from instruct.engines.network import BATCH_TOKENS, TextRow, batches, padded
from instruct.engines.rewards import RewardEngine

_EPSILON = 1e-5


@pydantic.dataclasses.dataclass(frozen=True, config={"extra": "forbid"})
class HeadReading:
    """What is read of an answer.

    Attributes:
        layers: the blocks after which states are read, from 1; () reads the length alone.
        prompt_tokens: the prompt keeps its first and last tokens, so many in all; the middle is left out.
        answer_tokens: the answer's first tokens that are read. Its length always counts as a whole.
    """

    layers: tuple[PositiveInt, ...]
    prompt_tokens: int = Field(default=224, ge=2)
    answer_tokens: PositiveInt = 192


@dataclass(frozen=True)
class ScoreHead:
    """score = weights · features + bias.

    `weights`: float32 of shape [len(layers) * hidden + 1], the length's last. `bias` moves all scores alike, so that
    the average answer of the training set has 0.
    """

    reading: HeadReading
    weights: np.ndarray
    bias: float

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Features of shape [answers, len(weights)] to scores, float64."""
        return features.astype(np.float64) @ self.weights.astype(np.float64) + self.bias

    def save(self, path: Path) -> None:
        """As safetensors, with the reading as metadata."""
        from safetensors.numpy import save

        tensors = {"weights": self.weights.astype(np.float32), "bias": np.array([self.bias], np.float32)}
        # One entry: safetensors writes several in an order that changes.
        path.write_bytes(save(tensors, {"reading": json.dumps(asdict(self.reading))}))


def load_head(path: Path) -> ScoreHead:
    """The head in a safetensors file.

    Raises:
        InputError: it does not exist or is not such a file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            reading = HeadReading(**json.loads((file.metadata() or {})["reading"]))
            weights, bias = file.get_tensor("weights"), float(file.get_tensor("bias")[0])
        if weights.ndim != 1:
            raise ValueError("weights must be a vector")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; put the judge's head there") from None
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not a score head ({one_line(error, 120)}); write it with recipes/train_judge.py"
        ) from None
    return ScoreHead(reading, weights, bias)


@dataclass(frozen=True)
class ReadText(TextRow):
    """A text with the answer's length in characters, whatever was left out."""

    characters: int = 0


class StatesEngine(RewardEngine):
    """A language model in transformers whose blocks up to the last one that is read are run.

    Raises:
        InputError: when the first text is looked at: the model has too few blocks, or as `RewardEngine`.
    """

    def __init__(self, options: EngineOptions, reading: HeadReading) -> None:
        super().__init__(options)
        self.reading = reading

    def features(self, prompts: Sequence[Prompt]) -> np.ndarray:
        """The features of each answer; float32, shape [prompts, len(layers) * hidden + 1]."""
        texts = self._texts(prompts)
        device = self.start().rpartition(" ")[2]
        features: dict[int, np.ndarray] = {}
        for places in batches([len(text.ids) for text in texts], BATCH_TOKENS[device]):
            features.update(zip(places, self._features([texts[place] for place in places]), strict=True))
        return np.stack([features[place] for place in range(len(texts))])

    def _check_architecture(self) -> None:
        options = self.options
        blocks = getattr(self.config.get_text_config(), "num_hidden_layers", 0)
        if max(self.reading.layers, default=0) > blocks:
            raise InputError(
                f"{options.subject}: reads the states after block {max(self.reading.layers)} of {options.model}, which "
                f"has {blocks}; choose the model that the head was trained on"
            )

    def _loaded(self) -> Any:
        network = self._read("states")
        network.layers = network.layers[: max(self.reading.layers, default=1)]  # later blocks are not read
        network.config.num_hidden_layers = len(network.layers)
        return network

    def _texts(self, prompts: Sequence[Prompt]) -> list[TextRow]:
        return [self._text(prompt) for prompt in prompts]

    def _text(self, prompt: Any) -> TextRow:
        turns: list[Message] = list(prompt)
        answer = turns.pop()["content"]
        asked = encode_prompt(self.tokenizer, turns, add_generation_prompt=True)
        kept = self.reading.prompt_tokens
        if len(asked) > kept:
            asked = asked[: kept // 2] + asked[kept // 2 - kept :]
        # An answer cannot write the tokens that end a turn.
        read = self.tokenizer(answer, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        ids = [*asked, *read[: self.reading.answer_tokens], self.tokenizer.eos_token_id]
        return ReadText(ids, len(asked), len(answer))

    def _features(self, texts: Sequence[Any]) -> np.ndarray:
        """The features of texts that are computed in one batch."""
        import torch

        lengths = np.log1p([[text.characters] for text in texts])
        if not self.reading.layers:
            return lengths.astype(np.float32)
        states: dict[int, Any] = {}

        def keep(layer: int) -> Any:
            return lambda module, inputs, out: states.update({layer: out[0] if isinstance(out, tuple) else out})

        network = self.network
        hooks = [network.layers[layer - 1].register_forward_hook(keep(layer)) for layer in self.reading.layers]
        ids, _ = padded([text.ids for text in texts], self.tokenizer.pad_token_id or 0)
        try:
            with torch.inference_mode():  # what follows a text cannot change it, so no mask is needed
                network(input_ids=ids.to(network.device), use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        means = []
        for layer in self.reading.layers:
            state = states[layer].float()
            state = state * (state.square().mean(-1, keepdim=True) + _EPSILON).rsqrt()
            rows = [row[text.start : len(text.ids)].mean(0) for row, text in zip(state, texts, strict=True)]
            means.append(torch.stack(rows).cpu().numpy())
        return np.concatenate([*means, lengths], axis=1).astype(np.float32)


class ScoreHeadEngine(StatesEngine):
    """A judge's score head on its model's states.

    Raises:
        InputError: when it is made: no head in the file; later, as `StatesEngine`, or the head belongs to another
            model.
    """

    def __init__(self, options: EngineOptions) -> None:
        assert options.head is not None, "by the caller"
        self._head = load_head(options.head)
        self._head_sha256 = sha256_of(options.head)
        super().__init__(options, self._head.reading)

    @cached_property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "score": f"head {self._head_sha256}"}

    def _scores(self, texts: list[TextRow]) -> list[float]:
        features = self._features(texts)
        if features.shape[1] != len(self._head.weights):
            raise InputError(
                f"{self.options.subject}: its head has {len(self._head.weights)} weights, but {self.options.model} "
                f"gives {features.shape[1]} features; choose the model that the head was trained on"
            )
        return [float(score) for score in self._head.scores(features)]
