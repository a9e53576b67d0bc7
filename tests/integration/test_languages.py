# SPDX-License-Identifier: GPL-2.0
"""What a recording has of each language: the rows of docs/languages.md. A language that is not installed is skipped."""

import re
import shutil
from collections import Counter

from harness import check, long_test, record, run, samples_of, Skip, temporary_directory, user_part

C = """
unsigned long work(unsigned long n) { unsigned long s = n; for (unsigned long i = 0; i < n; i++) s = s * s + i; return s; }
unsigned long outer(unsigned long n) { unsigned long s = 0; for (unsigned long i = 0; i < n; i++) s += work(100000 + i % 2); return s; }
int main(void) { return outer(6000) == 7; }
"""
JAVA = """
public final class Hot {
    static long work(long n) { long s = n; for (long i = 0; i < n; i++) s = s * s + i; return s; }
    static long outer(long n) { long s = 0; for (long i = 0; i < n; i++) s += work(100000 + i % 2); return s; }
    public static void main(String[] arguments) { System.exit(outer(20000) == 7 ? 1 : 0); }
}
"""
JAVASCRIPT = """
function work(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 7 + i) % 1000003; return s; }
function outer(n) { let s = 0; for (let i = 0; i < n; i++) s += work(100000 + i % 2); return s; }
outer(2000);
"""
LUA = """
local function work(n) local s = 0; for i = 1, n do s = (s * 7 + i) % 1000003 end return s end
local function outer(n) local s = 0; for i = 1, n do s = s + work(100000) end return s end
outer(300)
"""
PHP = """<?php
function work($n) { $s = 0; for ($i = 0; $i < $n; $i++) $s = ($s * 7 + $i) % 1000003; return $s; }
function outer($n) { $s = 0; for ($i = 0; $i < $n; $i++) $s += work(100000); return $s; }
outer(300);
"""
PYTHON = """
def work(n):
    s = 0
    for i in range(n):
        s = (s * 7 + i) % 1000003
    return s
def outer(n):
    return sum(work(100000) for i in range(n))
outer(100)
"""


def check_language(comm, source, name, build, command, stack):
    """Runs `command` in a directory with `source` as `name`, after `build`.

    `stack` has patterns: the samples in which a function matches the first one are most samples of `comm`, and
    the others match in most of these, in the order from the leaf.
    """
    for program in (build or command)[:1] + command[:1]:
        if "/" not in program and not shutil.which(program, path="/usr/bin:/bin"):
            raise Skip(f"{program} is not installed")
    directory = temporary_directory()
    (directory / name).write_text(source)
    if build:
        run(*build, cwd=directory)
    path = shutil.which(command[0], path="/usr/bin:/bin") or directory / command[0]
    profile, _, _ = record("-F", 499, command=["env", "-C", directory, path, *command[1:]])
    total, hot, whole = 0, 0, 0
    others = Counter()
    for sample in samples_of(profile, comm):
        weight = sample.values["samples"]
        functions = iter(user_part(sample))
        total += weight
        found = [any(re.search(pattern, function) for function in functions) for pattern in stack]
        hot += weight * found[0]
        whole += weight * all(found)
        if not all(found):
            others[tuple(user_part(sample)[:6])] += weight
    check(hot > total / 3 and whole > hot * 0.9, f"{total} samples, {hot} hot, {whole} whole: {others.most_common(3)}")


def of_c(compiler, *options):
    check_language("hot", C, "hot.c", [compiler, *options, "-o", "hot", "hot.c"], ["./hot"],
                   [r"^work\b", r"^outer\b", r"^main$", r"^_start$"])


@long_test
def c():
    of_c("gcc", "-O1", "-g")


@long_test
def cxx():
    of_c("g++", "-O1", "-g", "-x", "c++")


@long_test
def java():
    check_language("java", JAVA, "Hot.java", ["javac", "Hot.java"],
                   ["java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit",
                    "-cp", ".", "Hot"], [r"Hot\.(work|outer)", r"StubRoutines|call_stub", "JavaCalls", "clone|thread"])


@long_test
def node():
    check_language("node", JAVASCRIPT, "hot.js", None, ["node", "--perf-basic-prof", "--interpreted-frames-native-stack",
                                                        "hot.js"], [r"\bouter\b", "^main$|Start", "^_start$"])


@long_test
def lua():
    check_language("lua5.4", LUA, "hot.lua", None, ["lua5.4", "hot.lua"], ["^lua_pcallk$", "^__libc_start_main_impl$"])


@long_test
def php():
    check_language("php", PHP, "hot.php", None, ["php", "hot.php"], ["^execute_ex$", "^zend_execute$", "^_start$"])


@long_test
def python_without_perf_support():
    check_language("python3", PYTHON, "hot.py", None, ["python3", "hot.py"],
                   ["^_PyEval_EvalFrameDefault$", "^Py_BytesMain$", "^_start$"])
