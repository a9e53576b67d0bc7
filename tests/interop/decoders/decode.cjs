// SPDX-License-Identifier: GPL-2.0
//
// Usage: NODE_PATH=... node decode.cjs FILE
//
// Decodes a pprof file by npm's pprof-format, and prints as JSON the totals of each sample type,
// and flat and cum of each function for the default type. There are two tables: with function names
// as in `stackbeat report`, and as in `go tool pprof -top`, which has one name for all unsymbolized
// addresses of a file.
"use strict";

const fs = require("fs");
const zlib = require("zlib");
const { Profile } = require("pprof-format");

function read(path) {
	const bytes = fs.readFileSync(path);
	return Profile.decode(bytes[0] === 0x1f && bytes[1] === 0x8b ? zlib.gunzipSync(bytes) : bytes);
}

function shownType(profile, text) {
	const types = profile.sampleType.map((type) => text(type.type));
	const index = types.indexOf(text(profile.defaultSampleType));
	return profile.defaultSampleType && index >= 0 ? index : types.length - 1;
}

function byId(items) {
	return new Map(items.map((item) => [BigInt(item.id), item]));
}

// Returns a function that maps a location to the names of its frames, innermost first.
function frameNames(profile, text, unresolved) {
	const mappings = byId(profile.mapping), functions = byId(profile.function);
	return (location) => {
		const mapping = mappings.get(BigInt(location.mappingId));
		const file = mapping ? text(mapping.filename).split("/").pop() : "";
		if (!location.line.length)
			return [unresolved(file, BigInt(location.address))];
		return location.line.map((line) =>
			text(functions.get(BigInt(line.functionId)).name) ||
			unresolved(file, BigInt(location.address)));
	};
}

function sumUp(profile, index, names) {
	const locations = byId(profile.location), table = {};
	for (const sample of profile.sample) {
		const stack = sample.locationId.flatMap((id) => names(locations.get(BigInt(id))));
		const value = BigInt(sample.value[index]);
		for (const name of new Set(stack)) {
			table[name] ??= { flat: 0n, cum: 0n };
			table[name].cum += value;
		}
		if (stack.length)
			table[stack[0]].flat += value;
	}
	return table;
}

const profile = read(process.argv[2]);
const text = (index) => profile.stringTable.strings[Number(index)];
const index = shownType(profile, text);
const result = {
	types: profile.sampleType.map((type) => text(type.type)),
	shown: text(profile.sampleType[index].type),
	totals: profile.sampleType.map((_, at) =>
		profile.sample.reduce((sum, sample) => sum + BigInt(sample.value[at]), 0n)),
	stackbeat: sumUp(profile, index, frameNames(profile, text, (file, address) =>
		`${file}${file && "+"}0x${address.toString(16)}`)),
	go: sumUp(profile, index, frameNames(profile, text, (file) => (file ? `[${file}]` : "<unknown>"))),
};
console.log(JSON.stringify(result, (_, value) => typeof value === "bigint" ? value.toString() : value));
