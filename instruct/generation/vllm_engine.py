"""vLLM, started in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from instruct.errors import InputError, InstructError, one_line
from instruct.generation.config import GenerationConfig
from instruct.generation.serving import Completion, Serving, answer_limits, completion_of, prompt_seed
from instruct.generation.weights import lora_rank

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm.config.lora.MaxLoRARanks
_CALLER_ERRORS = ("OSError", "ValueError", "ValidationError", "FileNotFoundError", "SafetensorError")


class VLLMEngine:
    """vLLM in a process of its own, LoRA adapters served unmerged; that process ends with `close` or with this one.

    On a CPU it takes bf16 and `VLLM_CPU_KVCACHE_SPACE` (GiB, 2 unless set). What vLLM logs is kept back unless
    `VLLM_LOGGING_LEVEL` is set.

    Raises:
        InputError: a model or an adapter that vLLM cannot load.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, serving: Serving, config: GenerationConfig) -> None:
        self._serving = serving
        ranks = [lora_rank(adapter) for adapter in serving.adapters]
        for adapter, rank in zip(serving.adapters, ranks, strict=True):
            if rank > _RANKS[-1]:
                raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
        arguments: dict[str, Any] = {
            "model": serving.model,
            "revision": serving.revision,
            "skip_tokenizer_init": True,
            "generation_config": "vllm",  # decoding is this project's configuration and nothing else
            "max_model_len": serving.max_model_len,
            "max_num_seqs": config.batch_size,
            "gpu_memory_utilization": config.gpu_memory_utilization,
            "enable_prefix_caching": False,
            "trust_remote_code": False,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        if ranks:
            rank = next(allowed for allowed in _RANKS if allowed >= max(ranks))
            arguments |= {"enable_lora": True, "max_lora_rank": rank, "max_loras": 1, "max_cpu_loras": len(ranks)}
        quiet = "VLLM_LOGGING_LEVEL" not in os.environ
        defaults = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1"}
        self._log: IO[str] | None = None
        if quiet:
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("vllm_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**defaults, **os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is this process's to answer
        )
        try:
            self.name: str = self._ask({"arguments": arguments, "adapters": list(map(str, serving.adapters))})["engine"]
        except BaseException:
            self.close()
            raise

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise InstructError(
                f"vLLM stopped (exit code {self._process.wait()}{self._last_error()}); "
                "set VLLM_LOGGING_LEVEL=INFO to see its log, or lower generation.batch_size if memory ran out"
            )
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            message = one_line(f"{reply['error']}: {reply['message']}")
            if "adapter" in reply:
                raise InputError(
                    f"{reply['adapter']}: vLLM cannot serve this adapter ({message}); merge it into its base"
                )
            if "adapters" in request and reply["error"] in _CALLER_ERRORS:
                raise InputError(
                    f"model {self._serving.model}: vLLM cannot load it ({message}); check the model and generation.*"
                )
            raise InstructError(
                f"vLLM failed on {self._serving.model}: {message}; set VLLM_LOGGING_LEVEL=INFO to see its log"
            )
        return reply

    def _last_error(self) -> str:
        """The last line of vLLM's log that names an error."""
        if self._log is None:
            return ""
        self._log.seek(0)
        errors = [line for line in self._log if re.search(r"\w(Error|Exception)\b", line)]
        return ", " + one_line(errors[-1], 200) if errors else ""

    def complete(
        self, prompts_token_ids: list[list[int]], adapter: Path | None, config: GenerationConfig, first_index: int = 0
    ) -> list[Completion]:
        """See `Engine`. Each request has a seed of its own: a sample does not depend on its batch."""
        reply = self._ask(
            {
                "prompts": prompts_token_ids,
                "limits": answer_limits(self._serving, prompts_token_ids, config),
                "seeds": [prompt_seed(config.seed, first_index + i) for i in range(len(prompts_token_ids))],
                "temperature": config.temperature,
                "top_p": config.top_p,
                "stop_ids": self._serving.stop_ids,
                "adapter": None if adapter is None else str(adapter),
            }
        )
        return [completion_of(self._serving, ids) for ids in reply["tokens"]]

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
        if self._log is not None:
            self._log.close()
