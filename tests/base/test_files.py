"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os

from instruct.base.files import replace_folder


def test_a_folder_is_replaced_after_its_files_reached_the_disk(tmp_path, monkeypatch):
    for name, content in (("old", "old"), ("made", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text(content)
    order: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", lambda source, target: (order.append("replaced"), replace(source, target)))
    replace_folder(tmp_path / "old", tmp_path / "made")
    assert order == [str(tmp_path / "made" / "weights"), "replaced", str(tmp_path / "old"), str(tmp_path)]
    assert (tmp_path / "old" / "weights").read_text() == "new"
    assert not (tmp_path / "made").exists()
