"""The client of `vllm_process.py`: starts that process, sends it requests and ends it."""

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

from instruct.base.errors import InputError, InstructError, one_line

CALLER_ERRORS = ("OSError", "ValueError", "ValidationError", "FileNotFoundError", "SafetensorError", "UnpicklingError")
# Defaults of vLLM's environment.
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1"}
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

    On a CPU it runs in bfloat16, unless float32 is asked for, with a cache of `VLLM_CPU_KVCACHE_SPACE` GiB (default
    2). vLLM's log is shown only if `VLLM_LOGGING_LEVEL` is INFO or DEBUG.

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
            env=ENVIRONMENT | os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # this process handles Ctrl-C
        )
        self.name, self.context = "", 0
        self._rows = 0  # that were sent
        try:
            start = {"arguments": ARGUMENTS | arguments, "adapters": list(map(str, adapters))}
            started = self.ask(start)
            self.name, self.context = started["engine"], int(started["context"])
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
        self.send(request)
        self._rows += len(request["rows"])
        return self._rows - len(request["rows"])

    def receive(self) -> dict[str, Any]:
        """The next reply.

        Raises:
            InputError: a JSON schema that vLLM does not support.
            InstructError: vLLM failed and has ended; this client cannot be used any more.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):  # it ended in the middle of a reply
            raise InstructError(
                f"vLLM stopped (exit code {self._process.wait()}{self._last_error()}); set VLLM_LOGGING_LEVEL=INFO to "
                "see its log, or lower the batch size if memory ran out"
            )
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            message = one_line(f"{reply['error']}: {reply['message']}")
            if "adapter" in reply:
                raise InputError(
                    f"{reply['adapter']}: vLLM cannot serve this adapter ({message}); merge it into its base"
                )
            if "schema" in reply:
                raise InputError(
                    f"model {self._model}: vLLM cannot hold its replies to this JSON schema ({message}); change "
                    "response_schema, or leave it out"
                )
            if not self.name and reply["error"] in CALLER_ERRORS:
                raise InputError(
                    f"model {self._model}: vLLM cannot load it ({message}); check the name and the settings"
                )
            raise InstructError(f"vLLM failed on {self._model}: {message}; set VLLM_LOGGING_LEVEL=INFO to see its log")
        return reply

    def _last_error(self) -> str:
        """The last line of vLLM's log that names an error."""
        if self._log is None:
            return ""
        self._log.seek(0)
        errors = [line for line in self._log if re.search(r"\w(Error|Exception)\b", line)]
        return ", " + one_line(errors[-1], 200) if errors else ""

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
