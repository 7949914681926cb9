"""vLLM's own server as a child process, which ends with the process that started it, however that ends."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.machine import has_gpu_device
from instruct.base.run_log import are_aside
from instruct.engines.weights import NO_TENSORS, UNPICKLING

LOOPBACK = "127.0.0.1"
# Defaults of vLLM's environment.
ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1"}
# The same on a CPU: GiB of keys and values; glibc keeps freed memory up to these bytes, else the kernel maps the same
# pages anew in each step.
CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
# vLLM keeps a core for its scheduler, half of such a machine, unless its threads are not bound to cores.
_FEW_CORES = 4
# Runs a command in the place of the shell, and ends all of its processes when standard input ends, as it does at the
# latest when the process that holds the other end is gone.
_WATCHED = 'exec 3<&0 </dev/null; { read _ <&3; kill -s KILL -- -$$; } & exec "$@" 3<&-'
# The last line of a traceback, after the name of the process that wrote it: a cause is in the first that fails.
_ERROR = re.compile(r"^(\(\w+ pid=\d+\))?(?!.* (?:WARNING|INFO) ).*?\b(\w*(?:Error|Exception): .*)")
# What the caller can correct.
_CALLERS = re.compile(r"(OSError|ValueError|ValidationError|FileNotFoundError|SafetensorError|KeyError)\b")


class VLLMServer:
    """`vllm serve` with a model, which answers when this returns.

    It is started as the module behind that command: the command looks for a package of the name vllm, which the build
    for CPUs does not have. vLLM's log is shown only if `VLLM_LOGGING_LEVEL` is INFO or DEBUG.

    Args:
        subject: who is asked, as error messages name it.
        arguments: of `vllm serve`.
        host: the address at which it listens.

    Attributes:
        url: where it is, without the path of its API.
        version: vLLM's, and its device.
        context: the most tokens of a prompt and its reply.

    Raises:
        InputError: a model or an adapter that vLLM cannot load.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, subject: str, arguments: Sequence[str], host: str = LOOPBACK) -> None:
        self._subject = subject
        with socket.socket() as free:
            free.bind((host, 0))
            port = free.getsockname()[1]
        self.url = f"http://{host}:{port}"
        # TRL sets the level to ERROR when it is imported, so the variable alone does not show what the user wants.
        shown = os.environ.get("VLLM_LOGGING_LEVEL") in ("INFO", "DEBUG")
        self._log: Any = None
        if not shown:
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (until close)
        environment = ENVIRONMENT | os.environ
        environment.pop("OPENAI_API_KEY", None)
        device = "cuda" if has_gpu_device() else "cpu"
        if device == "cpu":
            environment = CPU_ENVIRONMENT | environment
            arguments = [*arguments, "--enforce-eager"]
        if device == "cpu" and (os.cpu_count() or 1) <= _FEW_CORES:
            environment.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        module = [sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server"]
        where = ["--host", host, "--port", str(port), "--disable-uvicorn-access-log"]
        self._process = subprocess.Popen(
            ["sh", "-c", _WATCHED, "sh", *module, *where, *arguments],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # a group of its own, which is not sent Ctrl-C: this process handles it
        )
        try:
            while not self._is_ready():
                self.check(starting=True)
                time.sleep(0.1)
            self.version = f"vllm {self._get('/version')['version']} {device}"
            self.context = int(self._get("/v1/models")["data"][0]["max_model_len"])
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> list[str]:
        """Of all servers: `Replicas` has several."""
        return [self.url]

    def _is_ready(self) -> bool:
        with suppress(OSError):
            self._get("/health")
            return True
        return False

    def _get(self, path: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=10) as reply:
            return json.loads(reply.read() or b"null")

    def check(self, starting: bool = False) -> None:
        """Do nothing while it runs.

        Raises:
            InputError: it ended, and could not be started with this model.
            InstructError: it ended.
        """
        if (code := self._process.poll()) is None:
            return
        reason = f"exit code {code}"
        if self._log is not None:
            self._log.seek(0)
            matches = filter(None, map(_ERROR.match, self._log))
            for _, its_errors in itertools.islice(itertools.groupby(matches, lambda match: match[1]), 1):
                reason = one_line([match[2] for match in its_errors][-1], 250)
        if UNPICKLING in reason:
            raise InputError(f"{self._subject}: {NO_TENSORS}")
        if starting and _CALLERS.search(reason):
            raise InputError(f"{self._subject}: vLLM cannot load it ({reason}); check the name and the settings")
        raise InstructError(
            f"{self._subject}: vLLM ended ({reason}); set VLLM_LOGGING_LEVEL=INFO to see its log, or ask less at a "
            "time if memory ran out"
        )

    def close(self) -> None:
        """End all its processes, and wait until the server is gone."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        if self._log is not None and not self._log.closed:
            self._log.seek(0)
            if are_aside():
                sys.stderr.write(self._log.read())  # into the log of the run
            self._log.close()
