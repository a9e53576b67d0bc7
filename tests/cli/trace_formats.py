# SPDX-License-Identifier: GPL-2.0
"""Holds exported documents to the specifications of their formats.

speedscope: https://www.speedscope.app/file-format-schema.json. Firefox Profiler: src/types/profile.ts of its version 56, and
what its loader takes for granted: columns of equal length, indices in range, and times in order. Perfetto: the numbers of
fields in protos/perfetto/trace/, and what trace_processor takes for granted: interned entries before what refers to them.
"""

NUMBER = (int, float)


def check(condition, why):
    if not condition:
        raise AssertionError(why)


def equal(found, expected, what=""):
    check(found == expected, f"{what}: {found!r} instead of {expected!r}")


def has_members(value, what, **kinds):
    """Whether an object has these members, and no other; a kind is a type or a list of types."""
    equal(set(value), set(kinds), f"members of {what}")
    for name, kind in kinds.items():
        check(isinstance(value[name], kind) and (kind is bool or not isinstance(value[name], bool) or kind is not int),
              f"{what}.{name} is {value[name]!r}")


def check_speedscope(document):
    equal(document["$schema"], "https://www.speedscope.app/file-format-schema.json")
    check(set(document) <= {"$schema", "exporter", "name", "activeProfileIndex", "shared", "profiles"}, list(document))
    check(isinstance(document["exporter"], str) and isinstance(document.get("name", ""), str), "texts")
    equal(set(document["shared"]), {"frames"})
    frames = document["shared"]["frames"]
    for frame in frames:
        check(set(frame) <= {"name", "file", "line", "col"}, frame)
        check(isinstance(frame["name"], str) and isinstance(frame.get("file", ""), str), frame)
        check(isinstance(frame.get("line", 0), int), frame)
    check(document.get("activeProfileIndex", 0) in range(len(document["profiles"])), "no active profile")
    for profile in document["profiles"]:
        has_members(profile, "profile", type=str, name=str, unit=str, startValue=NUMBER, endValue=NUMBER, samples=list,
                    weights=list)
        equal(profile["type"], "sampled")
        check(profile["unit"] in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"), profile["unit"])
        equal(len(profile["samples"]), len(profile["weights"]), profile["name"])
        check(all(weight > 0 for weight in profile["weights"]), f"a weight of {profile['name']} is not positive")
        check(sum(profile["weights"]) <= profile["endValue"] - profile["startValue"], f"{profile['name']} is too long")
        for stack in profile["samples"]:
            check(all(isinstance(frame, int) and 0 <= frame < len(frames) for frame in stack), stack)


def check_columns(table, what, **columns):
    """Columns of a table: a range of indices, "null" with it, or a function that says whether a value is one."""
    equal(set(table) - {"weight", "weightType"}, set(columns) | {"length"}, f"columns of {what}")
    for name, kind in columns.items():
        equal(len(table[name]), table["length"], f"length of {what}.{name}")
        for value in table[name]:
            check(kind(value), f"{what}.{name} has {value!r}")


def index_in(count, none="no index"):
    return lambda value: value == none or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count)


def number_or_null(value):
    return value is None or isinstance(value, NUMBER)


