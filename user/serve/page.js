/* SPDX-License-Identifier: GPL-2.0 */
// The web page of a store: a chart of the CPU time by service, in which a time is selected, and
// the flame graph of that time. All texts of profiles are set as text, never as markup.
(function () {
	"use strict";

	const SVG = "http://www.w3.org/2000/svg";
	const MINUTE = 60; // seconds, as all times; the shortest window of a store
	const SPANS = [
		[900, "last 15 minutes"], [3600, "last hour"], [6 * 3600, "last 6 hours"], [86400, "last day"],
		[3 * 86400, "last 3 days"], [14 * 86400, "last 14 days"],
	];
	const SPAN = 3600;
	const SPAN_MAX = 400 * 86400;
	const COLORS = 9; // services with a color of their own
	const STEP = 5; // px of the chart, at least
	const REPEAT_PAUSE = 150; // ms
	const KEY_STEPS = 120; // of an arrow key, for the whole chart
	const LEFT = 34, BOTTOM = 18, TOP = 6; // px beside the bars
	const LEGEND_FOLDED = 6; // services of the legend on a narrow screen, as in page.css
	const LIVE_PAUSE = 15000; // ms
	const LINES_SHOWN = 10; // above the instructions
	const FOLD_MIN = 12, FOLD_BESIDE = 3; // instructions without samples
	const UNFOLD_MAX = 1000; // at a time: a function may have a million
	const GROUPS = ["service", "comm", "thread", "pid", "container", "cgroup", "truncated"];
	const FILTERS = ["pid", "container", "cgroup"];
	const TIME_MAX = 253402300799; // of the year 9999
	const TICKS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

	const element = (id) => document.getElementById(id);
	const chart = element("chart"), picture = element("picture"), tip = element("tip");
	const frame = element("graph"), status = element("status"), code = element("code");

	// What is shown; it is in the fragment of the URL. Times are in seconds since 1970.
	const initial = {
		d: "", // length of the chart; SPAN
		u: "", // end of the chart; now
		a: "", // selected time, "FROM-UNTIL"; the whole chart
		b: "", // the time that it is compared with
		s: "", // service; all
		t: "", // service that it is compared with
		f: "", // filter, "pid=4711"
		g: "", // label that is the second row of the flame graph, or "none"; services unless there is one
		l: "", // "1": follows the time
		n: "", // function that is annotated; none
		o: "", // its program or library; any
		v: "", // state of the flame graph: its fragment
	};
	const state = { ...initial };
	let range = null; // of the chart: from, until
	let data = null; // answer for it
	let shownGraph = ""; // URL
	let shownCode = ""; // URL
	let graphError = ""; // instead of the flame graph
	let stored = ["", ""]; // what is to be known of the profiles of the selected time, and of the base
	let hovered = -1; // step
	let drag = null; // the time that is being selected: which, from, until
	let baseIsNext = false; // the next drag selects what is compared

	// ---- Small parts ----

	function create(name, attributes = {}, ...children) {
		const made = document.createElement(name);
		for (const key in attributes)
			made.setAttribute(key, attributes[key]);
		made.append(...children);
		return made;
	}

	function draw(name, attributes, text) {
		const made = document.createElementNS(SVG, name);
		for (const key in attributes)
			made.setAttribute(key, attributes[key]);
		if (text !== undefined)
			made.textContent = text;
		picture.append(made);
		return made;
	}

	const two = (number) => String(number).padStart(2, "0");

	function clockTime(time) {
		const date = new Date(time * 1000);
		return two(date.getHours()) + ":" + two(date.getMinutes());
	}

	function day(time) {
		const date = new Date(time * 1000);
		return date.getFullYear() + "-" + two(date.getMonth() + 1) + "-" + two(date.getDate());
	}

	// The flame graph has times in UTC.
	function zone(time) {
		const minutes = -new Date(time * 1000).getTimezoneOffset();
		const hours = `${Math.floor(Math.abs(minutes) / 60)}`;
		const rest = Math.abs(minutes) % 60 ? ":" + two(Math.abs(minutes) % 60) : "";
		return "UTC" + (minutes ? (minutes < 0 ? "-" : "+") + hours + rest : "");
	}

	function formatRange([from, until]) {
		const end = day(from) === day(until) ? clockTime(until) : `${day(until)} ${clockTime(until)}`;
		return `${day(from)} ${clockTime(from)} to ${end} ${zone(until)}`;
	}

	function formatSeconds(seconds) {
		const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [0.001, "ms"]];
		const [unit, name] = units.find(([unit]) => seconds >= unit) || [1, "s"];
		return Number((seconds / unit).toPrecision(3)) + " " + name;
	}

	const formatCpus = (cpus) => Number(cpus.toPrecision(3)) + " CPU";
	const percent = (part, all) => (all ? 100 * part / all : 0).toFixed(1) + " %";

	const currentMinute = () => Math.ceil(Date.now() / 1000 / MINUTE) * MINUTE;

	// A range "FROM-UNTIL" of the URL, or null.
	function parseRange(text) {
		const [, from, until] = /^(\d{1,12})-(\d{1,12})$/.exec(text) || [];
		return from !== undefined && Number(from) < Number(until) ? [Number(from), Number(until)] : null;
	}

	function say(text, wrong) {
		status.textContent = text;
		status.classList.toggle("wrong", Boolean(wrong));
	}

	// ---- State ----

	function fragment() {
		const parameters = new URLSearchParams();
		for (const key in state)
			if (state[key])
				parameters.set(key, state[key]);
		return "#" + parameters;
	}

	// Changes the state. The search of a flame graph goes on in the next one, its zoomed frame not.
	// `repeats`: a key is held; only the last state is shown, and is in the history.
	let repeated = 0;
	function go(changes, repeats) {
		const before = fragment(), view = new URLSearchParams(state.v);
		view.delete("z");
		Object.assign(state, { v: String(view) }, changes);
		if (state.u)
			state.l = "";
		if (fragment() !== before)
			history[repeats ? "replaceState" : "pushState"](null, "", fragment());
		clearTimeout(repeated);
		if (repeats)
			repeated = setTimeout(show, REPEAT_PAUSE);
		else
			show();
		drawChart();
	}

	function readFragment() {
		const parameters = new URLSearchParams(location.hash.slice(1));
		for (const key in state)
			state[key] = parameters.get(key) || "";
		show();
	}

	const spanLength = () => Math.min(Math.max(Math.floor(Number(state.d)) || SPAN, MINUTE), SPAN_MAX);

	function chartRange() {
		const until = Math.floor(Number(state.u));
		const end = until > 0 && until <= TIME_MAX ? until : currentMinute();
		return [Math.max(end - spanLength(), 0), end];
	}

	const selected = () => parseRange(state.a) || range;
	const defaultGroup = () => state.s || state.t ? "none" : "service";
	const group = () => state.g || defaultGroup();
	const comparesTimes = () => Boolean(parseRange(state.b));

	// The part of a query that all requests share.
	function filterParameters() {
		const parameters = new URLSearchParams();
		const [, key, value] = /^([^=]*)=?(.*)$/.exec(state.f);
		if (state.s)
			parameters.set("service", state.s);
		// The server refuses other names: names of the page itself are no filters.
		if (state.f)
			parameters.set(FILTERS.includes(key) ? key : `filter ${key}`, value);
		return parameters;
	}

	function profileUrl(format) {
		const parameters = filterParameters(), [from, until] = selected(), base = parseRange(state.b);
		parameters.set("from", from);
		parameters.set("until", until);
		parameters.set("format", format);
		if (format !== "flamegraph")
			return "/api/profile?" + parameters;
		if (group() !== "none")
			parameters.set("group", group());
		if (base) {
			parameters.set("base_from", base[0]);
			parameters.set("base_until", base[1]);
		}
		if (state.t)
			parameters.set("base_service", state.t);
		return "/api/profile?" + parameters;
	}

	// ---- Requests ----

	async function request(url, signal) {
		const answer = await fetch(url, { signal });
		const text = await answer.text();
		if (!answer.ok)
			throw new Error(text.trim());
		return JSON.parse(text);
	}

	async function loadChart([from, until], signal) {
		const room = Math.max(chart.clientWidth - LEFT, 100);
		const steps = Math.max(1, Math.min(Math.floor(room / STEP), Math.floor((until - from) / MINUTE), 400));
		const loaded = await request(`/api/timeline?from=${from}&until=${until}&steps=${steps}`, signal);
		return {
			...loaded, steps, length: (loaded.until - loaded.from) / steps,
			sum: loaded.services.reduce((sum, service) => sum + service.cpu_ns, 0),
		};
	}

	// The profiles of a time are whole windows, which may be longer.
	async function loadStored(selection, signal) {
		if (!selection)
			return [];
		return request(`/api/windows?from=${selection[0]}&until=${selection[1]}`, signal);
	}

	function describeStored(windows, selection) {
		if (!selection || !windows.length)
			return "";
		const from = Math.min(...windows.map((window) => window.from));
		const until = Math.max(...windows.map((window) => window.until));
		const differs = from < selection[0] - MINUTE || until > selection[1] + MINUTE;
		return differs ? `stored as one with ${formatRange([from, until])}` : "";
	}

	let controller = null; // of the last requests
	async function show(again) {
		const next = chartRange();
		const isNew = again || !range || !data || next[0] !== range[0] || next[1] !== range[1];
		range = next;
		if (controller)
			controller.abort();
		controller = new AbortController();
		const { signal } = controller;
		showTools();
		showGraph();
		showCode();
		try {
			if (isNew) {
				const loaded = await loadChart(next, signal);
				// Another one may have begun meanwhile.
				if (signal.aborted)
					return;
				// The same time, with a window that has been stored meanwhile.
				if (again && data && data.sum !== loaded.sum) {
					shownGraph = shownCode = "";
					showGraph();
					showCode();
				}
				data = loaded;
				hovered = -1;
				tip.hidden = true;
			}
			showServices();
			drawChart();
			showLegend();
			stored = ["", ""];
			showStatus();
			const times = [parseRange(state.a), parseRange(state.b)];
			const windows = [await loadStored(times[0], signal), await loadStored(times[1], signal)];
			if (signal.aborted)
				return;
			stored = windows.map((list, i) => describeStored(list, times[i]));
			if (times[1] && windows[0].length && JSON.stringify(windows[0]) === JSON.stringify(windows[1]))
				stored[1] = "which is stored in the same profiles: there is no difference to see";
			showStatus();
		} catch (error) {
			if (signal.aborted)
				return;
			data = null;
			picture.replaceChildren();
			element("legend").replaceChildren();
			say(error instanceof TypeError ? "the server does not answer" : error.message, true);
		}
	}

	function showGraph() {
		const url = profileUrl("flamegraph");
		const place = frame.contentWindow.location;
		if (url !== shownGraph) {
			shownGraph = url;
			// Without an entry of its own in the history.
			place.replace(url + (state.v ? "#" + state.v : ""));
		} else if (place.hash.slice(1) !== state.v) {
			place.replace(url + "#" + state.v);
		}
	}

	function setView(view) {
		state.v = view.replace(/^#/, "");
		history.replaceState(null, "", fragment());
	}

	// The flame graph of the frame is there, or an error as plain text, or a page of the browser.
	frame.addEventListener("load", () => {
		const shown = frame.contentDocument, url = shownGraph;
		if (shown && shown.URL === "about:blank")
			return;
		graphError = !shown ? "the server does not answer" :
			shown.contentType === "text/plain" ? shown.body.textContent.trim() : "";
		frame.hidden = Boolean(graphError);
		if (graphError) {
			// It is asked again.
			shownGraph = "";
			if (!shown)
				frame.src = "about:blank";
		} else {
			setView(frame.contentWindow.location.hash);
			frame.contentWindow.dispatchEvent(new CustomEvent("stackbeat:annotations"));
			frame.contentWindow.addEventListener("stackbeat:annotate", (event) =>
				openCode(event.detail.function, event.detail.file));
			frame.contentWindow.addEventListener("stackbeat:state", (event) => {
				// Not of a chart that is being replaced.
				if (url === shownGraph)
					setView(event.detail);
			});
		}
		if (data || graphError)
			showStatus();
	});

	// ---- The annotated function ----

	function openCode(name, file) {
		// The flame graph stays as it is, with its zoomed frame.
		go({ n: name, o: file, v: state.v });
		code.focus({ preventScroll: true });
	}

	function closeCode() {
		go({ n: "", o: "", v: state.v });
	}

	function annotationUrl() {
		const parameters = filterParameters(), [from, until] = selected();
		parameters.set("from", from);
		parameters.set("until", until);
		parameters.set("function", state.n);
		if (state.o)
			parameters.set("file", state.o);
		return "/api/annotate?" + parameters;
	}

	let codeController = null; // of the last request
	async function showCode() {
		const url = state.n ? annotationUrl() : "";
		if (url === shownCode)
			return;
		shownCode = url;
		if (codeController)
			codeController.abort();
		codeController = null;
		code.hidden = !url;
		if (!url)
			return code.replaceChildren();
		codeController = new AbortController();
		const { signal } = codeController;
		// What is there stays until then, unless it is another function.
		if (code.dataset.name !== state.n)
			code.replaceChildren(codeTitle(state.n), create("p", {}, "reading the code …"));
		code.dataset.name = state.n;
		try {
			const annotation = await request(url, signal);
			if (!signal.aborted)
				drawCode(annotation);
		} catch (error) {
			if (signal.aborted)
				return;
			// It is asked again.
			shownCode = "";
			code.dataset.name = "";
			code.replaceChildren(codeTitle(state.n), create("p", { class: "wrong" },
				error instanceof TypeError ? "the server does not answer" : error.message));
		}
	}

	function codeTitle(name) {
		const close = create("button", { type: "button", title: "Close (Esc)", "aria-label": "Close" }, "×");
		close.addEventListener("click", closeCode);
		return create("header", {}, create("h2", {}, name), close);
	}

	function drawCode(annotation) {
		const formatValue = annotation.unit === "nanoseconds" ? (value) => formatSeconds(value / 1e9) : String;
		code.replaceChildren(codeTitle(state.n), ...(annotation.inlined ?
			[create("p", {}, "It is always inlined: these functions have it.")] : []),
		...annotation.functions.flatMap((entry) => drawFunction(entry, annotation, formatValue)),
		...(annotation.problem ? [create("p", { class: "note" }, `Without instructions: ${annotation.problem}.`)] : []));
		code.scrollTop = 0;
	}

	const baseName = (path) => path.replace(/^.*\/(?=.)/, "");
	const lineText = ({ file, line }) => baseName(file) + (line ? `:${line}` : "");

	function drawFunction(entry, annotation, formatValue) {
		const summary = `${formatValue(entry.flat)} of its own, ${percent(entry.flat, annotation.total)}; ` +
			`${formatValue(entry.cum)} with what it has called, ${percent(entry.cum, annotation.total)}`;
		const hasText = entry.instructions.some((instruction) => instruction.text);
		const lines = sumLines(entry);
		return [
			...(entry.function === state.n ? [] : [create("h3", {}, entry.function)]),
			create("p", { title: entry.build_id ? `build ID ${entry.build_id}` : "" },
				`${summary}, in `, create("span", { class: "path" }, entry.file || "unknown code")),
			...(lines.length ? [drawLines(lines, entry, hasText)] : []),
			...(hasText || !lines.length ? [drawInstructions(entry)] : []),
		];
	}

	const shareCells = (part, all) => [[part.flat, all.flat], [part.cum, all.cum]].map(([value, sum]) => {
		const cell = create("td", {}, value ? percent(value, sum) : "");
		if (value)
			cell.style.setProperty("--heat", (100 * Math.min(value / sum, 1)).toFixed(1) + "%");
		return cell;
	});
	const headRow = (...titles) => create("thead", {}, create("tr", {},
		...titles.map(([text, title]) => create("th", { scope: "col", title }, text))));
	const OWN = ["self", "share of the time of the function itself"];
	const ALL = ["total", "share of the time of the function, with what it has called"];

	// The lines with samples: of the innermost function that is inlined there.
	function sumLines(entry) {
		const sums = new Map();
		for (const instruction of entry.instructions) {
			const [place] = instruction.lines, text = place && place.line ? `${place.file}:${place.line}` : "";
			if (!text || !instruction.cum)
				continue;
			if (!sums.has(text))
				sums.set(text, { place, flat: 0, cum: 0 });
			sums.get(text).flat += instruction.flat;
			sums.get(text).cum += instruction.cum;
		}
		return [...sums.values()].sort((a, b) => b.flat - a.flat || b.cum - a.cum);
	}

	function drawLines(lines, entry, isSummary) {
		const shown = isSummary ? lines.slice(0, LINES_SHOWN) : lines;
		return create("table", { class: "lines" },
			headRow(OWN, ALL, [shown.length < lines.length ? `line, the first ${LINES_SHOWN} of ${lines.length}` : "line", ""]),
			create("tbody", {}, ...shown.map((line) => create("tr", {}, ...shareCells(line, entry),
				create("td", { title: line.place.file }, lineText(line.place),
					...(line.place.function === entry.function ? [] : [" ", inlinedName(line.place.function)]))))));
	}

	const inlinedName = (name) => create("span", { class: "inlined" }, name);

	// Instructions in the order of their addresses, below their lines. Long runs without samples are folded.
	function drawInstructions(entry) {
		const body = create("tbody", {}), all = entry.instructions;
		for (let i = 0; i < all.length;) {
			let end = i;
			while (end < all.length && !all[end].cum)
				end++;
			const from = i ? i + FOLD_BESIDE : i, until = end < all.length ? end - FOLD_BESIDE : end;
			if (until - from >= FOLD_MIN) {
				body.append(...rowsOf(entry, i, from), foldedRow(entry, from, until), ...rowsOf(entry, until, end));
				i = end;
			} else {
				body.append(...rowsOf(entry, i, Math.max(end, i + 1)));
				i = Math.max(end, i + 1);
			}
		}
		return create("table", { class: "instructions" },
			headRow(OWN, ALL, ["offset", "from the start of the function"], ["instruction", ""]), body);
	}

	const placeKey = (instruction) => instruction ? JSON.stringify(instruction.lines) : "[]";

	function rowsOf(entry, from, until) {
		return entry.instructions.slice(from, until).flatMap((instruction, i) => {
			const before = entry.instructions[from + i - 1], [place, ...outer] = instruction.lines;
			const row = create("tr", { "data-at": instruction.offset }, ...shareCells(instruction, entry),
				create("td", {}, "+0x" + instruction.offset.toString(16)), create("td", {}, instruction.text));
			if (!place || !place.file || placeKey(before) === placeKey(instruction))
				return [row];
			return [create("tr", { class: "place" }, create("td", { colspan: 2 }), create("td", {
				colspan: 2,
				title: instruction.lines.map((line) => `${line.function} ${line.file}:${line.line}`).join("\n"),
			}, lineText(place), ...(outer.length ? [" ", inlinedName(place.function)] : []))), row];
		});
	}

	function foldedRow(entry, from, until) {
		const unfold = create("button", { type: "button" }, `${until - from} instructions without samples`);
		const row = create("tr", { class: "folded" }, create("td", { colspan: 4 }, unfold));
		unfold.addEventListener("click", () => {
			const end = Math.min(from + UNFOLD_MAX, until);
			row.replaceWith(...rowsOf(entry, from, end), ...(end < until ? [foldedRow(entry, end, until)] : []));
		});
		return row;
	}

	// ---- The tools ----

	function setOptions(select, options, value) {
		const known = options.some(([key]) => key === value);
		select.replaceChildren(...(known ? options : [...options, [value, value]]).map(([key, text]) =>
			create("option", { value: key }, text)));
		select.value = value;
	}

	function showTools() {
		const length = String(spanLength());
		const known = SPANS.some(([seconds]) => String(seconds) === length) && !state.u;
		setOptions(element("span"), [...SPANS.map(([seconds, text]) => [String(seconds), text]),
			...(known ? [] : [["", `${formatSeconds(spanLength())} until ${day(range[1])} ${clockTime(range[1])}`]])],
			known ? length : "");
		setOptions(element("group"), [["none", "nothing"], ...GROUPS.map((key) => [key, key])], group());
		element("filter").value = state.f;
		element("zoom-in").disabled = !parseRange(state.a);
		element("live").setAttribute("aria-pressed", Boolean(state.l));
		showLive();
		for (const [id, format] of [["download", "pprof"], ["folded", "folded"], ["speedscope", "speedscope"]]) {
			element(id).href = profileUrl(format);
			element(id).download = "stackbeat." + { pprof: "pb.gz", folded: "folded", speedscope: "speedscope.json" }[format];
		}
		showServices();
	}

	function showServices() {
		const names = data ? data.services.filter((service) => service.service !== undefined)
			.map((service) => [service.service, service.service]) : [];
		setOptions(element("service"), [["", "all"], ...names], state.s);
		setOptions(element("base"), [["", "nothing"], ["\n", "another time"],
			...names.map(([name, text]) => ["=" + name, text])],
			comparesTimes() || baseIsNext ? "\n" : state.t ? "=" + state.t : "");
	}

	function showStatus() {
		const base = parseRange(state.b);
		if (baseIsNext)
			return say("Drag in the chart to select the time to compare with.");
		if (graphError)
			return say(graphError, true);
		say([
			formatRange(selected()), stored[0],
			state.s || "all services", state.f && `${state.f} in the flame graph, the chart has all`,
			base ? `compared with ${formatRange(base)}` : state.t && `compared with ${state.t}`, stored[1],
			data && data.unreadable && `${data.unreadable} profiles could not be read`,
		].filter(Boolean).join(" · "));
	}

	// ---- Live: the chart follows the time, and the flame graph, unless a time is selected ----

	let liveTimer = 0;
	function showLive() {
		if (Boolean(liveTimer) === Boolean(state.l))
			return;
		clearInterval(liveTimer);
		liveTimer = state.l ? setInterval(refresh, LIVE_PAUSE) : 0;
	}

	// Not while somebody selects a time, or does not look.
	function refresh() {
		if (state.l && !document.hidden && !drag && !baseIsNext)
			show(true);
	}

	function toggleLive() {
		go(state.l ? { l: "" } : { l: "1", u: "", a: "", b: "" });
	}

	// ---- The chart ----

	// The services with a color, and one for the rest.
	function bands() {
		const named = data.services.slice(0, COLORS).filter((service) => service.service !== undefined);
		const rest = data.services.slice(named.length);
		const sum = (step) => rest.reduce((sum, service) => sum + service.steps[step], 0);
		return [
			...named.map((service, i) => ({ name: service.service, steps: service.steps, color: "s" + i })),
			...(rest.length ? [{
				name: null, color: "other", steps: Array.from({ length: data.steps }, (_, step) => sum(step)),
			}] : []),
		];
	}

	function ceiling(value) {
		const power = 10 ** Math.floor(Math.log10(value || 1));
		return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((top) => top >= value);
	}

	function place() {
		const width = Math.max(chart.clientWidth - LEFT, 1), height = chart.clientHeight - BOTTOM - TOP;
		return {
			width, height,
			x: (time) => LEFT + (time - data.from) / (data.until - data.from) * width,
			bottom: TOP + height,
		};
	}

	function drawBands(at, top) {
		const below = new Float64Array(data.steps);
		for (const band of bands()) {
			let path = "";
			band.steps.forEach((value, step) => {
				const height = value / data.length / 1e9 / top * at.height;
				if (value > 0)
					path += `M${(at.x(data.from + step * data.length)).toFixed(2)} ` +
						`${(at.bottom - below[step]).toFixed(2)}` +
						`h${(at.width / data.steps + 0.1).toFixed(2)}v${-height.toFixed(2)}` +
						`h${-(at.width / data.steps + 0.1).toFixed(2)}z`;
				below[step] += height;
			});
			draw("path", { d: path, class: band.color + (state.s && band.name !== state.s ? " faint" : "") });
		}
	}

	function drawAxes(at, top) {
		const length = data.until - data.from;
		const tick = TICKS.find((seconds) => seconds / length * at.width >= 70) || length;
		for (const part of [0.5, 1]) {
			const y = at.bottom - part * at.height;
			draw("path", { class: "axis", d: `M${LEFT} ${y}H${LEFT + at.width}` });
			draw("text", { x: LEFT - 4, y: y + 4, "text-anchor": "end" }, Number((top * part).toPrecision(3)));
		}
		draw("text", { x: 0, y: at.bottom + 14 }, "CPUs");
		draw("path", { class: "axis", d: `M${LEFT} ${at.bottom}H${LEFT + at.width}` });
		// In local time, whose offset from UTC may change.
		const step = Math.min(tick, 900);
		for (let time = Math.ceil(data.from / step) * step; time <= data.until; time += step) {
			if ((time - new Date(time * 1000).getTimezoneOffset() * 60) % tick)
				continue;
			const midnight = clockTime(time) === "00:00", x = at.x(time);
			draw("path", { class: "axis", d: `M${x} ${at.bottom}v4` });
			if (x < LEFT + at.width - 30 && x > LEFT + 16)
				draw("text", { x, y: at.bottom + 15, "text-anchor": "middle" },
					midnight || tick >= 86400 ? day(time).slice(5) : clockTime(time));
		}
	}

	function drawRange(at, which, value) {
		if (!value)
			return;
		const from = Math.max(value[0], data.from), until = Math.min(value[1], data.until);
		if (from < until)
			draw("rect", {
				class: which, x: at.x(from), y: TOP, height: at.height,
				width: Math.max(at.x(until) - at.x(from), 1),
			});
	}

	function drawChart() {
		if (!data)
			return;
		const at = place();
		const sums = Array.from({ length: data.steps }, (_, step) =>
			data.services.reduce((sum, service) => sum + service.steps[step], 0));
		const top = ceiling(Math.max(...sums) / data.length / 1e9);
		picture.replaceChildren();
		drawBands(at, top);
		drawAxes(at, top);
		drawRange(at, "base", drag && drag.which === "b" ? [drag.from, drag.until] : parseRange(state.b));
		drawRange(at, "selected", drag && drag.which === "a" ? [drag.from, drag.until] : parseRange(state.a));
		if (hovered >= 0 && !drag)
			draw("rect", {
				class: "hover", x: at.x(data.from + hovered * data.length), y: TOP,
				width: at.width / data.steps, height: at.height,
			});
		showSlider();
	}

	function showSlider() {
		const [from, until] = selected();
		chart.setAttribute("aria-valuemax", Math.round(data.until - data.from));
		chart.setAttribute("aria-valuenow", Math.round(Math.max(from - data.from, 0)));
		chart.setAttribute("aria-valuetext", formatRange([from, until]));
	}

	function showLegend() {
		const all = bands();
		const folded = element("all-services");
		folded.hidden = data.services.length <= LEGEND_FOLDED;
		folded.textContent = element("legend").classList.contains("open") ? "Fewer services" :
			`All ${data.services.length} services`;
		element("legend").replaceChildren(...data.services.map((service, i) => {
			const name = service.service, color = (all[i] && all[i].name !== null && all[i].color) || "other";
			const button = create("button", {
				type: "button", "aria-pressed": name !== undefined && name === state.s,
				title: `${name === undefined ? `${service.others} other services` : name}: ` +
					`${formatSeconds(service.cpu_ns / 1e9)} of CPU time, ${percent(service.cpu_ns, data.sum)}, ` +
					`${formatCpus(service.cpu_ns / 1e9 / (data.until - data.from))} on average`,
			}, create("i", { class: color }),
			create("span", { class: "name" }, name === undefined ? `${service.others} other services` : name),
			create("span", { class: "share" }, percent(service.cpu_ns, data.sum)));
			if (name === undefined)
				button.disabled = true;
			else
				button.addEventListener("click", () => go({ s: state.s === name ? "" : name }));
			return create("li", {}, button);
		}));
	}

	function stepAt(event) {
		const at = place(), box = picture.getBoundingClientRect();
		const step = Math.floor((event.clientX - box.left - LEFT) / at.width * data.steps);
		return Math.min(Math.max(step, 0), data.steps - 1);
	}

	// Whole minutes: windows are not shorter.
	const stepTime = (step) => Math.round((data.from + step * data.length) / MINUTE) * MINUTE;

	function showTip(event) {
		const start = data.from + hovered * data.length;
		const rows = bands().filter((band) => band.steps[hovered] > 0).sort((a, b) => b.steps[hovered] - a.steps[hovered]);
		const sum = rows.reduce((sum, band) => sum + band.steps[hovered], 0);
		const row = (name, value, attributes) => create("tr", attributes, create("td", {}, name),
			create("td", {}, formatCpus(value / data.length / 1e9)), create("td", {}, percent(value, sum)));
		tip.hidden = false;
		tip.replaceChildren(create("b", {}, formatRange([start, start + data.length])), create("table", {},
			...rows.map((band) => row(band.name === null ? "others" : band.name, band.steps[hovered])),
			row("all", sum, { class: "sum" })));
		const x = event.clientX - chart.getBoundingClientRect().left;
		tip.style.left = (x > chart.clientWidth / 2 ? Math.max(x - tip.offsetWidth - 14, 0) : x + 14) + "px";
	}

	picture.addEventListener("pointerdown", (event) => {
		if (!data || event.button)
			return;
		const step = stepAt(event);
		drag = { which: event.shiftKey || baseIsNext ? "b" : "a", step, from: stepTime(step), until: stepTime(step + 1), moved: false };
		picture.setPointerCapture(event.pointerId);
		tip.hidden = true;
	});
	picture.addEventListener("pointermove", (event) => {
		if (!data)
			return;
		const step = stepAt(event);
		if (drag) {
			drag.moved = drag.moved || step !== drag.step;
			drag.from = stepTime(Math.min(step, drag.step));
			drag.until = stepTime(Math.max(step, drag.step) + 1);
		} else {
			hovered = step;
			showTip(event);
		}
		drawChart();
	});
	picture.addEventListener("pointerup", () => {
		if (!drag)
			return;
		const { which, from, until } = drag;
		drag = null;
		if (which === "b")
			baseIsNext = false;
		if (from < until)
			go({ [which]: `${from}-${until}`, ...(which === "b" ? { t: "" } : {}), u: String(range[1]) });
	});
	picture.addEventListener("pointercancel", () => {
		drag = null;
		drawChart();
	});
	picture.addEventListener("pointerleave", () => {
		hovered = -1;
		tip.hidden = true;
		drawChart();
	});

	// ---- Events ----

	// Not beyond now, which is no fixed time.
	const endAt = (until) => until < currentMinute() ? String(Math.floor(until)) : "";

	function move(direction, repeats) {
		go({ u: endAt(range[1] + direction * Math.max(Math.floor(spanLength() / 2), MINUTE)) }, repeats);
	}

	function zoomIn() {
		const part = parseRange(state.a);
		if (part)
			go({ d: String(part[1] - part[0]), u: String(part[1]) });
	}

	function zoomOut() {
		const length = Math.min(2 * spanLength(), SPAN_MAX);
		go({ d: String(length), u: state.u && endAt(range[1] + (length - spanLength()) / 2) });
	}

	function goToNow() {
		data = null;
		shownGraph = shownCode = "";
		go({ u: "", a: "", b: "" });
	}

	function clear() {
		if (baseIsNext || drag) {
			baseIsNext = false;
			drag = null;
			showServices();
			drawChart();
			showStatus();
		} else if (state.n) {
			closeCode();
		} else if (state.a || state.b || state.t) {
			go({ a: "", b: "", t: "" });
		}
	}

	function moveSelection(direction, isEnd, repeats) {
		// The chart may still show another time.
		const step = Math.max(Math.round(spanLength() / KEY_STEPS / MINUTE) * MINUTE, MINUTE);
		const [from, until] = parseRange(state.a) || [range[1] - step, range[1]];
		const next = isEnd ? [from, until + direction * step] : [from + direction * step, until + direction * step];
		if (next[0] >= 0 && next[0] < next[1])
			go({ a: next.map(Math.round).join("-"), u: String(range[1]) }, repeats);
	}

	function toggleHelp() {
		const help = element("help");
		help.hidden = !help.hidden;
		element("help-switch").setAttribute("aria-expanded", String(!help.hidden));
		drawChart();
	}

	element("span").addEventListener("change", (event) => {
		if (event.target.value)
			go({ d: event.target.value, u: "", a: "", b: "" });
	});
	element("service").addEventListener("change", (event) => go({ s: event.target.value }));
	element("group").addEventListener("change", (event) => go({
		g: event.target.value === defaultGroup() ? "" : event.target.value,
	}));
	element("filter").addEventListener("change", (event) => {
		const filter = event.target.value.trim();
		go(filter.startsWith("service=") ? { s: filter.slice(8), f: "" } : { f: filter });
	});
	element("base").addEventListener("change", (event) => {
		const { value } = event.target;
		baseIsNext = value === "\n";
		if (baseIsNext) {
			showStatus();
			chart.focus();
		} else {
			go({ b: "", t: value.slice(1) });
		}
	});
	element("earlier").addEventListener("click", () => move(-1));
	element("later").addEventListener("click", () => move(1));
	element("zoom-in").addEventListener("click", zoomIn);
	element("zoom-out").addEventListener("click", zoomOut);
	element("now").addEventListener("click", goToNow);
	element("help-switch").addEventListener("click", toggleHelp);
	element("live").addEventListener("click", toggleLive);
	element("fold").addEventListener("click", () => {
		const open = document.querySelector("header").classList.toggle("open");
		element("fold").setAttribute("aria-expanded", String(open));
	});
	element("all-services").addEventListener("click", () => {
		element("legend").classList.toggle("open");
		showLegend();
	});
	document.addEventListener("visibilitychange", refresh);

	const keys = {
		PageUp: (repeats) => move(-1, repeats), PageDown: (repeats) => move(1, repeats), "+": zoomIn, "-": zoomOut, r: goToNow, l: toggleLive,
		Escape: clear, "?": toggleHelp,
	};
	window.addEventListener("keydown", (event) => {
		const { key, target } = event;
		if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(target.nodeName))
			return;
		if (target === chart && (key === "ArrowLeft" || key === "ArrowRight"))
			moveSelection(key === "ArrowLeft" ? -1 : 1, event.shiftKey, event.repeat);
		else if (Object.hasOwn(keys, key))
			keys[key](event.repeat);
		else
			return;
		event.preventDefault();
	});
	window.addEventListener("popstate", readFragment);
	window.addEventListener("hashchange", readFragment);
	window.addEventListener("resize", drawChart);

	readFragment();
})();
