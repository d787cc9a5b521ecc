import gzip
import hashlib
import os
import pickle
from pathlib import Path
from typing import ClassVar

import pytest
from attrs import frozen

from fredfw import File, Files, limits, units
from fredfw.errors import InputError, LimitError
from fredfw.plugin import configure


@frozen
class Reader:
    name: ClassVar[str] = "reader"
    file: File = units.file(help="what is read")
    others: Files | None = units.files(None, help="what else is read")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_path_is_relative_to_the_folder_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    found = configure.build(Reader, {"file": "a.txt"}, folder=tmp_path).file
    assert (found.path, found.location, found.digest) == ("a.txt", tmp_path / "a.txt", digest(b"content"))
    assert found.read() == b"content"
    assert found.text() == "content"
    monkeypatch.chdir(tmp_path)
    assert configure.build(Reader, {"file": "a.txt"}).file == found
    assert configure.from_text(Reader, {"file": "a.txt"}).file == found
    Path("10").write_text("x")
    assert configure.from_text(Reader, {"file": "10"}).file.text() == "x"
    assert pickle.loads(pickle.dumps(found)) == found
    (tmp_path / "1.et").write_bytes(b"1")
    reader = configure.build(Reader, {"file": "a.txt", "others": "*.et"}, folder=tmp_path)
    assert configure.unstructure(reader) == {"file": "a.txt", "others": ["*.et"]}
    together = digest(f"{digest(b'1')} 1.et\n".encode())
    several = {"path": ["*.et"], "sha256": together}
    assert configure.files([reader]) == [{"path": "a.txt", "sha256": digest(b"content")}, several]


def test_files_are_in_the_order_of_their_numbers_and_the_digest_has_their_names_and_contents(tmp_path: Path) -> None:
    for rank in range(11):
        (tmp_path / f"gpt.{rank}.et").write_bytes(b"%d" % rank)
    (tmp_path / "gpt.json").write_bytes(b"no trace")
    found = Files.at("gpt.*.et", tmp_path)
    assert [(one.path, one.read()) for one in found.files] == [(f"gpt.{rank}.et", b"%d" % rank) for rank in range(11)]
    listed = Files.at(["gpt.10.et", "gpt.2.et"], tmp_path)
    assert [one.path for one in listed.files] == ["gpt.10.et", "gpt.2.et"]
    digests = {found.digest}
    (tmp_path / "gpt.3.et").rename(tmp_path / "gpt.11.et")
    digests.add(Files.at("*.et", tmp_path).digest)
    (tmp_path / "gpt.11.et").write_bytes(b"longer")
    assert len({*digests, Files.at("*.et", tmp_path).digest}) == 3


def test_a_changed_file_is_refused_and_has_another_digest_and_text_must_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"content")
    found = File.at(path)
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(0, 0))
    assert File.at(path) != found
    assert File.at(path).digest == digest(b"CONTENT") != found.digest
    with pytest.raises(InputError, match="has changed while it was used"):
        found.read()
    path.unlink()
    with pytest.raises(InputError, match="cannot be read: No such file"):
        found.read()
    path.write_bytes(b"ab\xff")
    with pytest.raises(InputError, match="is not UTF-8 text: byte 0xff at offset 2"):
        File.at(path).text()


def test_compressed_files_are_expanded_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"content"))
    assert File.at(path).text() == "content"
    path.write_bytes(gzip.compress(bytes(2_000_000)))
    with limits.allowed({"bytes": 1_000_000}), pytest.raises(LimitError, match=r"bomb\.gz: .*bytes are too many"):
        File.at(path).read()
    for cut in (3, 10, 20):
        path.write_bytes(gzip.compress(b"content" * 100)[:cut])
        with pytest.raises(InputError, match=r"bomb\.gz: is not a whole gzip file"):
            File.at(path).read()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"file": "none.txt"}, r"file: 'none\.txt' cannot be read: No such file or directory \(accepted: the path of"),
        ({"file": "."}, "file: '.' cannot be read: Is a directory"),
        ({"file": ""}, "file: '' is not a path"),
        ({"file": 3}, "file: 3 is not a path"),
        ({"file": "a\0b"}, "file: .*cannot be a path"),
        ({"others": "*.et"}, r"others: no file matches '\*\.et'"),
        ({"others": "*/0.et"}, r"has a \* in a directory"),
        ({"others": []}, r"others: \[\] does not name files"),
        ({"others": ["a.txt", "a.*"]}, "others: 'a.txt' is named twice"),
    ],
)
def test_wrong_paths_and_patterns_are_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    with pytest.raises(InputError, match=message):
        configure.build(Reader, {"file": "a.txt", **fields}, folder=tmp_path)


def test_errors_about_its_content_name_it(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("1")
    file = File.at("some.txt", tmp_path)
    for error, named in ((InputError("wrong"), "some.txt"), (InputError("wrong", file="other"), "other")):
        with pytest.raises(InputError) as caught, file.named():
            raise error
        assert caught.value.file == named
    assert File("a\\b/c.txt", tmp_path, "").name == "c.txt"
