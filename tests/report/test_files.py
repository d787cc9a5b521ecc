from __future__ import annotations

import os
from pathlib import Path

import pytest

from fredfw.errors import InputError
from fredfw.report.files import ensure_writable, write_atomically


def test_writes_text_and_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    for content in ("größer\n", b"\x00\xff"):
        ensure_writable(tmp_path / "out")
        write_atomically(tmp_path / "out", content)
        assert (tmp_path / "out").read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert os.listdir(tmp_path) == ["out"]


def test_check_leaves_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    ensure_writable(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_keeps_the_mode_of_the_old_file_and_obeys_the_mask_for_a_new_one(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("")
    old.chmod(0o640)
    write_atomically(old, "x")
    assert old.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_follows_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_writes_to_a_device_without_replacing_it() -> None:
    ensure_writable(os.devnull)
    write_atomically(os.devnull, "x")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("where", ["", "missing/out", "file/out"])
def test_refuses_what_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / where
    with pytest.raises(InputError) as caught:
        ensure_writable(path)
    assert caught.value.file == str(path)
    assert caught.value.accepted
    with pytest.raises(InputError):
        write_atomically(path, "x")
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_refuses_a_read_only_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(InputError, match="read-only"):
        ensure_writable(path)


def test_a_failure_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]
