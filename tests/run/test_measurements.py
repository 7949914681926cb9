"""What metrics.json says of systems."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from instruct.run.measurements import Metrics

ROW = {"system": "emo", "part": "lm_eval/arc_easy", "metric": "acc", "value": 0.4}


@pytest.mark.parametrize(
    "change", [{"system": "../emo"}, {"system": "e" * 101}, {"part": "../outputs"}, {"part": "lm_eval/" + "t" * 256}]
)
def test_a_system_or_part_that_names_no_file_of_the_run_is_refused(change):
    Metrics.model_validate({"version": 2, "measurements": [ROW]})
    with pytest.raises(ValidationError, match=r"measurements\.0\.(system|part)"):
        Metrics.model_validate({"version": 2, "measurements": [{**ROW, **change}]})
