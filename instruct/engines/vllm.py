"""A model in vLLM on this machine, with LoRA adapters: layers beside its weights on a GPU, merged on a CPU."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.machine import has_gpu_device
from instruct.base.replies import Failure, Reply
from instruct.base.streams import are_aside
from instruct.engines.base import EngineOptions, Request
from instruct.engines.local import LocalEngine, scored
from instruct.engines.network import TextRow
from instruct.engines.rewards import RewardEngine
from instruct.engines.weights import NO_TENSORS, UNPICKLING, lora_rank

# Prompts that a stream works on at once, vLLM's default except on the largest GPUs; and how many more wait inside vLLM,
# so that it stays full while replies are stored here.
SLOTS, WAITING = 256, 64
# Texts that vLLM's pooling runner is given at a time; it batches them itself.
TEXTS = 256
# What vLLM is sent of a request.
ROW = ("prompt", "max_tokens", "adapter", "seed", "min_tokens", "temperature", "scored")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm.config.lora.MaxLoRARanks

GREEDY = "decoded greedily with the repetition penalty; its authors use {beams} beams, which vLLM has not"
UNMERGED = "adapters are layers beside the model's weights, which is slow on a CPU: they cannot be merged ({reason})"
CALLER_ERRORS = ("OSError", "ValueError", "ValidationError", "FileNotFoundError", "SafetensorError")
# Defaults of vLLM's environment.
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
# On a CPU, glibc keeps freed memory up to these bytes: else the kernel maps the same pages anew in each step.
KEPT_MEMORY = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**30))
# Defaults for vllm.LLM.
ARGUMENTS = {
    "skip_tokenizer_init": True,
    "generation_config": "vllm",  # decoding is this project's configuration and nothing else
    "enable_prefix_caching": False,  # off by default: a reply must not depend on what was asked before
    "load_format": "safetensors",  # a pickle can run code
    "trust_remote_code": False,
    "disable_log_stats": True,
    "use_tqdm_on_load": False,
}


class VLLMClient:
    """A vLLM engine in a process of its own, which ends with `close` or with this process.

    On a CPU it has a cache of `VLLM_CPU_KVCACHE_SPACE` GiB (default: 1 or 2, by what its batch needs), and merges
    adapters: `merged`. `unmerged` is why it could not. vLLM's log is shown only if `VLLM_LOGGING_LEVEL` is INFO or
    DEBUG.

    Args:
        arguments: of `vllm.LLM`; the defaults are no prefix cache, safetensors only, no remote code.
        adapters: LoRA adapter folders, loaded at the start.

    Raises:
        InputError: a model or an adapter that vLLM cannot load.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, arguments: dict[str, Any], adapters: tuple[Path, ...] = ()) -> None:
        self._model = str(arguments["model"])
        # TRL sets the level to ERROR when it is imported, so the variable alone does not show what the user wants.
        quiet = os.environ.get("VLLM_LOGGING_LEVEL") not in ("INFO", "DEBUG")
        self._log: IO[str] | None = None
        if quiet:
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("vllm_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=ENVIRONMENT
            | ({} if has_gpu_device() else KEPT_MEMORY)
            | os.environ
            | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # this process handles Ctrl-C
        )
        self.name, self.dtype, self.context, self.merged = "", "", 0, False
        self.unmerged: str | None = None
        self._rows = 0  # that were sent
        try:
            start = {"arguments": ARGUMENTS | arguments, "adapters": list(map(str, adapters))}
            started = self.ask(start)
            self.name, self.dtype, self.context = started["engine"], started["dtype"], int(started["context"])
            self.merged, self.unmerged = started["merged"], started["unmerged"]
        except BaseException:
            self.close()
            raise

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and wait for its reply: see `vllm_process.py`.

        Raises:
            InstructError: vLLM failed and has ended; this client cannot be used any more.
        """
        self.send(request)
        return self.receive()

    def send(self, request: dict[str, Any]) -> None:
        """Send a request without waiting. If vLLM has ended, `receive` says why."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def send_rows(self, request: dict[str, Any]) -> int:
        """Send rows without waiting; returns the number of the first in replies, from which the others go on."""
        first, self._rows = self._rows, self._rows + len(request["rows"])
        self.send(request | {"first": first})
        return first

    def receive(self) -> dict[str, Any]:
        """The next reply.

        Raises:
            InputError: a JSON schema that vLLM does not support.
            InstructError: vLLM failed and has ended; this client cannot be used any more.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):  # it ended in the middle of a reply
            reason = ""
            if self._log is not None:
                self._process.wait()
                self._log.seek(0)
                errors = [line for line in self._log if re.search(r"\w(Error|Exception)\b", line)]
                reason = f", {one_line(errors[-1], 200)}" if errors else ""
            raise InstructError(
                f"vLLM stopped (exit code {self._process.wait()}{reason}); set VLLM_LOGGING_LEVEL=INFO to see its log, "
                "or lower the batch size if memory ran out"
            )
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            message = one_line(f"{reply['error']}: {reply['message']}")
            if reply["error"] == "InputError":  # our own, whole
                raise InputError(reply["message"])
            if "adapter" in reply:
                raise InputError(
                    f"{reply['adapter']}: vLLM cannot serve this adapter ({message}); merge it into its base"
                )
            if "schema" in reply:
                raise InputError(
                    f"model {self._model}: vLLM cannot hold its replies to this JSON schema ({message}); change "
                    "response_schema, or leave it out"
                )
            if reply["error"] == UNPICKLING:
                raise InputError(f"model {self._model}: {NO_TENSORS}")
            if not self.name and reply["error"] in CALLER_ERRORS:
                raise InputError(
                    f"model {self._model}: vLLM cannot load it ({message}); check the name and the settings"
                )
            raise InstructError(f"vLLM failed on {self._model}: {message}; set VLLM_LOGGING_LEVEL=INFO to see its log")
        return reply

    def close(self) -> None:
        """End the engine's process, and wait until it is gone."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._log is not None and not self._log.closed:
            self._log.seek(0)
            if are_aside():
                sys.stderr.write(self._log.read())  # into the log of the run
            self._log.close()


