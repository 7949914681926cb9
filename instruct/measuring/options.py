"""Which numbers about texts are computed, and from what; which tasks are run, and how."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from instruct.base.models import ModelOptions
from instruct.base.options import Options, Texts
from instruct.data.cards import Documents
from instruct.engines.base import server_address

TextMetric = Literal["perplexity", "entropy", "oracle_perplexity", "distances", "mauve", "rouge", "diversity"]


def _named_model(value: Any) -> Any:
    """A model may be given by its name alone."""
    return {"name": value} if isinstance(value, str) else value


NamedModel = Annotated[ModelOptions, BeforeValidator(_named_model, json_schema_input_type=str | ModelOptions)]


class HeldOutOptions(Options):
    """Human text that no system was trained on: a card, or files."""

    card: str | None = None
    """A data set's card, by name or path."""
    files: Texts | None = Field(default=None, min_length=1)
    """Text files, or tables with a column text, instead of the card's source."""
    limit: int | None = Field(default=None, ge=1)
    """Use the first texts only."""
    documents: Documents | None = None
    """What a text is in a plain text file (default: the card's)."""

    @model_validator(mode="after")
    def _names_data(self) -> HeldOutOptions:
        if self.card is None and not self.files:
            raise ValueError("names no texts; set card or files")
        return self


class TextMetricOptions(Options):
    """Metrics of held-out text and of continuations."""

    metrics: list[TextMetric] | None = Field(default=None, min_length=1)
    """Compute only these (default: all for which there are texts and models)."""
    held_out: HeldOutOptions | None = None
    """Human text for perplexity, entropy and distances (default: how the human texts of the prefixes continue)."""
    reference_model: NamedModel | None = None
    """A model, by name, for oracle_perplexity and distances."""
    matched_temperature: bool = True
    """Also sample MLE at the temperature that gives it the entropy of each other objective's system."""
    max_length: int = Field(default=1024, ge=2)
    """Longer held-out texts are read in windows of this many tokens, which overlap by half."""
    mauve_model: NamedModel | None = None
    """The causal model, by name, whose hidden states MAUVE compares (default: GPT-2 large with a GPU, else SmolLM2)."""
    mauve_length: int = Field(default=256, ge=1)
    """MAUVE reads a text's first tokens of its model."""


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
    base_url: Annotated[str, AfterValidator(server_address)] | None = None
    """The OpenAI-compatible server of engine: server."""
    chat: bool = False
    """Ask in the model's chat template; demonstrations are earlier turns."""
    trust_task_code: bool = False
    """Run the Python functions that the YAML file of a task names (`!function`)."""

    @model_validator(mode="after")
    def _server_has_an_address(self) -> TaskOptions:
        if (self.engine == "server") != (self.base_url is not None):
            raise ValueError("engine: server requires base_url, and base_url requires engine: server")
        return self
