"""The JSON Schemas of the lines that `instruct import` and `instruct report --human` read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from instruct.judging.interchange.json_lines import Line
from instruct.judging.interchange.labels import Label
from instruct.judging.store import VALUES

VERDICTS = Path(__file__).with_name("verdicts.schema.json")
LABELS = Path(__file__).with_name("labels.schema.json")


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a line of verdicts; what it cannot say is in docs/judges.md."""
    schema = Line.model_json_schema()
    judgment, reply = schema["$defs"]["Judgment"], schema["$defs"]["Completion"]
    judgment["additionalProperties"] = reply["additionalProperties"] = False
    fields = judgment["properties"]
    for name, known in VALUES.items():
        fields[name]["enum"] = list(known)
    for name in ("judge", "candidate", "baseline", "instruction"):
        fields[name]["pattern"] = r"\S"
    fields["pair"]["minimum"] = 0
    fields["preference"]["anyOf"][0] |= {"minimum": 1, "maximum": 2}
    return _dated(schema)


def label_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a line of people's labels."""
    return _dated(Label.model_json_schema())


def _dated(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    for path, schema in ((VERDICTS, verdict_schema()), (LABELS, label_schema())):
        path.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