class InVLLM(LocalEngine):
    """What every model in vLLM shares: its process, started when it is first needed."""

    kind: Literal["vllm", "transformers"] = "vllm"
    _client: Any = None

    def start(self) -> str:
        """Start vLLM if it is not running; returns its version and device."""
        if self._client is None:
            self._client = VLLMClient(self.arguments(), self.options.adapters)
            self.context = self._client.context
            if self._client.unmerged:
                self.notes.append(UNMERGED.format(reason=one_line(self._client.unmerged, 150)))
        return str(self._client.name)

    def arguments(self) -> dict[str, Any]:
        """The arguments of `vllm.LLM` that follow from the options."""
        _ = self.labels  # those that are not one token are refused before anything is loaded
        model, revision, pickled = self.weights
        arguments: dict[str, Any] = {"model": model, "revision": revision, "dtype": self.dtype}
        if pickled:
            arguments["load_format"] = "hf"  # of .bin files, which vLLM reads with weights_only=True
        for name, default in (("tensor_parallel_size", 1), ("gpu_memory_utilization", None)):
            if (value := getattr(self.options, name)) != default:
                arguments[name] = value
        return arguments

    def close(self) -> None:
        """End vLLM's process."""
        if self._client is not None:
            self._client.close()


class VLLMEngine(InVLLM):
    """A model in vLLM on this machine, started with the first request that fits its context.

    With `options.batch`, requests are computed in whole batches of that size without a prefix cache: near-tied
    log-probabilities then depend neither on their neighbors nor on what was asked before. Without it they are computed
    as a stream with a prefix cache, and each reply is yielded when it is finished.

    Raises:
        InputError: `quantization` is set, which vLLM does not support; when the first request is looked at: vLLM is
            not installed, the weights cannot be loaded or do not fit, a label is not one token.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.quantization:
            raise InputError(
                f"{options.subject}: vLLM cannot quantize a model to {options.quantization} (it dropped bitsandbytes); "
                "set the engine to transformers"
            )
        if (beams := options.decoding.beams) > 1:
            self.identity["beams"] = 1
            self.notes.append(GREEDY.format(beams=beams))

    def arguments(self) -> dict[str, Any]:
        options = self.options
        arguments = super().arguments() | {
            "max_model_len": options.context_length,
            "max_num_seqs": self.batch or SLOTS,
            "enable_prefix_caching": self.batch is None,
            "skip_tokenizer_init": options.response_schema is None,  # a schema is followed in the tokenizer's words
        }
        if options.adapters:
            arguments |= {
                "enable_lora": True,
                "max_lora_rank": max(map(served_rank, options.adapters)),
                "max_loras": 1,
                "max_cpu_loras": len(options.adapters),
            }
        return arguments

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. Each request has a seed of its own: a sample does not depend on its batch."""
        return self._in_batches(requests, self.batch) if self.batch else self._in_a_stream(iter(requests))

    def _resolved(self, request: Request) -> Request | Failure:
        row = super()._resolved(request)
        several = request.scored is not None and len(row.prompt) - request.scored > 1 if isinstance(row, Request) else 0
        if several and self.options.adapters:
            merges = False
            if not has_gpu_device():  # on a CPU it may merge adapters; its layers for them cannot score given text
                self.start()
                merges = self._client.merged
            if not merges:
                raise InputError(
                    f"{self.options.subject}: vLLM with adapters answers, but does not score given text; leave the "
                    "engine out for tasks that score it"
                )
        return row

    def _answered(self, rows: list[Request]) -> Iterable[Reply]:
        sent = self._sent(rows)
        replies: dict[int, Reply] = {}
        while len(replies) < len(sent):
            replies |= self._finished(sent)
        return [replies[number] for number in sent]

    def _in_a_stream(self, waiting: Iterator[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        running: dict[int, tuple[Request, Request]] = {}  # by vLLM's numbers: a request, and as it was sent
        while True:
            failed: list[tuple[Request, Reply]] = []
            fitting: list[tuple[Request, Request]] = []
            for request in itertools.islice(waiting, SLOTS + WAITING - len(running)):
                row = self._resolved(request)
                if isinstance(row, Failure):
                    failed.append((request, row))
                else:
                    fitting.append((request, row))
            if fitting:
                running |= dict(zip(self._sent([row for _, row in fitting]), fitting, strict=True))
            if failed:
                yield failed
            elif not running:
                return
            else:
                finished = self._finished({number: row for number, (_, row) in running.items()})
                yield [(running.pop(number)[0], reply) for number, reply in finished.items()]

    def _sent(self, rows: list[Request]) -> dict[int, Request]:
        """Send resolved requests; returns them by vLLM's numbers of them."""
        self.start()
        decoding = self.options.decoding
        first = self._client.send_rows(
            {
                "rows": [{name: getattr(row, name) for name in ROW} for row in rows],
                "top_p": decoding.top_p,
                "repetition_penalty": decoding.repetition_penalty,
                "logprob_token_ids": list(self.labels.values()) or None,
                "schema": self.options.response_schema,
                "stop_ids": self.stops,
            }
        )
        return dict(enumerate(rows, first))

    def _finished(self, running: dict[int, Request]) -> dict[int, Reply]:
        """Wait until some of these are finished; their replies."""
        replies: dict[int, Reply] = {}
        for number, answer, reason, scores, logprobs in self._client.receive()["finished"]:
            row = running.get(number)
            if row is None:  # of an earlier stream whose reader left early
                continue
            prompt: Any = row.prompt
            if reason not in ("stop", "length"):
                replies[number] = Failure("vLLM gave it up")
            elif row.scored is not None:
                replies[number] = scored(row, scores[row.scored - 1 :])
            else:
                replies[number] = self._completion(prompt, answer, logprobs)
        return replies


class VLLMRewardEngine(InVLLM, RewardEngine):
    """A sequence-classification model with one label in vLLM; its logit, without an activation, is the score.

    Raises:
        InputError: as `RewardEngine`.
        InstructError: vLLM failed for another reason.
    """

    def arguments(self) -> dict[str, Any]:
        return super().arguments() | {
            "runner": "pooling",
            "max_model_len": self.longest,
            "max_num_seqs": TEXTS,
            "skip_tokenizer_init": False,  # the pooling runner wants it
        }

    def _batches(self, lengths: list[int], device: str) -> list[list[int]]:
        by_length = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        return [by_length[first : first + TEXTS] for first in range(0, len(lengths), TEXTS)]

    def _scores(self, texts: list[TextRow]) -> list[float]:
        return self._client.ask({"classify": [text.ids for text in texts]})["scores"]


def served_rank(adapter: Path) -> int:
    """The smallest rank that vLLM can be set to and that holds the adapter."""
    rank = lora_rank(adapter)
    served = next((allowed for allowed in _RANKS if allowed >= rank), None)
    if served is None:
        raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
    return served
