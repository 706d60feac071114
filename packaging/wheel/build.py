"""Makes a wheel that carries the server: python3 packaging/wheel/build.py target/dist/tideline FOLDER

Owns: the wheel's few files. Promises: `pip install` puts the binary itself on the path, without Python in between; its
tag says which C library the binary needs, so pip refuses it elsewhere; the same binary gives the same bytes. Must not:
need anything but Python's standard library.
"""

import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "tideline_server"
METADATA = """Metadata-Version: 2.4
Name: tideline-server
Version: {version}
Summary: The server Tideline, a timeline messaging server, as a binary. The client for Python is the package `tideline`.
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
WHEEL = """Wheel-Version: 1.0
Generator: packaging/wheel/build.py
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def version():
    return re.search(r'^\[workspace\.package\]\nversion = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def fitting(binary):
    """The platforms that the binary runs on: Linux with the C library of its newest symbol, or a newer one."""
    if binary[:4] != b"\x7fELF":
        raise SystemExit("build.py: no binary of Linux; other systems build from source")
    newest = max((int(major), int(minor)) for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", binary))
    return f"manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"


def stripped(path):
    """Without symbols, if there is a `strip`: what the wheel does not need is most of the file."""
    if not shutil.which("strip"):
        return path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tideline"
        subprocess.run(["strip", "-o", copy, path], check=True)
        return copy.read_bytes()


def build(path, folder, level=9):
    binary = stripped(path)
    own = f"{NAME}-{version()}"
    files = {
        f"{own}.data/scripts/tideline": binary,
        f"{own}.dist-info/METADATA": METADATA.format(version=version()).encode() + (ROOT / "packaging/wheel/README.md").read_bytes(),
        f"{own}.dist-info/WHEEL": WHEEL.format(platform=fitting(binary)).encode(),
        f"{own}.dist-info/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = f"{own}.dist-info/RECORD"
    lines = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    wheel = folder / f"{own}-py3-none-{fitting(binary)}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as out:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.external_attr = (0o100755 if "scripts" in name else 0o100644) << 16
            about.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(about, content, compresslevel=level)
    return wheel


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 3 or not pathlib.Path(sys.argv[1]).is_file():
        raise SystemExit("build.py: python3 packaging/wheel/build.py BINARY FOLDER, with a binary that is there")
    print(build(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
