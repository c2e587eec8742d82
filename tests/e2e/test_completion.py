"""Help, manual page and completion of contactctl are made of one table: every command and option is in each, and bash, zsh
and fish complete them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading

import pytest

from conftest import BUILD, ROOT, SLOW, wait_until

CTL = str(BUILD / "contactctl")


def run(*arguments: str) -> str:
    done = subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def options_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[a-z-]+)", text, re.M))


@pytest.fixture(scope="module")
def common() -> set[str]:
    return options_in(run("--help"))


@pytest.fixture(scope="module")
def table(common) -> dict[str, set[str]]:
    """The options of each command beside the common ones, as the help lists them."""
    listed = run("--help").split("\n\n")[1]
    found = {}
    for line in re.findall(r"^  (\S.*)", listed, re.M):  # a wide command has its help on the next line
        words = re.split("  ", line)[0].split()
        # What follows the command is in capitals, in brackets, or a choice.
        path = [word for word in words[:2] if re.fullmatch(r"[a-z-]+", word)]
        text = run(*path, "--help")
        assert text.startswith("usage: contactctl " + " ".join(path)), text
        found[" ".join(path)] = options_in(text) - common
        assert common <= options_in(text)
    return found


def test_the_table_is_read(table, common):
    assert {"contact", "mesh add", "scene close", "sessions", "bodies", "record", "replay", "top", "drain", "completion"} <= set(table)
    assert "--resolution" in table["scene set"] and "--once" in table["top"] and not table["sessions"]
    assert {"--server", "--json", "--help"} <= common


def test_every_option_belongs_to_a_command(table, common):
    """None is in the table without being anywhere in the help."""
    source = "".join((ROOT / "client_c" / "ctl" / name).read_text() for name in ("options.c", "setting_options.inc"))
    named = {option for options in table.values() for option in options} | common
    assert set(re.findall(r"\[OPT_[\w +]+\] =\s*\{\s*\"(--[a-z-]+)\"", source)) == named


def test_man_page(table, common):
    page = run("man-page").replace("\\-", "-")
    sections = {match[1]: match[2] for match in re.finditer(r"^\.SS (.*)\n((?:(?!\.S).*\n)*)", page, re.M)}
    for path, options in table.items():
        (body,) = [text for title, text in sections.items() if (title + " ").startswith(path + " ")]
        assert {o for o in re.findall(r"^\.B (--[a-z-]+)", body, re.M)} == options, path
    everywhere = page[page.index(".SH OPTIONS") : page.index(".SH EXIT STATUS")]
    assert set(re.findall(r"^\.B (--[a-z-]+)", everywhere, re.M)) == common
    assert "0 ok, 2 usage" in page and "CONTACTD_SERVER" in page


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_the_man_page_has_no_mistakes():
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=run("man-page"), capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert re.search(r"record FILE \[COMMAND\.\.\.\]", re.sub(".\b", "", done.stdout))  # bold is a letter over itself


# ---- bash ----


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = """
        source "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _contactctl
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = BUILD / "completion-of-test"
    path.write_text(run("completion", "bash"))
    done = subprocess.run(["bash", "-c", script, "bash", path, "contactctl", *words], capture_output=True, text=True)
    assert done.stderr == "" and done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_every_command_and_option(table, common):
    nouns = {path.split()[0] for path in table}
    assert set(complete("")) == nouns
    assert set(complete("--")) == common
    for noun in nouns:
        verbs = {path.split()[1] for path in table if path.startswith(noun + " ")}
        if verbs:
            assert set(complete(noun, "")) == verbs
    for path, options in table.items():
        assert set(complete(*path.split(), "--")) == options | common, path


