"""What every model in transformers on this machine shares: loading its weights, its device, batches, dropping it."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.networks import Head, load_network
from instruct.engines.local import LocalEngine
from instruct.engines.memory import free_memory
from instruct.engines.weights import unreadable

# Tokens of one forward pass, padding included.
BATCH_TOKENS = {"cpu": 4096, "cuda": 16384}


@dataclass(frozen=True)
class TextRow:
    """Token ids, of which those from `start` on are looked at; what scores a token needs one before it."""

    ids: Sequence[int]
    start: int = 1


class NetworkEngine(LocalEngine):
    """A network of transformers, loaded with the first text that is looked at."""

    kind: Literal["vllm", "transformers"] = "transformers"

    def start(self) -> str:
        """Load the model if it is not loaded; returns transformers' version and the device."""
        import transformers

        return f"transformers {transformers.__version__} {self.network.device.type}"

    @cached_property
    def network(self) -> Any:
        """The transformers model on its device; loaded on first use."""
        import torch

        network = self._loaded()
        if not self.options.quantization:  # a quantized model is on its device already, and cannot be moved
            network = network.to("cuda" if torch.cuda.is_available() else "cpu")
        return network.eval()

    @abstractmethod
    def _loaded(self) -> Any:
        """The network with its weights."""

    def _read(self, head: Head = "words", **more: Any) -> Any:
        """The network in the model's weights, see `load_network`.

        Raises:
            InputError: they cannot be read, or are not whole.
        """
        model, revision, pickled = self.weights
        try:
            return load_network(model, revision, head, use_safetensors=not pickled, **{"dtype": self.dtype, **more})
        except InputError as error:
            raise InputError(f"{self.options.subject}: {error}") from error
        except Exception as error:  # a torn file, an unknown architecture, ...
            raise unreadable(self.options.model, error) from error

    def close(self) -> None:
        """Drop the model."""
        if self.__dict__.pop("network", None) is not None:
            free_memory()


def batches(lengths: Sequence[int], tokens: int, most: int | None = None) -> list[list[int]]:
    """The places of texts, the longest first, in batches that take up to `tokens` tokens when they are padded.

    A batch has at least one text, however long, and at most `most`.
    """
    by_length = sorted(range(len(lengths)), key=lambda place: lengths[place], reverse=True)
    formed: list[list[int]] = []
    while by_length:
        size = max(1, min(most or len(lengths), tokens // max(1, lengths[by_length[0]])))
        formed.append(by_length[:size])
        by_length = by_length[size:]
    return formed


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """Rows of ids, padded on the right, and their mask: int64 tensors of shape [rows, longest]."""
    import torch

    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask


def shared_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many items, such as ids or characters, two sequences have in common at their beginning."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