def check_firefox(document):
    has_members(document, "profile", meta=dict, libs=list, pages=list, counters=list, profilerOverhead=list, threads=list,
                shared=dict)
    meta = document["meta"]
    for name, kind in (("interval", NUMBER), ("startTime", NUMBER), ("processType", int), ("product", str), ("version", int),
                       ("stackwalk", int), ("markerSchema", list), ("symbolicated", bool)):
        check(isinstance(meta[name], kind), f"meta.{name} is {meta[name]!r}")
    equal(meta["preprocessedProfileVersion"], 56)
    check(meta["interval"] > 0, "the interval is not positive")
    check(any(category["color"] == "grey" for category in meta["categories"]), "no category is grey")
    equal(meta["sampleUnits"], {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"})
    for library in document["libs"]:
        equal(set(library), {"arch", "name", "path", "debugName", "debugPath", "breakpadId", "codeId"})
    equal(set(document["shared"]), {"stringArray"})
    check(all(isinstance(string, str) for string in document["shared"]["stringArray"]), "a string is none")
    for thread in document["threads"]:
        check_firefox_thread(thread, document)


def check_firefox_thread(thread, document):
    strings, libraries = len(document["shared"]["stringArray"]), len(document["libs"])
    has_members(thread, "thread", name=str, processName=str, processType=str, processStartupTime=NUMBER,
                processShutdownTime=type(None), registerTime=NUMBER, unregisterTime=type(None), pausedRanges=list,
                isMainThread=bool, pid=str, tid=(int, str), markers=dict, nativeSymbols=dict, samples=dict, stackTable=dict,
                frameTable=dict, funcTable=dict, resourceTable=dict)
    frames, functions, resources = (thread[name]["length"] for name in ("frameTable", "funcTable", "resourceTable"))
    check_columns(thread["resourceTable"], "resourceTable", lib=index_in(libraries, None), name=index_in(strings),
                  host=lambda value: value is None, type=lambda value: value == 1)
    check_columns(thread["funcTable"], "funcTable", name=index_in(strings), isJS=lambda value: value is False,
                  relevantForJS=lambda value: value is False, resource=index_in(resources, -1),
                  fileName=index_in(strings, None), lineNumber=number_or_null, columnNumber=number_or_null)
    check_columns(thread["frameTable"], "frameTable", address=lambda value: isinstance(value, int) and -1 <= value < 1 << 53,
                  inlineDepth=index_in(1 << 16), category=index_in(len(document["meta"]["categories"])),
                  subcategory=index_in(1), func=index_in(functions), nativeSymbol=lambda value: value is None,
                  innerWindowID=lambda value: value is None, line=number_or_null, column=number_or_null)
    stacks = thread["stackTable"]
    check_columns(stacks, "stackTable", frame=index_in(frames), prefix=index_in(stacks["length"], None))
    check(all(prefix is None or prefix < i for i, prefix in enumerate(stacks["prefix"])), "a prefix comes later")
    samples = thread["samples"]
    equal((samples["weight"], samples["weightType"]), (None, "samples"))
    check_columns(samples, "samples", stack=index_in(stacks["length"], None), time=lambda value: value >= 0,
                  threadCPUDelta=lambda value: isinstance(value, int) and value >= 0)
    check(samples["time"] == sorted(samples["time"]), "times are not in order")
    for table in ("markers", "nativeSymbols"):
        check(all(value == [] for name, value in thread[table].items() if name != "length"), table)
        equal(thread[table]["length"], 0, table)


def decode(data, **fields):
    """The fields of a protobuf message, which has no others. A field is "NUMBER KIND": n is a number, b are bytes, and N and B
    are lists of such values.
    """
    kinds = {int(kind.split()[0]): (name, kind.split()[1]) for name, kind in fields.items()}
    message = {name: [] for name, kind in kinds.values() if kind.isupper()}
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        check(tag >> 3 in kinds, f"field {tag >> 3} is none of {list(fields)}")
        name, kind = kinds[tag >> 3]
        equal(tag & 7, 0 if kind in "nN" else 2, f"wire type of {name}")
        value = varint()
        if kind in "bB":
            at += value
            value = data[at - value:at]
        if kind.isupper():
            message[name].append(value)
        else:
            check(name not in message, f"{name} is there twice")
            message[name] = value
    return message


def intern(interned, kind, entry, **more):
    check(entry["iid"] > 0 and entry["iid"] not in interned[kind], f"{kind}: {entry}")
    interned[kind][entry["iid"]] = more or entry


def check_interned(data, interned):
    """Adds interned data, whose entries refer to those before."""
    tables = decode(data, functions="5 B", frames="6 B", stacks="7 B", build_ids="16 B", paths="17 B", sources="18 B",
                    mappings="19 B")
    for kind in ("functions", "build_ids", "paths", "sources"):
        for text in tables[kind]:
            text = decode(text, iid="1 n", text="2 b")
            intern(interned, kind, text, text=text["text"] if kind == "build_ids" else text["text"].decode())
    for mapping in tables["mappings"]:
        mapping = decode(mapping, iid="1 n", build_id="2 n", start="4 n", end="5 n", path="7 N", exact_offset="8 n")
        path = "".join("/" + interned["paths"][part]["text"] for part in mapping["path"])
        check("build_id" not in mapping or mapping["build_id"] in interned["build_ids"], mapping)
        intern(interned, "mappings", mapping, path=path)
    for frame in tables["frames"]:
        frame = decode(frame, iid="1 n", function="2 n", mapping="3 n", pc="4 n", source="5 n", line="6 n")
        check("pc" in frame and ("source" not in frame or frame["source"] in interned["sources"]), frame)
        intern(interned, "frames", frame, name=interned["functions"][frame["function"]]["text"],
               path=interned["mappings"][frame["mapping"]]["path"])
    for stack in tables["stacks"]:
        stack = decode(stack, iid="1 n", frames="2 N")
        check(stack["frames"], "a call stack is empty")
        intern(interned, "stacks", stack, frames=[interned["frames"][frame] for frame in stack["frames"]])


def check_perfetto(data):
    """Returns the samples, each with its time, stack (root first) and names of process and thread."""
    interned = {kind: {} for kind in ("functions", "build_ids", "paths", "sources", "mappings", "frames", "stacks")}
    processes, threads, samples, begun = {}, {}, [], False
    for packet in decode(data, packets="1 B")["packets"]:
        packet = decode(packet, tree="2 b", clocks="6 b", timestamp="8 n", sequence="10 n", interned="12 b", flags="13 n",
                        defaults="59 b", sample="66 b", first="87 n")
        equal(packet["sequence"], 1)
        begun |= packet.get("flags") == 1
        check(begun or not packet.get("flags", 0) & 2, "interned data come before the sequence begins")
        if "tree" in packet:
            tree = decode(packet["tree"], processes="1 B", threads="2 B")
            for process in tree["processes"]:
                process = decode(process, pid="1 n", cmdline="3 B")
                processes[process["pid"]] = process["cmdline"][0].decode()
            for thread in tree["threads"]:
                thread = decode(thread, tid="1 n", name="2 b", tgid="3 n")
                check(thread["tgid"] in processes, "a thread is of no process")
                threads[thread["tid"]] = thread["name"].decode()
        if "interned" in packet:
            check_interned(packet["interned"], interned)
        if "sample" in packet:
            sample = decode(packet["sample"], cpu="1 n", pid="2 n", tid="3 n", stack="4 n", mode="5 n")
            check(sample["mode"] in (1, 2) and sample["tid"] in threads, sample)
            samples.append({**sample, "time": packet["timestamp"], "process": processes[sample["pid"]],
                            "thread": threads[sample["tid"]], "stack": interned["stacks"][sample["stack"]]["frames"]})
    return samples
