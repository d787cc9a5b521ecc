from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fredfw.errors import InputError
from fredfw.report.files import compressed, ensure_writable, written_together


def write_atomically(path: str | Path, content: str | bytes) -> None:
    with written_together({path: content}):
        pass


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


def test_a_name_that_ends_in_gz_is_compressed() -> None:
    assert compressed("out.json", "x") == "x"
    assert compressed("out.png", b"x") == b"x"
    for content in ("\u00e4" * 1000, ("\u00e4" * 1000).encode()):
        data = compressed(Path("out.json.gz"), content)
        assert isinstance(data, bytes)
        assert gzip.decompress(data).decode() == "\u00e4" * 1000
        # RFC 1952: no flags, so no name, and 0 where the time would be.
        assert data[3:8] == bytes(5)
        assert len(data) < 100
        # What an exporter has compressed is not compressed again.
        assert compressed("out.gz", data) == data


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


def test_all_files_are_replaced_or_none(tmp_path: Path) -> None:
    old, new, folder = tmp_path / "old", tmp_path / "new", tmp_path / "folder"
    old.write_text("old")
    old.chmod(0o640)
    with pytest.raises(InputError) as caught, written_together({old: "x", new: "y", folder: "z"}):
        folder.mkdir()  # where only the rename finds out
    assert caught.value.file == str(folder)
    assert old.read_text() == "old"
    assert old.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["folder", "old"]
    with written_together({old: "x", new: "y"}):
        assert old.read_text() == "old"
        assert not new.exists()
    assert (old.read_text(), new.read_text()) == ("x", "y")
    assert sorted(os.listdir(tmp_path)) == ["folder", "new", "old"]


def test_a_failure_in_the_block_leaves_every_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt), written_together({tmp_path / "old": "x", tmp_path / "new": "y"}):
        raise KeyboardInterrupt
    assert (tmp_path / "old").read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_where_no_links_can_be_made_the_backup_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    old = tmp_path / "old"
    old.write_text("old")
    with pytest.raises(InputError), written_together({old: "x", tmp_path / "folder": "z"}):
        (tmp_path / "folder").mkdir()
    assert old.read_text() == "old"
    write_atomically(old, "new")
    assert old.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["folder", "old"]


def test_a_device_that_is_full_leaves_the_other_files(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("has no device that is always full")
    (tmp_path / "old").write_text("old")
    with (
        pytest.raises(InputError, match="No space left"),
        written_together({str(tmp_path / "old"): "x", "/dev/full": "y"}),
    ):
        pass
    assert (tmp_path / "old").read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize("path", ["old/", "old/.", "new/", "new/.."])
def test_refuses_what_ends_like_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old").write_text("old")
    for refuses in (ensure_writable, lambda path: write_atomically(path, "x")):
        with pytest.raises(InputError, match=r"(names|is) a directory"):
            refuses(path)
    assert (os.listdir(), Path("old").read_text()) == (["old"], "old")


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """Only what is an hour old and of a process that is not there; what looks alike is somebody else's."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    code = (
        "import os, signal, sys; from fredfw.report.files import written_together\n"
        "with written_together({sys.argv[1]: 'x'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False)
    (stale,) = os.listdir(tmp_path)
    names = {
        "young": f".fredfw-{done.pid}-{1:016x}.tmp",
        "alive": f".fredfw-{os.getpid()}-{2:016x}.tmp",
        "other": f".fredfw-{done.pid}-notes.tmp",
    }
    for name in names.values():
        (tmp_path / name).touch()
    for name in (stale, names["alive"], names["other"]):
        os.utime(tmp_path / name, (0, 0))
    write_atomically(tmp_path / "out", "new")
    assert sorted(os.listdir(tmp_path)) == sorted([*names.values(), "out"])
