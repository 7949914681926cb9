"""The JSON Schema of report.json, from the types in schema.py.

    python -m instruct.reporting.json_schema

writes report.schema.json, which the wheel carries; a test holds it to the types.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from instruct.reporting.schema import SCHEMA_VERSION, Report

PATH = Path(__file__).with_name("report.schema.json")


def report_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12, made by pydantic): every key is required and no other is allowed."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Report).json_schema()
    for record in [schema, *schema["$defs"].values()]:
        record["additionalProperties"] = False
    schema["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    PATH.write_text(json.dumps(report_schema(), indent=1) + "\n", encoding="utf-8")
