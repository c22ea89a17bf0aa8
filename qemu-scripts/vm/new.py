# SPDX-License-Identifier: GPL-2.0
"""rxe-vm new: a folder with a program that runs, to change into one's own."""

import os
import re
import subprocess

from vm.messages import refuse
from vm.places import LAB, Places

FILES = {
    "Makefile": "Makefile",
    "github.yml": ".github/workflows/survives.yml",
    "gitlab.yml": ".gitlab-ci.yml",
    "gitignore": ".gitignore",
}


def owner(places: Places) -> dict[str, str]:
    with open(f"{places.root}/OWNER", encoding="utf-8") as lines:
        return dict(line.rstrip("\n").split("\t", 1) for line in lines if "\t" in line)


def packages(places: Places) -> str:
    """Of Debian, that the lab needs."""
    listed = subprocess.run(
        [f"{places.root}/scripts/deps", "debian", "lab"], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return listed.stdout.replace(",", "").strip()


def values(places: Places, name: str, python: bool) -> dict[str, str]:
    """What stands for @WORDS@ in the templates."""
    mine = owner(places)
    return {
        "NAME": name,
        "LAB": places.root,
        "SUFFIX": ".py" if python else "",
        "PROGRAM": f"{name}.py" if python else name,
        "PROGRAMS": "" if python else f"{name} checker",
        "NEEDS": "python3-pyverbs" if python else "gcc libc6-dev libibverbs-dev librdmacm-dev",
        "DEBIAN": "13" if python else "12",  # Debian 12's pyverbs has no FLUSH
        "ADDRESS": mine["address"],
        "SLUG": re.sub("^[a-z]*://[^/]*/", "", mine["address"]),
        "VERSION": mine["version"],
        "PACKAGES": packages(places),
    }


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)


def fill(template: str, words: dict[str, str]) -> str:
    return re.sub("@([A-Z]+)@", lambda match: words.get(match[1], match[0]), template)


def sources(places: Places, name: str, python: bool) -> dict[str, str]:
    """The log, and its checker, of the examples, under their new names."""
    examples = f"{places.root}/selftests/examples"
    if python:
        files = {f"{name}.py": f"{examples}/first-log.py", "checker.py": f"{LAB}/template/checker.py"}
    else:
        files = {f"{name}.c": f"{examples}/first-log.c", "checker.c": f"{examples}/first-log-survives.c"}
    return {
        to: read(file).replace("first-log-survives", "checker").replace("first-log", name) for to, file in files.items()
    }


def new(places: Places, words: list[str]) -> None:
    python = "--python" in words
    names = [word for word in words if word != "--python"]
    if len(names) != 1 or not re.fullmatch("[a-z][a-z0-9-]*", names[0]) or names[0] == "checker":
        refuse("say rxe-vm new NAME [--python]: small letters, digits and -, not \"checker\"")
    name = names[0]
    if re.search(r"[\s#$:]", places.root):
        refuse(f"make cannot use the lab in {places.root}: move it to a path without blanks, # $ and :")
    filled = values(places, name, python)
    files = {to: read(f"{LAB}/template/{file}") for file, to in FILES.items()} | sources(places, name, python)
    try:
        os.mkdir(name)
        for to, text in files.items():
            write(f"{name}/{to}", fill(text, filled))
            if to.endswith(".py"):
                os.chmod(f"{name}/{to}", 0o755)
    except OSError as error:
        refuse(f"{error.filename or name}: {error.strerror}")
    print(f"{name}/ has a log, its checker and files for CI.  Run it, then change it:  cd {name} && make")
