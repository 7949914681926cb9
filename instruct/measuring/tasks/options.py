"""Which tasks are run, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from instruct.base.options import Options, Texts
from instruct.engines.base import server_address


class TaskOptions(Options):
    """Tasks of lm-evaluation-harness (needs the extra `lm-eval`)."""

    names: Texts = []
    """lm-eval's own by name, cards (see `instruct list tasks`), or YAML files."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first rows of each task."""
    shots: int | None = Field(default=None, ge=0)
    """The number of demonstrations (default: the task's)."""
    engine: Literal["transformers", "server"] = "transformers"
    """What runs the tasks."""
    base_url: str | None = None
    """The OpenAI-compatible server of engine: server."""
    chat: bool = False
    """Ask in the model's chat template; demonstrations are earlier turns."""
    trust_task_code: bool = False
    """Run the Python functions that the YAML file of a task names (`!function`)."""

    @field_validator("base_url")
    @classmethod
    def _address_has_no_secret(cls, url: str | None) -> str | None:
        return url if url is None else server_address(url)

    @model_validator(mode="after")
    def _server_has_an_address(self) -> TaskOptions:
        if (self.engine == "server") != (self.base_url is not None):
            raise ValueError("engine: server requires base_url, and base_url requires engine: server")
        return self

    @model_validator(mode="after")
    def _names_each_once(self) -> TaskOptions:
        if len(set(self.names)) < len(self.names):
            raise ValueError("names: a task is given twice; remove one")
        return self