def test_bash_completes_what_is_begun(tmp_path, monkeypatch):
    assert complete("sc") == ["scene"] and complete("scene", "cl") == ["close"]
    assert complete("--server", "tcp://127.0.0.1:1", "sess") == ["sessions"]  # an option's value is no command
    assert complete("-o", "") == ["json", "table"] and complete("status", "--output", "j") == ["json"]
    assert complete("--server", "tcp", ":", "//127.0.0.1", ":", "1", "sess") == ["sessions"]  # as bash takes it apart
    assert complete("--output", "=", "j") == ["json"] == complete("--output", "=", "json", "status", "-o", "j")
    assert complete("status", "--output", "=") == ["json", "table"] and complete("--output", "=", "json", "stat") == ["status"]
    assert complete("--server", "") == []
    assert complete("--max-points", "7", "stat") == ["status"]  # the options after the 64th are known, too
    assert complete("keys", "new", "lab", "--role", "") == ["simulator", "operator", "admin"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a mesh.off").touch()
    (tmp_path / "bug.rec").touch()
    assert complete("replay", "b") == ["bug.rec"] and complete("--client-key", "b") == ["bug.rec"]
    assert complete("status", "b") == []
    assert complete("snapshot", "3", "-o", "b") == ["bug.rec"] == complete("snapshot", "3", "--output", "b")
    assert complete("scene", "set", "3", "--allocation", "") == ["optimal", "published", "per_pixel"]


# ---- the other shells ----


def test_zsh_names_every_command_and_option(table, common):
    script = run("completion", "zsh")
    assert script.startswith("#compdef contactctl\n")
    for path, options in table.items():
        (line,) = re.findall(rf"^ *'{path}'\) options=\((.*)", script, re.M)
        assert set(re.findall(r" '(--[a-z-]+):", line)) == options | common, path
    assert script.count("'") % 2 == 0


def test_fish_names_every_command_and_option(table, common):
    script = run("completion", "fish")
    everywhere = re.findall(r"^complete -c contactctl -l ([a-z-]+)", script, re.M)
    assert {f"--{name}" for name in everywhere} == common
    for path, options in table.items():
        own = re.findall(rf"^complete -c contactctl -n '__contactctl_is {path}' -l ([a-z-]+)", script, re.M)
        assert {f"--{name}" for name in own} == options, path
        noun, _, verb = path.partition(" ")
        assert re.search(rf"^complete -c contactctl -n __contactctl_only -a {noun} ", script, re.M), path
        assert not verb or re.search(rf"^complete -c contactctl -n '__contactctl_only {noun}' -a {verb} ", script, re.M)


ZSH = r"""
    LISTMAX=0
    autoload -Uz compinit; compinit -u -D
    source "$SCRIPT"; compdef _contactctl contactctl
    compadd() { # notes what is offered
        local -a offered options=("${(@)argv[1,${argv[(i)(-|--)]}]}")
        if [[ -z ${(M)options:#-[OAD]} ]]; then # else it only filters
            builtin compadd -O offered "$@"
            found+=("${offered[@]}")
        fi
        builtin compadd "$@"
    }
    ask() { local -a found; _main_complete; print -rl -- "${found[@]}" > "$OUT.new"; mv "$OUT.new" "$OUT" }
    zle -C ask list-choices ask
    bindkey '^X' ask
    print ready > "$OUT.new"; mv "$OUT.new" "$OUT"
"""


@pytest.fixture(scope="module")
def zsh(tmp_path_factory):
    """What zsh offers at the end of a line, in a terminal of its own."""
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    folder = tmp_path_factory.mktemp("zsh")
    (folder / "setup").write_text(ZSH)
    (folder / "script").write_text(run("completion", "zsh"))
    (folder / "bug.rec").touch()
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("4H", 200, 200, 0, 0))  # no list is too long to be shown
    env = {**os.environ, "TERM": "dumb", "SCRIPT": str(folder / "script"), "OUT": str(folder / "out")}
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=inside, stdout=inside, stderr=inside, env=env, cwd=folder,
                             start_new_session=True)
    os.close(inside)

    def drain() -> None:
        try:
            while os.read(outside, 4096):
                pass
        except OSError:
            pass  # it ended

    reader = threading.Thread(target=drain)
    reader.start()

    def answer() -> set[str]:
        wait_until((folder / "out").exists, "zsh's answer")
        words = (folder / "out").read_text().split()
        (folder / "out").unlink()
        return set(words)

    def offered(line: str) -> set[str]:
        os.write(outside, b"\x15" + line.encode() + b"\x18")
        return answer()

    os.write(outside, f"source {folder}/setup\n".encode())
    assert answer() == {"ready"}
    yield offered
    os.write(outside, b"\x15exit\n")
    shell.wait(60 * SLOW)
    reader.join()
    os.close(outside)


@pytest.fixture(scope="module")
def fish(tmp_path_factory):
    """What fish offers at the end of a line."""
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    folder = tmp_path_factory.mktemp("fish")
    (folder / "script").write_text(run("completion", "fish"))
    (folder / "bug.rec").touch()
    env = {**os.environ, "HOME": str(folder), "PATH": f"{BUILD}:{os.environ['PATH']}"}

    def offered(line: str) -> set[str]:
        done = subprocess.run(["fish", "-c", "source script; complete -C $argv[1]", line], cwd=folder, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    return offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_complete(shell, table, common, request):
    offered = request.getfixturevalue(shell)
    nouns = {path.split()[0] for path in table}
    assert offered("contactctl ") == nouns
    assert offered("contactctl --") == common
    for noun in ("scene", "mesh", "keys"):
        assert offered(f"contactctl {noun} ") == {path.split()[1] for path in table if path.startswith(noun + " ")}
    for path in ("contact", "mesh add", "scene set", "top"):
        assert offered(f"contactctl {path} --") == table[path] | common
    assert offered("contactctl scene cl") == {"close"} and offered("contactctl scene set 3 --res") == {"--resolution"}
    # An option's value is no command.
    assert offered("contactctl --server tcp://127.0.0.1:1 sess") == {"sessions"}
    assert offered("contactctl --server scene ") == nouns and offered("contactctl --timeout 3 scene cl") == {"close"}
    assert offered("contactctl status --output ") == {"json", "table"} == offered("contactctl -o ")
    assert offered("contactctl --server ") == set()
    assert offered("contactctl keys new lab --role ") == {"simulator", "operator", "admin"}
    assert offered("contactctl completion ") == {"bash", "zsh", "fish"}
    assert offered("contactctl replay b") == {"bug.rec"} and offered("contactctl --client-key b") == {"bug.rec"}
    assert offered("contactctl status b") == set()
    assert offered("contactctl snapshot 3 -o b") == {"bug.rec"} == offered("contactctl snapshot 3 --output b")
    assert offered("contactctl scene set 3 --allocation ") == {"optimal", "published", "per_pixel"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_have_no_mistakes(shell):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    done = subprocess.run([shell, "-n"], input=run("completion", shell), capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_another_shell():
    done = subprocess.run([CTL, "completion", "tcsh"], capture_output=True, text=True)
    assert done.returncode == 2 and "expected bash, zsh or fish" in done.stderr
