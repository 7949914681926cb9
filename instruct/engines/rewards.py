"""Reward models as engines: a request is a chat that ends with an answer, and the reply's text is its score."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.models import model_path
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import EngineOptions, Prompt, Request
from instruct.engines.network import NetworkEngine
from instruct.engines.pickles import unreadable
from instruct.engines.reward_adapters import adapter_folder, merged_folder, quiet_loading
from instruct.engines.weights import model_identity

# Tokens of one forward pass, padding included.
BATCH_TOKENS = {"cpu": 4096, "cuda": 16384}


@dataclass(frozen=True)
class Text:
    """A prompt with its answer as token ids; the answer begins at `start`."""

    ids: list[int]
    start: int = 0


class RewardEngine(NetworkEngine):
    """A sequence-classification model with one label, or an adapter of one, in transformers; its logit is the score.

    Texts are sorted by length and scored in batches of up to `BATCH_TOKENS`; each batch is yielded when it is done. A
    killed run that is resumed forms the same batches again. The head computes in float32, as in vLLM.

    Raises:
        InputError: `quantization` is set; when the first request is looked at: the model is no reward model, cannot be
            loaded, or has no chat template.
    """

    score = "logit"  # what the score is, as a part of every key

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.quantization:
            raise InputError(f"{options.subject}: a reward model is not quantized here; leave quantization out")
        self._adapter = adapter_folder(options.model)
        self._context = options.context_length
        self._pad: int | None = None

    @cached_property
    def identity(self) -> dict[str, Any]:
        identity = {**super().identity, "score": self.score}
        if self._adapter is not None:
            identity["model"] = model_identity(str(self._adapter), None)
        return identity

    def check(self) -> None:
        self._merge()
        super().check()
        self._check_architecture()

    def _merge(self) -> None:
        """Look at the merged model from now on if an adapter was given."""
        if self._adapter is not None:
            folder = merged_folder(self._options.subject, self._adapter)
            self._options = dataclasses.replace(self._options, model=str(folder))

    def _prepare(self) -> None:
        if self._prepared:
            return
        self._merge()
        self._locate()
        self._check_architecture()
        if not self._tokenizer.chat_template:
            raise InputError(
                f"{self._options.subject}: the tokenizer of {self._options.model} has no chat template; choose a "
                "reward model that has one"
            )
        self._context = min(self._context, self._tokenizer.model_max_length)
        self._prepared = True

    def _check_architecture(self) -> None:
        """Refuse a model that has no head for one score: transformers would make one up."""
        options, config = self._options, self._config()
        architectures = config.architectures or ["none"]
        if not architectures[0].endswith("ForSequenceClassification"):
            raise InputError(
                f"{options.subject}: {options.model} is no reward model (its architecture is "
                f"{one_line(architectures[0], 60)}); choose one for sequence classification"
            )
        if config.num_labels != 1:
            raise InputError(
                f"{options.subject}: {options.model} has {config.num_labels} labels; a reward model has one"
            )
        text = config.get_text_config()
        self._pad = text.pad_token_id
        self._context = min(options.context_length, getattr(text, "max_position_embeddings", None) or 1 << 30)

    def _config(self) -> Any:
        """The model's config.

        Raises:
            InputError: it cannot be read, or needs code from the model's repository.
        """
        from transformers import AutoConfig

        options = self._options
        model = model_path(options.model)
        revision = None if Path(model).is_dir() else options.revision
        try:
            return AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=False)
        except (OSError, ValueError) as error:
            if "trust_remote_code" in str(error):
                raise InputError(
                    f"{options.subject}: {options.model} needs code from its repository, which is never run; choose a "
                    "model that transformers knows"
                ) from None
            raise unreadable(options.model, error) from error

    def _loaded(self) -> Any:
        from transformers import AutoModelForSequenceClassification

        network, loading = self._from_pretrained(AutoModelForSequenceClassification, output_loading_info=True)
        if missing := sorted(loading["missing_keys"]):
            raise InputError(
                f"{self._options.subject}: {self._options.model} has no {one_line(missing[0], 60)}, which would be "
                "random; choose a model that was trained with its head"
            )
        if hasattr(network, "score"):
            network.score.float()
        return network

    def _from_pretrained(self, auto_class: Any, **more: Any) -> Any:
        with quiet_loading():
            return super()._from_pretrained(auto_class, **more)

    def tokens(self, prompt: Prompt) -> int:
        """The length of a prompt and its answer in the model's tokens."""
        (text,) = self._texts([prompt])
        return len(text.ids)

    def _texts(self, prompts: Sequence[Prompt]) -> list[Text]:
        """Chats as the model's chat template writes them; all at once, which fast tokenizers do in parallel."""
        self._prepare()
        written = self._tokenizer.apply_chat_template(list(prompts), tokenize=False)
        texts = [Text(ids) for ids in self._tokenizer(written, add_special_tokens=False)["input_ids"]]
        for text in texts:  # transformers, and so training, reads the last token that is not padding
            while len(text.ids) > 1 and text.ids[-1] == self._pad:
                text.ids.pop()
        return texts

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. A text that exceeds the context is a failure; nothing is cut."""
        failed, fitting = self._by_length(list(requests))
        if failed:
            yield failed
        if not fitting:
            return
        device = self.start().rpartition(" ")[2]
        for batch in self._batches([len(text.ids) for _, text in fitting], device):
            scores = self._scores([text for _, text in fitting[batch]])
            yield [
                (request, Completion(f"{score:.9g}", prompt_tokens=len(text.ids), completion_tokens=0))
                for (request, text), score in zip(fitting[batch], scores, strict=True)
            ]

    def divided(self, requests: list[Request], device: str) -> tuple[list[tuple[Request, Reply]], list[list[Request]]]:
        """See `LocalEngine`."""
        failed, fitting = self._by_length(requests)
        slices = self._batches([len(text.ids) for _, text in fitting], device)
        return failed, [[request for request, _ in fitting[batch]] for batch in slices]

    def _by_length(self, requests: list[Request]) -> tuple[list[tuple[Request, Reply]], list[tuple[Request, Text]]]:
        """Requests that exceed the context, and the others with their texts, the longest first."""
        if not requests:
            return [], []
        texts = self._texts([request.prompt for request in requests])
        context = self._context
        failed: list[tuple[Request, Reply]] = [
            (request, Failure(f"too long: {len(text.ids)} tokens exceed the context of {context}", permanent=True))
            for request, text in zip(requests, texts, strict=True)
            if len(text.ids) > context
        ]
        fitting = [pair for pair in zip(requests, texts, strict=True) if len(pair[1].ids) <= context]
        fitting.sort(key=lambda pair: len(pair[1].ids), reverse=True)
        return failed, fitting

    def _batches(self, lengths: list[int], device: str) -> list[slice]:
        return batches(lengths, BATCH_TOKENS[device])

    def _scores(self, texts: list[Text]) -> list[float]:
        """The score of each text, computed in one batch."""
        import torch

        ids, mask = padded([text.ids for text in texts], self._pad or 0)
        device = self._network.device
        with torch.inference_mode():
            if not hasattr(self._network, "score"):  # an encoder: attends to both sides, reads its first token
                done = self._network(input_ids=ids.to(device), attention_mask=mask.to(device))
                return [float(value) for value in done.logits[:, 0].float().tolist()]
            # A decoder reads the last token; what follows a text cannot change it, so no mask is needed.
            states = self._network.base_model(input_ids=ids.to(device), use_cache=False).last_hidden_state
            last = mask.sum(1) - 1
            ends = states[torch.arange(len(texts), device=device), last.to(device)]
            return [float(value) for value in self._network.score(ends.float())[:, 0].tolist()]


def batches(lengths: Sequence[int], tokens: int) -> list[slice]:
    """Runs of texts, whose lengths fall, that take up to `tokens` tokens each when they are padded; at least one."""
    slices, begin = [], 0
    while begin < len(lengths):
        end = min(len(lengths), begin + max(1, tokens // max(1, lengths[begin])))
        slices.append(slice(begin, end))
        begin = end
    return slices


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """Rows of ids, padded on the right, and their mask: int64 tensors of shape [rows, longest]."""
    import torch

    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask
