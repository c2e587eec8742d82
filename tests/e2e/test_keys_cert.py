"""contactctl keys cert: a certificate that browsers and curl take, and what it refuses. test_guard.py serves with some."""

from __future__ import annotations

import json
import pathlib
import ssl
import subprocess

import pytest
from conftest import CONTACTCTL, SLOW


def cert(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*CONTACTCTL, "keys", "cert", *arguments], cwd=folder, capture_output=True, text=True, timeout=30 * SLOW,
                          check=False)


def test_what_it_makes(tmp_path):
    done = cert(tmp_path, "lab", "contactd.lab.example", "10.0.0.7", "LocalHost", "contactd.lab.example", "--days", "30")
    assert done.returncode == 0 and done.stdout == "contactd --http-cert lab.pem --http-key lab-key.pem\n", done.stderr
    made = ssl._ssl._test_decode_cert(str(tmp_path / "lab.pem"))  # type: ignore[attr-defined]
    names = [(kind, name.strip()) for kind, name in made["subjectAltName"]]
    assert names == [("DNS", "contactd.lab.example"), ("IP Address", "10.0.0.7"), ("DNS", "LocalHost"), ("IP Address", "127.0.0.1"),
                     ("IP Address", "0:0:0:0:0:0:0:1")]  # each once
    assert made["subject"] == made["issuer"] and made["version"] == 3
    days = (ssl.cert_time_to_seconds(made["notAfter"]) - ssl.cert_time_to_seconds(made["notBefore"])) / 86400
    assert days == pytest.approx(30, abs=0.1)
    assert (tmp_path / "lab-key.pem").stat().st_mode & 0o777 == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "lab.pem", tmp_path / "lab-key.pem")  # they belong together


def test_nothing_is_written_over(tmp_path):
    assert json.loads(cert(tmp_path, "one", "--json").stdout) == {"certificate": "one.pem", "key": "one-key.pem"}
    before = (tmp_path / "one-key.pem").read_bytes()
    again = cert(tmp_path, "one")
    assert again.returncode == 2 and "one-key.pem: File exists, and stays as it is: name another" in again.stderr and (tmp_path / "one-key.pem").read_bytes() == before
    (tmp_path / "two.pem").write_text("mine")
    assert cert(tmp_path, "two").returncode == 2
    assert (tmp_path / "two.pem").read_text() == "mine" and not (tmp_path / "two-key.pem").exists()


@pytest.mark.parametrize("arguments, message", [(("a/b",), "no name"), (("a", "two words"), "no name of a host"), (("a", "--days", "0"), "--days"),
                                                (("a", "--days", "nan"), "--days")])
def test_bad_arguments(tmp_path, arguments, message):
    done = cert(tmp_path, *arguments)
    assert done.returncode == 2 and message in done.stderr and not list(tmp_path.iterdir())
