import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fredfw.errors import InputError
from fredfw.report.files import compressed, ensure_writable, written_together

OLD, NEW = Path("old"), Path("new")


def write_atomically(path: str | Path, content: str | bytes) -> None:
    with written_together({path: content}):
        pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    OLD.write_text("old")
    OLD.chmod(0o640)


def is_as_before(*others: str) -> bool:
    """Return whether the old file has its content and mode, and there is nothing else but ``others``."""
    mode = OLD.stat().st_mode & 0o777
    return (OLD.read_text(), mode, sorted(os.listdir())) == ("old", 0o640, sorted(["old", *others]))


def test_writes_text_and_bytes_with_the_mode_of_the_old_file_or_the_mask() -> None:
    for content in ("größer\n", b"\x00\xff"):
        ensure_writable(NEW)
        write_atomically(NEW, content)
        assert NEW.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert is_as_before("new")
    ensure_writable(OLD)
    assert is_as_before("new")
    NEW.unlink()
    write_atomically(OLD, "x")
    assert OLD.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o027)
    try:
        write_atomically(NEW, "x")
    finally:
        os.umask(before)
    assert NEW.stat().st_mode & 0o777 == 0o640


def test_follows_a_symbolic_link_and_writes_to_a_device_without_replacing_it() -> None:
    Path("link").symlink_to("old")
    write_atomically("link", "new")
    assert Path("link").is_symlink()
    assert OLD.read_text() == "new"
    ensure_writable(os.devnull)
    write_atomically(os.devnull, "x")
    assert Path(os.devnull).is_char_device()


def test_a_name_that_ends_in_gz_is_compressed() -> None:
    for content in ("\u00e4" * 1000, ("\u00e4" * 1000).encode()):
        assert compressed("out.json", content) == content
        data = compressed(Path("out.json.gz"), content)
        assert isinstance(data, bytes)
        assert gzip.decompress(data).decode() == "\u00e4" * 1000
        # RFC 1952: no flags, so no name, and 0 where the time would be.
        assert data[3:8] == bytes(5)
        assert len(data) < 100
        # What an exporter has compressed is not compressed again.
        assert compressed("out.gz", data) == data


@pytest.mark.parametrize("path", [".", "missing/out", "old/out", "old/", "old/.", "new/", "new/.."])
def test_refuses_what_cannot_be_written_or_ends_like_a_directory(path: str) -> None:
    for refuses in (ensure_writable, lambda path: write_atomically(path, "x")):
        with pytest.raises(InputError, match=r"(names|is) a directory|cannot be written") as caught:
            refuses(path)
        assert caught.value.file == path
    assert is_as_before()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_refuses_a_read_only_file() -> None:
    OLD.chmod(0o444)
    with pytest.raises(InputError, match="read-only"):
        ensure_writable(OLD)


def test_all_files_are_replaced_or_none() -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomically(OLD, "\ud800")
    assert is_as_before()
    with pytest.raises(KeyboardInterrupt), written_together({OLD: "x", NEW: "y"}):
        raise KeyboardInterrupt
    assert is_as_before()
    folder = Path("folder")
    with pytest.raises(InputError, match=r"^folder: "), written_together({OLD: "x", NEW: "y", folder: "z"}):
        folder.mkdir()  # where only the rename finds out
    assert is_as_before("folder")
    with written_together({OLD: "x", NEW: "y"}):
        assert OLD.read_text() == "old"
        assert not NEW.exists()
    assert (OLD.read_text(), NEW.read_text()) == ("x", "y")
    assert sorted(os.listdir()) == ["folder", "new", "old"]


def test_where_no_links_can_be_made_the_backup_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(InputError), written_together({OLD: "x", Path("folder"): "z"}):
        Path("folder").mkdir()
    assert is_as_before("folder")
    write_atomically(OLD, "new")
    assert OLD.read_text() == "new"
    assert sorted(os.listdir()) == ["folder", "old"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
def test_a_device_that_is_full_leaves_the_other_files() -> None:
    with pytest.raises(InputError, match="No space left"), written_together({"old": "x", "/dev/full": "y"}):
        pass
    assert is_as_before()


def test_what_killed_processes_left_is_removed() -> None:
    """Only what is an hour old and of a process that is not there; what looks alike is somebody else's."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    code = (
        "import os, signal; from fredfw.report.files import written_together\n"
        "with written_together({'out': 'x'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (stale,) = (name for name in os.listdir() if name != "old")
    young = f".fredfw-{done.pid}-{1:016x}.tmp"
    alive = f".fredfw-{os.getpid()}-{2:016x}.tmp"
    other = f".fredfw-{done.pid}-notes.tmp"
    for name in (young, alive, other):
        Path(name).touch()
    for name in (stale, alive, other):
        os.utime(name, (0, 0))
    write_atomically("out", "new")
    assert is_as_before(young, alive, other, "out")
