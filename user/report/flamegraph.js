// SPDX-License-Identifier: GPL-2.0
//
// The flame graph in a browser. The SVG file has the call tree as data, and a picture of its widest
// frames for viewers without scripts; this script replaces the picture by a page that draws the
// frames in sight. The page is XHTML, as toolbars, tables and scrolling have no good form in SVG.
// All texts of the profile are set as text, never as markup.
(function () {
	"use strict";

	const ROW = 18; // px, as FRAME, MIDDLE, PADDING and CHARACTER
	const FRAME = 17;
	const MIDDLE = 12.5; // of the font, from the top of a frame
	const PADDING = 4;
	const CHARACTER = 7;
	const NARROW = 1; // px; narrower frames are drawn as one with their siblings
	const SIBLING = 8; // px of the widest of siblings that are zoomed to
	const NEXT_MATCH = 12; // px; a narrower match is zoomed to
	const TABLE_ROW = 22; // px
	const SHADES = 8;
	const CHANGES = 5;
	const CYCLE_MAX = 8; // functions of a recursion that is collapsed
	const ROOT = 0, GROUP = 1, TRUNCATED = 5; // kinds of frames
	// By kind: class, label of the legend, and whether functions have shades.
	const KINDS = [["root"], ["group"], ["u", "user", true], ["k", "kernel", true], ["x", "unresolved", true],
		["truncated", "truncated"]];
	const XHTML = "http://www.w3.org/1999/xhtml";
	const SVG = "http://www.w3.org/2000/svg";

	const picture = document.documentElement;
	// In a page of somebody else the picture stays a picture.
	if (!document.currentScript || document.currentScript.ownerSVGElement !== picture)
		return;
	const data = JSON.parse(picture.querySelector("#data").textContent);
	const diff = data.diff;

	// ---- Names and numbers ----

	const names = data.names;
	const kinds = Uint8Array.from(data.kinds);
	const nameIds = new Map();
	// The number of the name of each frame: a name may be of frames of several kinds.
	const nameOf = Uint32Array.from(names, (name, frame) => {
		if (!nameIds.has(name))
			nameIds.set(name, frame);
		return nameIds.get(name);
	});

	// File and line of the function of a frame, or "".
	function sourceOf(frame) {
		const file = data.sources[3 * frame], line = data.sources[3 * frame + 1];
		return file ? data.files[file - 1] + (line > 0 ? `:${line}` : "") : "";
	}

	// The library or program of the function of a frame, or "".
	function libraryOf(frame) {
		const file = data.sources[3 * frame + 2];
		return file ? data.files[file - 1] : "";
	}

	const baseName = (path) => path.replace(/^.*\/(?=.)/, "");

	// Neither the root nor a group, nor what stands for unknown callers.
	const isFunctionFrame = (frame) => kinds[frame] > GROUP && kinds[frame] !== TRUNCATED;

	// As print_color() of flamegraph.c: a function has the same color in every flame graph.
	const colors = names.map((name, frame) => {
		const [kind, , hasShades] = KINDS[kinds[frame]];
		return hasShades ? kind + fnv1a(name) % SHADES : kind;
	});

	function fnv1a(text) {
		let hash = 0x811c9dc5;
		for (const byte of new TextEncoder().encode(text))
			hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
		return hash;
	}

	function formatValue(value) {
		let [unit, factor] = data.units[0];
		for (const [name, least] of data.units)
			if (Math.abs(value) >= least)
				[unit, factor] = [name, least];
		const text = (value / factor).toFixed(2).replace(/\.00$/, "");
		return text === "0" || text === "-0" ? "0" : text + unit;
	}

	// As percent_format() of units.c.
	function formatPercent(value, total) {
		const percent = total ? Math.abs(100 * value / total) : 0;
		if (percent >= 99.95 && percent <= 100.05)
			return "100%";
		if (percent >= 1)
			return percent.toFixed(2) + "%";
		return (percent ? Number(percent.toPrecision(2)) : 0) + "%";
	}

	// Scaled values are rounded: a billionth of the total is no change.
	function formatChange(value) {
		const change = Math.abs(value) < everything.baseTotal[0] * 1e-9 ? 0 : value;
		return (change > 0 ? "+" : "") + formatValue(change);
	}

	// ---- Short names, as in short_name.c ----

	function columns(text) {
		let sum = 0;
		for (const character of text)
			sum += character.codePointAt(0) < 0x1100 || character === "…" ? 1 : 2;
		return sum;
	}

	function findArguments(name) {
		let at = name.length, depth = 0;
		if (!name.endsWith(")"))
			return -1;
		while (at-- > 0) {
			if (name[at] === ")")
				depth++;
			else if (name[at] === "(" && !--depth)
				break;
		}
		return at <= 0 || ".:/ ".includes(name[at - 1]) || name.length - at <= 3 ? -1 : at;
	}

	// The starts of the parts of a path of packages or namespaces, outside brackets, and of the
	// receiver and the method in "pkg.(*T).Method" of Go.
	function parts(name) {
		const starts = [0];
		for (let at = 0, depth = 0; at + 1 < name.length; at++) {
			if ("([{<".includes(name[at]))
				depth++;
			else if (")]}>".includes(name[at]) && depth)
				depth--;
			if (depth)
				continue;
			if (name[at] === "/" || name.startsWith(".(", at))
				starts.push(at + 1);
			else if (/^(::|\)\.)./.test(name.slice(at, at + 3)))
				starts.push(at + 2);
		}
		return starts;
	}

	function findClose(name, open) {
		const close = name[open] === "<" ? ">" : "]";
		if (!open || !/[A-Za-z0-9_\u0080-\uffff]/.test(name[open - 1]) || name.slice(0, open).endsWith("operator"))
			return -1;
		for (let at = open, depth = 0; at < name.length; at++) {
			if (name[at] === name[open])
				depth++;
			else if (name[at] === close && name[at - 1] !== "-" && !--depth)
				return at;
		}
		return -1;
	}

	function leaveOutTemplates(name) {
		let copy = "";
		for (let at = 0; at < name.length; at++) {
			const close = name[at] === "<" || name[at] === "[" ? findClose(name, at) : -1;
			// As in C: what is shorter than three bytes stays.
			if (close - at > 2 || (close - at === 2 && name.charCodeAt(at + 1) >= 0x80)) {
				copy += name[at] + "…" + name[close];
				at = close;
			} else {
				copy += name[at];
			}
		}
		return copy;
	}

	function shortenEnd(name, room) {
		let head = "", used = 0;
		for (const character of name) {
			used += columns(character);
			if (used > room - 1)
				break;
			head += character;
		}
		return head + "…";
	}

	function shortName(name, room) {
		if (columns(name) <= room)
			return name;
		if (room < 5)
			return "";
		const at = findArguments(name);
		const suffix = at < 0 ? "" : "(…)";
		let bare = at < 0 ? name : name.slice(0, at);
		if (at >= 0 && columns(bare) + 3 <= room)
			return bare + suffix;
		bare = leaveOutTemplates(bare);
		const starts = parts(bare);
		for (const start of starts) {
			const text = (start ? "…" : "") + bare.slice(start) + suffix;
			if (columns(text) <= room)
				return text;
		}
		const last = bare.slice(starts[starts.length - 1]);
		if (starts.length > 1 && columns(last) + 1 <= room)
			return "…" + last;
		return shortenEnd(last, room);
	}

	// ---- Call trees ----

	// Nodes in preorder, the widest of siblings first. `samples` and `base` are their own, `total`
	// and `baseTotal` with their descendants; `weight` is the sum of both totals, and `left` the
	// weight to the left of a node. end[i] is the first node that is not in the subtree of i.
	function makeTree(frame, inlined, parent, samples, base) {
		const count = frame.length;
		const tree = {
			count,
			frame: Uint32Array.from(frame),
			inlined: Uint8Array.from(inlined),
			parent: Int32Array.from(parent),
			depth: new Uint32Array(count),
			end: new Uint32Array(count),
			samples: Float64Array.from(samples),
			base: Float64Array.from(base),
			total: Float64Array.from(samples),
			baseTotal: Float64Array.from(base),
			weight: new Float64Array(count),
			left: new Float64Array(count),
			rows: 0,
		};
		for (let i = count - 1; i >= 0; i--) {
			const up = parent[i];
			tree.end[i] = Math.max(tree.end[i], i + 1);
			tree.weight[i] = tree.total[i] + tree.baseTotal[i];
			if (!i)
				break;
			tree.total[up] += tree.total[i];
			tree.baseTotal[up] += tree.baseTotal[i];
			tree.end[up] = Math.max(tree.end[up], tree.end[i]);
		}
		const next = new Float64Array(count);
		for (let i = 0; i < count; i++) {
			if (i) {
				tree.depth[i] = tree.depth[parent[i]] + 1;
				tree.left[i] = next[parent[i]];
				next[parent[i]] += tree.weight[i];
			}
			next[i] = tree.left[i];
			tree.rows = Math.max(tree.rows, tree.depth[i] + 1);
		}
		return tree;
	}

	// The inverse of print_nodes() of flamegraph.c.
	function readTree(text) {
		const frame = [], inlined = [], parent = [], samples = [], base = [];
		const digits = new Uint8Array(128);
		Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
			(digit, value) => digits[digit.charCodeAt(0)] = value);
		let at = 0, up = -1;

		function number() {
			for (let value = 0, factor = 1; ; factor *= 32) {
				const digit = digits[text.charCodeAt(at++)];
				value += digit % 32 * factor;
				if (digit < 32)
					return value;
			}
		}

		while (at < text.length) {
			const code = number();
			frame.push(Math.floor(code / 4));
			inlined.push(code >> 1 & 1);
			parent.push(up);
			samples.push(code & 1 ? number() : 0);
			base.push(code & 1 && diff ? number() : 0);
			up = frame.length - 1;
			if (at < text.length)
				for (let levels = number(); levels; levels--)
					up = parent[up];
		}
		return makeTree(frame, inlined, parent, samples, base);
	}

	// Collects nodes in any order with their parents first, for makeTree().
	class Builder {
		constructor(frame) {
			this.frame = [frame];
			this.inlined = [0];
			this.parent = [-1];
			this.samples = [0];
			this.base = [0];
			this.slots = new Int32Array(1 << 10); // hash table of nodes
		}

		// A Map with a million keys takes many seconds.
		slot(parent, frame) {
			const mask = this.slots.length - 1;
			let hash = Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame, 0x85ebca6b);
			hash ^= hash >>> 15;
			for (let at = hash & mask; ; at = at + 1 & mask) {
				const node = this.slots[at];
				if (!node || this.parent[node] === parent && this.frame[node] === frame)
					return at;
			}
		}

		grow() {
			this.slots = new Int32Array(this.slots.length * 4);
			for (let node = 1; node < this.frame.length; node++)
				this.slots[this.slot(this.parent[node], this.frame[node])] = node;
		}

		child(parent, frame, inlined) {
			if (this.frame.length * 2 > this.slots.length)
				this.grow();
			const slot = this.slot(parent, frame);
			let node = this.slots[slot];
			if (!node) {
				node = this.frame.length;
				this.slots[slot] = node;
				this.frame.push(frame);
				this.inlined.push(inlined);
				this.parent.push(parent);
				this.samples.push(0);
				this.base.push(0);
			}
			this.inlined[node] &= inlined;
			return node;
		}

		add(node, samples, base) {
			this.samples[node] += samples;
			this.base[node] += base;
		}

		finish() {
			const count = this.frame.length;
			const weight = this.samples.map((samples, i) => samples + this.base[i]);
			for (let i = count - 1; i > 0; i--)
				weight[this.parent[i]] += weight[i];
			const first = new Int32Array(count + 1), children = new Uint32Array(count);
			for (let i = 1; i < count; i++)
				first[this.parent[i] + 1]++;
			for (let i = 0; i < count; i++)
				first[i + 1] += first[i];
			const used = first.slice();
			for (let i = 1; i < count; i++)
				children[used[this.parent[i]]++] = i;
			const preorder = [], place = new Int32Array(count).fill(-1), stack = [0];
			while (stack.length) {
				const i = stack.pop();
				place[i] = preorder.length;
				preorder.push(i);
				const own = children.subarray(first[i], first[i + 1]);
				if (own.length > 1)
					own.sort((a, b) => weight[a] - weight[b] || b - a);
				for (const child of own)
					if (weight[child])
						stack.push(child);
			}
			return makeTree(...[this.frame, this.inlined].map((all) => preorder.map((i) => all[i])),
				preorder.map((i) => i ? place[this.parent[i]] : -1),
				...[this.samples, this.base].map((all) => preorder.map((i) => all[i])));
		}
	}

	// Whether the last `length` frames up from `node` repeat those up from `above`, that is above them.
	function repeats(builder, node, above, length) {
		for (let i = 0; i < length; i++) {
			if (above <= 0 || builder.frame[node] !== builder.frame[above])
				return false;
			node = builder.parent[node];
			above = builder.parent[above];
		}
		return true;
	}

	// "a b b c d c d e" becomes "a b c d e".
	function collapseRecursion(tree) {
		const builder = new Builder(tree.frame[0]);
		const place = new Uint32Array(tree.count);
		for (let i = 0; i < tree.count; i++) {
			let node = i ? builder.child(place[tree.parent[i]], tree.frame[i], tree.inlined[i]) : 0;
			for (let length = 1, above = node; length <= CYCLE_MAX && above > 0; length++) {
				above = builder.parent[above];
				if (above > 0 && repeats(builder, node, above, length)) {
					node = above;
					break;
				}
			}
			place[i] = node;
			builder.add(node, tree.samples[i], tree.base[i]);
		}
		return builder.finish();
	}

	// Calls visit(node) for the nodes with a frame for which has[nameOf] is set, without those below them.
	function outermost(tree, has, visit) {
		for (let i = 1; i < tree.count;) {
			if (has(tree.frame[i])) {
				visit(i);
				i = tree.end[i];
			} else {
				i++;
			}
		}
	}

	// Stacks from the leaves to the root, below their groups. Behind the outermost known function of a truncated
	// stack is the cause.
	function invert(tree) {
		const builder = new Builder(tree.frame[0]);
		const groups = new Uint32Array(tree.count); // by node: the group that its stacks are below
		for (let i = 1; i < tree.count; i++) {
			const kind = kinds[tree.frame[i]], above = groups[tree.parent[i]];
			groups[i] = kind === GROUP ? builder.child(above, tree.frame[i], 0) : above;
			if (!tree.samples[i] && !tree.base[i])
				continue;
			let node = groups[i], cause = 0;
			for (let at = i; at > 0 && kinds[tree.frame[at]] !== GROUP; at = tree.parent[at]) {
				if (kinds[tree.frame[at]] === TRUNCATED)
					cause = at;
				else
					node = builder.child(node, tree.frame[at], tree.inlined[at]);
			}
			builder.add(cause ? builder.child(node, tree.frame[cause], 0) : node, tree.samples[i], tree.base[i]);
		}
		builder.add(0, tree.samples[0], tree.base[0]);
		return builder.finish();
	}

	// All callers and all callees of a function. A stack counts once, from the first call on.
	function sandwich(tree, id) {
		const callers = new Builder(id), callees = new Builder(id);
		const place = new Uint32Array(tree.count);
		outermost(tree, (frame) => nameOf[frame] === id && isFunctionFrame(frame), (top) => {
			let node = 0;
			for (let i = tree.parent[top]; i > 0; i = tree.parent[i])
				node = callers.child(node, tree.frame[i], tree.inlined[i]);
			callers.add(node, tree.total[top], tree.baseTotal[top]);
			callees.frame[0] = callers.frame[0] = tree.frame[top];
			for (let i = top; i < tree.end[top]; i++) {
				place[i] = i === top ? 0 :
					callees.child(place[tree.parent[i]], tree.frame[i], tree.inlined[i]);
				callees.add(place[i], tree.samples[i], tree.base[i]);
			}
		});
		return [callers.finish(), callees.finish()];
	}

	// The functions of a tree with their values; a recursive function counts once for a stack.
	function listFunctions(tree) {
		const table = new Map(), active = new Uint32Array(names.length), stack = [];
		for (let i = 1; i < tree.count; i++) {
			while (stack.length && tree.end[stack[stack.length - 1]] <= i)
				active[nameOf[tree.frame[stack.pop()]]]--;
			const id = nameOf[tree.frame[i]];
			if (!isFunctionFrame(tree.frame[i]))
				continue;
			let entry = table.get(id);
			if (!entry)
				table.set(id, entry = { id, flat: 0, cum: 0, baseFlat: 0, baseCum: 0 });
			entry.flat += tree.samples[i];
			entry.baseFlat += tree.base[i];
			if (!active[id]++) {
				entry.cum += tree.total[i];
				entry.baseCum += tree.baseTotal[i];
			}
			stack.push(i);
		}
		for (const entry of table.values()) {
			entry.flatChange = entry.flat - entry.baseFlat;
			entry.cumChange = entry.cum - entry.baseCum;
		}
		return Array.from(table.values());
	}

	// ---- State: what is shown. It is in the fragment of the URL. ----

	const everything = readTree(data.nodes);
	const initial = {
		z: "", // zoomed frame: a node; "~" for it and the siblings behind it; "^" among the callers
		q: "", // search: a regular expression
		f: "", // highlighted function
		p: "", // function of the sandwich
		c: "", // "1": recursion is collapsed
		i: data.inverted ? "1" : "", // "1": stacks begin at their leaves
		u: data.upward ? "1" : "", // "1": the root is at the bottom
		t: "", // "1": with the table of functions
		s: "", // order of the table
	};
	const state = { ...initial };
	let tree = everything;
	let panels = []; // of the graph: callers, upwards, and callees; or one tree
	let zoomed = null; // panel, first node, whether with its siblings
	let cursor = null; // the selected frame: panel, node
	let matched = new Uint8Array(names.length); // by frame
	let matches = []; // panels and nodes
	let match = -1;

	function fragment() {
		const parameters = new URLSearchParams();
		for (const key in state)
			if (state[key] !== initial[key])
				parameters.set(key, state[key]);
		return "#" + parameters;
	}

	// Changes the state. `replace`: without a new entry in the history.
	function go(changes, replace) {
		if (Object.keys(changes).every((key) => state[key] === changes[key])) {
			show();
			return;
		}
		Object.assign(state, changes);
		const steps = (history.state && history.state.steps) || 0;
		try {
			if (replace)
				history.replaceState({ steps }, "", fragment());
			else
				history.pushState({ steps: steps + 1 }, "", fragment());
		} catch (error) {
			// A document without a URL of its own has no history.
		}
		show();
		publish();
	}

	// For a page that has the flame graph in a frame: its address has the state, too.
	function publish() {
		window.dispatchEvent(new CustomEvent("stackbeat:state", { detail: fragment() }));
	}

	function readFragment() {
		const parameters = new URLSearchParams(location.hash.slice(1));
		for (const key in state)
			state[key] = parameters.has(key) ? parameters.get(key) : initial[key];
		show();
		publish();
	}

	let shown = {};
	function show() {
		const before = shown;
		const has = (...keys) => keys.some((key) => before[key] !== state[key]);
		if (has("c"))
			tree = state.c ? collapseRecursion(everything) : everything;
		if (has("c", "p", "i")) {
			const id = nameIds.get(state.p);
			const [callers, callees] = id === undefined || !state.p ? [] : sandwich(tree, id);
			panels = callees && callees.weight[0] ?
				[{ tree: callers, up: true }, { tree: callees }] :
				[state.i ? { tree: invert(tree), inverted: true } : { tree }];
			cursor = null;
		}
		if (has("c", "p", "i", "q", "f"))
			search();
		if (has("c", "p", "i", "z"))
			readZoom();
		if (has("c"))
			functions = listFunctions(tree);
		if (has("c", "s", "q", "f", "t"))
			sortFunctions();
		shown = { ...state };
		showTools();
		layout();
		if (has("p") && panels.length > 1)
			scrollTo(rowOf(panels[1], 0) - Math.floor(graph.clientHeight / ROW / 2) + 4);
		else if (has("c", "z") && zoomed && !isInSight(rowOf(zoomed.panel, zoomed.node)))
			scrollTo(rowOf(zoomed.panel, zoomed.node) - 3);
		else if (has("u", "i", "p") && !zoomed)
			scrollTo(state.u ? rows.length : 0);
	}

	function isInSight(row) {
		return row * ROW >= graph.scrollTop && (row + 2) * ROW <= graph.scrollTop + graph.clientHeight;
	}

	function scrollTo(row) {
		graph.scrollTop = row * ROW;
		draw();
	}

	function readZoom() {
		const [, up, node, siblings] = /^(\^?)(\d*)(~?)$/.exec(state.z) || [];
		const panel = panels[up ? 0 : panels.length - 1];
		const valid = node && Number(node) < panel.tree.count;
		zoomed = valid ? { panel, node: Number(node), siblings: Boolean(siblings) } : null;
	}

	function zoomTo(panel, node, siblings, replace) {
		const up = panel.up ? "^" : "";
		go({ z: node || up ? up + node + (siblings ? "~" : "") : "" }, replace);
	}

	// ---- Search ----

	let searchError = "";
	function search() {
		const expression = readExpression();
		const exact = state.f && nameIds.get(state.f);
		matched = Uint8Array.from(names, (name, frame) => {
			if (kinds[frame] === ROOT)
				return 0;
			if (state.f)
				return nameOf[frame] === exact && isFunctionFrame(frame);
			return expression !== null && expression.test(name);
		});
		matches = [];
		match = -1;
		for (const panel of panels) {
			panel.matchesBefore = new Uint32Array(panel.tree.count + 1);
			for (let i = 0; i < panel.tree.count; i++) {
				const found = matched[panel.tree.frame[i]] && !(panel.up && !i);
				panel.matchesBefore[i + 1] = panel.matchesBefore[i] + found;
				if (found)
					matches.push({ panel, node: i });
			}
		}
		// Equal ones stay in the order of the picture.
		const width = (found) => found.panel.tree.weight[found.node];
		matches.sort((a, b) => width(b) - width(a));
	}

	function readExpression() {
		searchError = "";
		try {
			return state.q && !state.f ? new RegExp(state.q) : null;
		} catch (error) {
			searchError = error.message.replace(/^.*\/: /, "");
			return null;
		}
	}

	// A match within a match has been counted with it.
	function searchResult() {
		let total = 0, base = 0;
		if (searchError)
			return "Not a regular expression: " + searchError;
		if (!state.q && !state.f)
			return "";
		outermost(tree, (frame) => matched[frame], (i) => {
			total += tree.total[i];
			base += tree.baseTotal[i];
		});
		const place = match >= 0 ? `${match + 1} of ` : "";
		const share = diff ?
			`${formatPercent(base, tree.baseTotal[0])} → ${formatPercent(total, tree.total[0])}` :
			formatPercent(total, tree.total[0]);
		return `matched ${share}, ${place}${matches.length} ` +
			(matches.length === 1 ? "frame" : "frames");
	}

	function nextMatch(step) {
		if (!matches.length)
			return;
		match = (match < 0 ? (step > 0 ? 0 : -1) : match + step) + matches.length;
		match %= matches.length;
		select(matches[match].panel, matches[match].node);
		reveal();
		showTools();
	}

	// ---- The page ----

	function create(tag, attributes, ...children) {
		const element = document.createElementNS(XHTML, tag);
		for (const name in attributes) {
			if (name.startsWith("on"))
				element.addEventListener(name.slice(2), attributes[name]);
			else
				element.setAttribute(name, attributes[name]);
		}
		element.append(...children);
		return element;
	}

	function createSvg(tag, attributes) {
		const element = document.createElementNS(SVG, tag);
		for (const name in attributes)
			element.setAttribute(name, attributes[name]);
		return element;
	}

	function button(text, title, onclick) {
		return create("button", { type: "button", title, onclick }, text);
	}

	const input = create("input", {
		type: "search", placeholder: "Search (regular expression)", "aria-label": "Search",
		autocomplete: "off", spellcheck: "false", title: "Ctrl-F or /; Enter: next match, the widest one first",
		oninput: () => go({ q: input.value, f: "" }, true),
	});
	const result = create("output", { class: "result" });
	const next = button("Next", "Next match (Enter); Shift-Enter: the one before", () => nextMatch(1));
	const back = button("Back", "Back (Alt-Left)", () => {
		if (history.state && history.state.steps)
			history.back();
		else
			go(initial);
	});
	const reset = button("Show all", "All frames (Esc)", () => go({ z: "", p: "" }));
	const collapse = button("Collapse recursion", "Draw repeated calls once (r)",
		() => go({ c: state.c ? "" : "1", z: "" }));
	const inversion = button("Inverted", "Begin with the functions that run, and go on to their callers (i)",
		() => go({ i: state.i ? "" : "1", z: "", p: "" }));
	const direction = button("Upward", "The root at the bottom (u)", () => go({ u: state.u ? "" : "1" }));
	const tableSwitch = button("Table", "Functions with their values (t)",
		() => go({ t: state.t ? "" : "1" }));
	const helpSwitch = button("Help", "Keys, and comments of the profile (?)", toggleHelp);
	const selected = create("span", { class: "name" });
	const numbers = create("span", { class: "numbers" });
	const actions = [
		button("Callers and callees", "All callers and callees of this function (s)", pivot),
		button("Highlight", "All frames of this function (h)", highlight),
		button("Copy name", "Copy the name (c)", copyName),
		button("Copy stack", "Copy the stack, from the root (Shift-C)", copyStack),
	];
	const bar = create("div", { class: "selected" }, create("span", {}, selected, " ", numbers),
		create("span", { class: "actions" }, ...actions));
	// A page that has the flame graph in a frame says so if it shows the code of functions.
	const annotation = button("Annotate", "The instructions and lines of this function (a)", annotate);
	window.addEventListener("stackbeat:annotations", () => bar.lastChild.prepend(annotation));
	const surface = createSvg("svg", { class: "frames", "aria-hidden": "true" });
	const paper = create("div", { class: "paper" }, surface);
	const graph = create("div", {
		class: "graph", tabindex: "0", role: "application",
		"aria-label": "Flame graph: the arrow keys select a frame, Enter zooms",
	}, paper);
	const tip = create("div", { class: "tip", role: "tooltip" });
	const tableHead = create("tr", {});
	const tableBody = create("tbody", {});
	const table = create("section", { class: "table", tabindex: "0", "aria-label": "Functions" },
		create("table", {}, create("thead", {}, tableHead), tableBody));
	const help = create("section", { class: "help" },
		create("p", {}, diff ?
			"The width of a frame is the sum of its shares of both profiles. Red is an " +
			"increase, green a decrease; the part of the width that has changed gives the shade." :
			"The width of a frame is the value of a function and its callees, called from the " +
			"functions above it. Frames are sorted by width."),
		create("p", {}, "Inverted: the first row has the functions that run, by their own time; below each are " +
			"its callers. Upward: the root is at the bottom."),
		create("p", {}, "Click: zoom. Enter in the search: next match. An italic name with a dashed " +
			"line is an inlined function. Frames too narrow to draw are gray: a click zooms to them. " +
			"The address of this page has the view: a link shows it again."),
		create("p", {}, "Keys: / or Ctrl-F search, arrows select, Enter zoom, Esc back to all, s callers " +
			"and callees, h highlight, c copy name, Shift-C copy stack, r collapse recursion, i inverted, " +
			"u upward, t table, n and N next and previous match, ? this help."),
		create("pre", {}, data.comments.join("\n")));
	const notice = create("div", { class: "notice", role: "status" });
	const page = create("html", { lang: "en" },
		create("head", {},
			create("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
			create("title", {}, data.title),
			create("style", {}, picture.querySelector("style").textContent)),
		create("body", {},
			create("header", {},
				create("div", { class: "titles" },
					create("h1", {}, data.title),
					create("p", {}, data.summary),
					legend()),
				create("div", { class: "tools" }, input, next, result,
					create("span", { class: "views" }, back, reset, collapse, inversion, direction,
						tableSwitch, helpSwitch)),
				help),
			bar,
			create("main", {}, graph, table),
			tip, notice));

	function legend() {
		const entries = diff ? [["c0", "decrease"], ["c10", "increase"]] :
			KINDS.filter(([, label], kind) => label && kinds.includes(kind))
				.map(([kind, label, hasShades]) => [hasShades ? kind + "2" : kind, label]);
		return create("p", { class: "legend" }, ...entries.map(([color, label]) => {
			const sample = createSvg("svg", { width: 12, height: 12 });
			sample.append(createSvg("rect", { class: color, width: 12, height: 12 }));
			return create("span", {}, sample, " " + label);
		}));
	}

	function toggleHelp() {
		page.classList.toggle("helping");
		layout();
	}

	function showTools() {
		if (input.value !== state.q)
			input.value = state.q;
		input.classList.toggle("wrong", Boolean(searchError));
		input.setAttribute("aria-invalid", Boolean(searchError));
		result.textContent = searchResult();
		result.classList.toggle("wrong", Boolean(searchError));
		next.disabled = !matches.length;
		back.disabled = fragment() === "#";
		reset.disabled = !state.z && !state.p;
		collapse.setAttribute("aria-pressed", Boolean(state.c));
		inversion.setAttribute("aria-pressed", Boolean(state.i));
		direction.setAttribute("aria-pressed", Boolean(state.u));
		tableSwitch.setAttribute("aria-pressed", Boolean(state.t));
		page.classList.toggle("with-table", Boolean(state.t));
		surface.classList.toggle("searching", !searchError && Boolean(state.q || state.f));
		showSelected();
	}

	function describe(panel, node) {
		const t = panel.tree;
		const all = tree.total[0], baseAll = tree.baseTotal[0];
		const place = (t.inlined[node] ? ", inlined" : "") +
			[libraryOf, sourceOf].map((of) => of(t.frame[node])).filter(Boolean)
				.map((path) => `, ${baseName(path)}`).join("");
		if (diff) {
			const change = t.total[node] - t.baseTotal[node];
			return `${formatPercent(t.baseTotal[node], baseAll)} → ` +
				`${formatPercent(t.total[node], all)}, ` +
				`${formatChange(change)}${place}`;
		}
		const own = panel.up || panel.inverted ? "" : `, self ${formatValue(t.samples[node])}` +
			(t.samples[node] ? `, ${formatPercent(t.samples[node], all)}` : "");
		return `${formatValue(t.total[node])}, ${formatPercent(t.total[node], all)}${own}${place}`;
	}

	function nameAt(panel, node) {
		return names[panel.tree.frame[node]];
	}

	function isFunction(panel, node) {
		return isFunctionFrame(panel.tree.frame[node]);
	}

	function select(panel, node) {
		cursor = { panel, node };
		showSelected();
		drawCursor();
	}

	function showSelected() {
		const at = cursor || { panel: panels[panels.length - 1], node: 0 };
		const room = Math.floor((bar.clientWidth - 16) / 7.5) * (bar.clientWidth < 700 ? 2 : 1);
		const sandwiched = panels.length > 1 && !cursor ? "callers and callees of " : "";
		selected.textContent = sandwiched + shortName(nameAt(at.panel, at.node), Math.max(room - 60, 30));
		const frame = at.panel.tree.frame[at.node];
		selected.title = [names[frame], libraryOf(frame), sourceOf(frame)].filter(Boolean).join("\n");
		numbers.textContent = describe(at.panel, at.node);
		actions[0].disabled = actions[1].disabled = annotation.disabled = !isFunction(at.panel, at.node);
	}

	// ---- Actions on the selected frame ----

	function selectedFrame() {
		return cursor || { panel: panels[panels.length - 1], node: 0 };
	}

	function pivot() {
		const { panel, node } = selectedFrame();
		if (isFunction(panel, node))
			go({ p: nameAt(panel, node), z: "" });
	}

	function highlight() {
		const { panel, node } = selectedFrame();
		if (isFunction(panel, node))
			go({ f: nameAt(panel, node), q: "" });
	}

	function annotate() {
		const { panel, node } = selectedFrame(), frame = panel.tree.frame[node];
		if (annotation.isConnected && isFunction(panel, node))
			window.dispatchEvent(new CustomEvent("stackbeat:annotate", {
				detail: { function: names[frame], file: libraryOf(frame) },
			}));
	}

	function copyName() {
		const { panel, node } = selectedFrame();
		copy(nameAt(panel, node), "the name");
	}

	// From the root on, a line for each frame.
	function copyStack() {
		const { panel, node } = selectedFrame();
		const stack = [];
		for (let i = node; i >= 0; i = panel.tree.parent[i])
			stack.push(nameAt(panel, i));
		copy((panel.up || panel.inverted ? stack : stack.reverse()).join("\n"), "the stack");
	}

	async function copy(text, what) {
		try {
			await navigator.clipboard.writeText(text);
			notify(`copied ${what}`);
		} catch (error) {
			// Without a secure context the user copies.
			const area = create("textarea", { readonly: "", rows: 8 });
			area.value = text;
			notify(`Ctrl-C copies ${what}; Esc closes`, area);
			area.select();
		}
	}

	let noticeTimer;
	function notify(text, area) {
		clearTimeout(noticeTimer);
		notice.replaceChildren(text, ...(area ? [area] : []));
		notice.classList.add("visible");
		if (!area)
			noticeTimer = setTimeout(() => notice.classList.remove("visible"), 2000);
	}

	// ---- The graph ----

	let width = 0;
	let rows = []; // nodes to draw, by row; ~node: it and the siblings behind it, as one

	// The row of a frame. Upward, the rows are counted from the bottom.
	function rowOf(panel, node) {
		const row = rowFromRoot(panel, node);
		return state.u ? rows.length - 1 - row : row;
	}

	function rowFromRoot(panel, node) {
		const middle = panels.length > 1 ? panels[0].tree.rows - 1 : 0;
		return middle + (panel.up ? -1 : 1) * panel.tree.depth[node];
	}

	// The shown range of a panel.
	function rangeOf(panel) {
		const t = panel.tree;
		const { node, siblings } = zoomed && zoomed.panel === panel ? zoomed : { node: 0 };
		const up = t.parent[node];
		let right = t.left[node] + t.weight[node];
		// Of many narrow siblings the first ones are made wide enough to be seen.
		if (siblings && up >= 0)
			right = Math.min(t.left[up] + t.weight[up] - t.samples[up] - t.base[up],
				t.left[node] + t.weight[node] * width / SIBLING);
		return { node, siblings: siblings && up >= 0, left: t.left[node], right };
	}

	function measure(panel, node) {
		const t = panel.tree, range = panel.range;
		const bundle = node < 0, i = bundle ? ~node : node, up = t.parent[i];
		const end = bundle ? t.left[up] + t.weight[up] - t.samples[up] - t.base[up] :
			t.left[i] + t.weight[i];
		const scale = width / (range.right - range.left);
		const x = Math.max(0, (t.left[i] - range.left) * scale);
		return { i, bundle, x, w: Math.min(width, (end - range.left) * scale) - x };
	}

	function addToRow(panel, i, bundle) {
		const row = rowFromRoot(panel, i);
		(rows[row] || (rows[row] = [])).push({ panel, node: bundle ? ~i : i });
	}

	// Finds the frames that are wide enough, and in the zoomed part.
	function collect(panel) {
		const t = panel.tree, range = panel.range = rangeOf(panel);
		const least = NARROW * (range.right - range.left) / width;
		const stack = [];

		function addSiblings(first, end) {
			const wide = [];
			let i = first;
			for (; i < end && t.weight[i] >= least && t.left[i] < range.right; i = t.end[i])
				wide.push(i);
			if (i < end && t.left[i] < range.right)
				addToRow(panel, i, true);
			stack.push(...wide.reverse());
		}

		for (let i = t.parent[range.node]; i >= 0; i = t.parent[i])
			addToRow(panel, i, false);
		if (range.siblings)
			addSiblings(range.node, t.end[t.parent[range.node]]);
		else
			stack.push(range.node);
		while (stack.length) {
			const i = stack.pop();
			// The function of a sandwich is drawn with its callees.
			if (i || !panel.up)
				addToRow(panel, i, false);
			addSiblings(i + 1, t.end[i]);
		}
	}

	function layout() {
		width = graph.clientWidth;
		rows = [];
		if (!(width > 0))
			return;
		panels.forEach(collect);
		if (state.u) {
			rows.length = Math.max(rows.length, Math.floor((graph.clientHeight - 8) / ROW));
			rows.reverse();
		}
		const height = rows.length * ROW + 8;
		paper.style.height = height + "px";
		surface.setAttribute("width", width);
		draw();
		drawTable();
	}

	const layers = { paths: createSvg("g"), labels: createSvg("g", { class: "labels" }) };
	const inlineMarks = createSvg("path", { class: "inline-mark" });
	const hoverMark = createSvg("rect", { class: "hover" });
	const cursorMark = createSvg("rect", { class: "cursor" });
	const hatch = picture.querySelector("defs");
	surface.append(hatch, layers.paths, inlineMarks, layers.labels, hoverMark, cursorMark);

	function colorOf(panel, i) {
		const t = panel.tree;
		if (!diff)
			return colors[t.frame[i]];
		const change = t.weight[i] ? (t.total[i] - t.baseTotal[i]) / t.weight[i] : 0;
		return "c" + (Math.round(Math.abs(change) * CHANGES) * Math.sign(change) + CHANGES);
	}

	// Draws the rows in sight: a path for each color, and the names.
	function draw() {
		const first = Math.max(0, Math.floor(graph.scrollTop / ROW) - 2);
		const last = Math.min(rows.length, Math.ceil((graph.scrollTop + graph.clientHeight) / ROW) + 2);
		const paths = new Map(), labels = [], marks = [];

		for (let row = first; row < last; row++)
			for (const { panel, node } of rows[row] || [])
				drawFrame(panel, node, (row - first) * ROW, paths, labels, marks);
		surface.setAttribute("height", Math.max(last - first, 0) * ROW);
		surface.style.top = first * ROW + "px";
		layers.paths.replaceChildren(...Array.from(paths, ([key, d]) =>
			createSvg("path", { class: key, d: d.join("") })));
		layers.labels.replaceChildren(...labels);
		inlineMarks.setAttribute("d", marks.join(""));
		surface.dataset.first = first;
		drawCursor();
		hover(null);
	}

	function drawFrame(panel, node, y, paths, labels, marks) {
		const { i, bundle, x, w } = measure(panel, node);
		const t = panel.tree, end = bundle ? t.end[t.parent[i]] : i + 1;
		const found = panel.matchesBefore[end] > panel.matchesBefore[i];
		const dim = t.depth[i] < t.depth[panel.range.node] ? " dim" : "";
		const drawn = Math.max(w - Math.min(0.6, w / 5), 0.1);
		const key = (found ? "found" : bundle ? "bundle" : colorOf(panel, i)) + dim;
		if (!paths.has(key))
			paths.set(key, []);
		paths.get(key).push(`M${x.toFixed(1)} ${y}h${drawn.toFixed(1)}v${FRAME}h-${drawn.toFixed(1)}z`);
		if (t.inlined[i] && !bundle && w > 3)
			marks.push(`M${x.toFixed(1)} ${y + FRAME - 1}h${drawn.toFixed(1)}`);
		const text = bundle ? "" :
			shortName(names[t.frame[i]], Math.floor((w - 2 * PADDING) / CHARACTER));
		if (!text)
			return;
		const label = createSvg("text", { x: (x + PADDING).toFixed(1), y: y + MIDDLE });
		label.setAttribute("class", (t.inlined[i] ? "inlined" : "") + (found ? " found" : "") + dim);
		label.textContent = text;
		labels.push(label);
	}

	function frameAt(event) {
		const box = paper.getBoundingClientRect();
		const x = event.clientX - box.left, row = Math.floor((event.clientY - box.top) / ROW);
		for (const { panel, node } of rows[row] || []) {
			const place = measure(panel, node);
			if (x >= place.x && x < place.x + place.w)
				return { panel, row, ...place };
		}
		return null;
	}

	function mark(element, place, row) {
		element.style.display = place ? "" : "none";
		if (!place)
			return;
		element.setAttribute("x", place.x + 0.5);
		element.setAttribute("y", (row - Number(surface.dataset.first)) * ROW + 0.5);
		element.setAttribute("width", Math.max(place.w - 1.5, 1));
		element.setAttribute("height", FRAME - 1);
	}

	function drawCursor() {
		const row = cursor ? rowOf(cursor.panel, cursor.node) : -1;
		const visible = cursor && (rows[row] || [])
			.some(({ panel, node }) => node === cursor.node && panel === cursor.panel);
		mark(cursorMark, visible ? measure(cursor.panel, cursor.node) : null, row);
	}

	function bundleText(panel, first) {
		const t = panel.tree, end = t.end[t.parent[first]];
		let count = 0, total = 0;
		for (let i = first; i < end; i = t.end[i], count++)
			total += t.total[i];
		return [`${count} narrow frames`, `${formatValue(total)}, ` +
			`${formatPercent(total, tree.total[0])}; click to zoom`];
	}

	function hover(frame, event) {
		mark(hoverMark, frame, frame && frame.row);
		tip.style.display = frame && event.pointerType !== "touch" ? "block" : "none";
		if (!frame)
			return;
		const [name, text] = frame.bundle ? bundleText(frame.panel, frame.i) :
			[nameAt(frame.panel, frame.i), describe(frame.panel, frame.i)];
		tip.replaceChildren(create("b", {}, name), create("br"), text);
		const x = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
		const below = event.clientY + 18;
		const fits = below + tip.offsetHeight < window.innerHeight;
		tip.style.left = Math.max(x, 4) + "px";
		tip.style.top = (fits ? below : Math.max(event.clientY - tip.offsetHeight - 10, 0)) + "px";
	}

	// Makes the selected frame visible.
	function reveal() {
		const { panel, node } = cursor, row = rowOf(panel, node);
		const place = measure(panel, node);
		if (!(place.w >= NEXT_MATCH) || place.x >= width)
			zoomTo(panel, node, false, true);
		if (!isInSight(row))
			scrollTo(row - Math.floor(graph.clientHeight / ROW / 2));
		drawCursor();
	}

	// ---- The table of functions ----

	const TABLE = diff ? [
		["flatChange", "+/- flat"], ["cumChange", "+/- cum"], ["baseCum", "base %"], ["cum", "new %"],
	] : [["flat", "flat"], ["flat", "flat %"], ["cum", "cum"], ["cum", "cum %"]];
	let functions = [];
	let sorted = [];

	function order() {
		const [, key, up] = /^([A-Za-z]+)(-?)$/.exec(state.s) || [];
		const known = key === "name" || TABLE.some(([column]) => column === key);
		return known ? { key, up: Boolean(up) } : { key: TABLE[0][0], up: false };
	}

	function sortFunctions() {
		const { key, up } = order();
		const byName = (a, b) => names[a.id] < names[b.id] ? -1 : 1;
		const filter = state.q && !searchError ? (entry) => matched[entry.id] : () => true;
		if (!state.t)
			return;
		sorted = functions.filter(filter);
		sorted.sort(key === "name" ? byName :
			(a, b) => b[key] - a[key] || b.cum - a.cum || byName(a, b));
		if (up)
			sorted.reverse();
		tableHead.replaceChildren(...[...TABLE, ["name", "function"]].map(([column, title]) => {
			const active = column === key && !title.endsWith("%") || column === key && diff;
			const sort = active ? { "aria-sort": up === (key !== "name") ? "ascending" : "descending" } : {};
			const again = column === key && !up ? "-" : "";
			return create("th", { scope: "col", ...sort }, create("button", {
				type: "button", onclick: () => go({ s: column + again }, true),
			}, title));
		}));
		table.scrollTop = 0;
	}

	function cells(entry) {
		const all = tree.total[0], baseAll = tree.baseTotal[0];
		return diff ? [
			formatChange(entry.flatChange), formatChange(entry.cumChange),
			formatPercent(entry.baseCum, baseAll), formatPercent(entry.cum, all),
		] : [
			formatValue(entry.flat), formatPercent(entry.flat, all),
			formatValue(entry.cum), formatPercent(entry.cum, all),
		];
	}

	// Only the rows in sight.
	function drawTable() {
		if (!state.t)
			return;
		const first = Math.max(0, Math.floor(table.scrollTop / TABLE_ROW) - 5);
		const last = Math.min(sorted.length,
			Math.ceil((table.scrollTop + table.clientHeight) / TABLE_ROW) + 5);
		const room = Math.floor((table.clientWidth - (table.clientWidth < 420 ? 150 : 350)) / 7.3);
		const space = (count) =>
			create("tr", { class: "space", style: `height: ${count * TABLE_ROW}px` });

		tableBody.replaceChildren(space(first), ...sorted.slice(first, last).map((entry, i) => {
			const name = names[entry.id];
			const row = create("tr", { "data-row": first + i, title: name },
				...cells(entry).map((text) => create("td", {}, text)),
				create("td", { class: "name" }, shortName(name, Math.max(room, 20))));
			row.classList.toggle("found", name === state.f);
			if (diff && entry.cumChange)
				row.classList.add(entry.cumChange > 0 ? "more" : "less");
			return row;
		}), space(sorted.length - last));
	}

	function rowEntry(event) {
		const row = event.target.closest("tr[data-row]");
		return row && sorted[Number(row.dataset.row)];
	}

	function moveInTable(step) {
		const at = sorted.findIndex((entry) => names[entry.id] === state.f);
		const to = Math.min(Math.max(at + step, 0), sorted.length - 1);
		if (to < 0)
			return;
		if (state.q)
			return notify("clear the search to move in the table");
		go({ f: names[sorted[to].id] }, true);
		if (to * TABLE_ROW < table.scrollTop)
			table.scrollTop = to * TABLE_ROW;
		else if ((to + 3) * TABLE_ROW > table.scrollTop + table.clientHeight)
			table.scrollTop = (to + 3) * TABLE_ROW - table.clientHeight;
	}

	// ---- Events ----

	graph.addEventListener("pointermove", (event) => hover(frameAt(event), event));
	graph.addEventListener("pointerleave", () => hover(null));
	graph.addEventListener("click", (event) => {
		const frame = frameAt(event);
		if (!frame)
			return;
		cursor = { panel: frame.panel, node: frame.i };
		zoomTo(frame.panel, frame.i, frame.bundle);
	});
	graph.addEventListener("scroll", () => requestAnimationFrame(draw));
	table.addEventListener("scroll", () => requestAnimationFrame(drawTable));
	table.addEventListener("click", (event) => {
		const entry = rowEntry(event);
		// The first click replaces the row, so that no "dblclick" comes.
		if (entry && event.detail > 1)
			go({ f: names[entry.id], p: names[entry.id], z: "" });
		else if (entry)
			go({ f: state.f === names[entry.id] ? "" : names[entry.id], q: "" });
	});

	function moveCursor(key) {
		const { panel, node } = selectedFrame(), t = panel.tree, up = t.parent[node];
		const isUpward = Boolean(panel.up) !== Boolean(state.u);
		const inward = isUpward ? "ArrowUp" : "ArrowDown", outward = isUpward ? "ArrowDown" : "ArrowUp";
		let to = node, other = panel;
		if (key === inward && t.end[node] > node + 1)
			to = node + 1;
		else if (key === outward && up >= 0)
			to = up;
		else if (key === (state.u ? "ArrowDown" : "ArrowUp") && panels.length > 1 && !node && panels[0].tree.count > 1)
			[other, to] = [panels[0], 1];
		else if (key === "ArrowRight" && up >= 0 && t.end[node] < t.end[up])
			to = t.end[node];
		else if (key === "ArrowLeft" && up >= 0 && node > up + 1)
			for (to = up + 1; t.end[to] < node;)
				to = t.end[to];
		if (other.up && !to)
			other = panels[1];
		select(other, to);
		reveal();
	}

	const keys = {
		"/": () => focusSearch(),
		a: annotate, s: pivot, h: highlight, c: copyName, C: copyStack,
		r: () => collapse.click(), i: () => inversion.click(), u: () => direction.click(), t: () => tableSwitch.click(), "?": toggleHelp,
		n: () => nextMatch(1), N: () => nextMatch(-1),
		Escape: () => escape(),
	};

	function focusSearch() {
		input.focus();
		input.select();
	}

	function escape() {
		if (notice.classList.contains("visible"))
			notice.classList.remove("visible");
		else if (page.classList.contains("helping"))
			toggleHelp();
		else if (state.q || state.f)
			go({ q: "", f: "" });
		else if (state.z || state.p)
			go({ z: "", p: state.z ? state.p : "" });
	}

	window.addEventListener("keydown", (event) => {
		const { key, target } = event;
		const modified = event.ctrlKey || event.metaKey || event.altKey;
		let handled = true;
		if ((event.ctrlKey || event.metaKey) && key === "f")
			focusSearch();
		else if (modified || target.nodeName === "textarea" && key !== "Escape")
			handled = false;
		else if (target === input && key === "Enter")
			nextMatch(event.shiftKey ? -1 : 1);
		else if (target === input && key !== "Escape")
			handled = false;
		else if (target === table && (key === "ArrowDown" || key === "ArrowUp"))
			moveInTable(key === "ArrowDown" ? 1 : -1);
		else if (target === table && key === "Enter" && state.f)
			go({ p: state.f, z: "" });
		else if (/^Arrow/.test(key) && target !== table)
			moveCursor(key);
		else if (key === "Enter" && target === graph && cursor)
			zoomTo(cursor.panel, cursor.node);
		else if (Object.hasOwn(keys, key))
			keys[key]();
		else
			handled = false;
		if (handled)
			event.preventDefault();
	});
	window.addEventListener("popstate", readFragment);
	window.addEventListener("hashchange", readFragment);
	window.addEventListener("resize", layout);

	document.replaceChild(page, picture);
	readFragment();
	// In a frame, the page around it keeps the focus.
	if (window.parent === window)
		graph.focus({ preventScroll: true });
})();
