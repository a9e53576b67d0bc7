// SPDX-License-Identifier: GPL-2.0
//
// Behaviour of the flame graph in a browser: it fits the window, shows the frame under the pointer,
// zooms and searches. The picture is complete without scripts. A frame is a <g class="f"> with
// data-x, data-w (offset and width, in the unit of the samples) and data-d (depth); its <title>
// has the name in the first line and the numbers in the second.
(function () {
	"use strict";

	const PADDING = 10;
	const CHARACTER = 7; // px, of the font in frames
	const TEXT_PADDING = 4;
	const VISIBLE = 0.1; // px; narrower frames are not drawn
	const TOOLS = 330; // px
	const XHTML = "http://www.w3.org/1999/xhtml";

	const script = document.currentScript;
	const svg = (script && script.ownerSVGElement) || document.documentElement;
	const head = svg.querySelector("#head");
	const details = svg.querySelector("#details");
	const matched = svg.querySelector("#matched");
	const height = Number(svg.getAttribute("height"));
	const frames = Array.from(svg.querySelectorAll(".f"), readFrame);
	const frameOf = new Map(frames.map((frame) => [frame.g, frame]));
	const root = frames[0];
	const hint = "Click a frame to zoom in. Ctrl-F searches, Esc goes back.";
	let zoomed = root;
	let width = Number(svg.getAttribute("width"));

	function readFrame(g) {
		const [title, rect, text] = g.children;
		const [name, numbers] = title.textContent.split("\n");
		return {
			g, name, numbers, rect, text,
			x: Number(g.dataset.x),
			w: Number(g.dataset.w),
			depth: Number(g.dataset.d),
		};
	}

	function create(tag, attributes) {
		const element = document.createElementNS(svg.namespaceURI, tag);
		for (const name in attributes)
			element.setAttribute(name, attributes[name]);
		return element;
	}

	function columns(character) {
		return character.codePointAt(0) < 0x1100 ? 1 : 2;
	}

	function clip(name, room) {
		let used = 0, text = "";
		for (const character of name) {
			used += columns(character);
			text += character;
			if (used > room)
				break;
		}
		if (used <= room)
			return text;
		if (room < 3)
			return "";
		for (const character of Array.from(text).reverse()) {
			text = text.slice(0, text.length - character.length);
			used -= columns(character);
			if (used <= room - 1)
				break;
		}
		return text + "…";
	}

	function label(frame, x, w) {
		const text = clip(frame.name, Math.floor((w - 2 * TEXT_PADDING) / CHARACTER));
		if (!frame.text) {
			if (!text)
				return;
			frame.text = create("text", { y: Number(frame.rect.getAttribute("y")) + 12.5 });
			frame.g.append(frame.text);
		}
		frame.text.textContent = text;
		frame.text.setAttribute("x", (Math.max(x, PADDING) + TEXT_PADDING).toFixed(2));
	}

	function place(frame) {
		const above = frame.depth < zoomed.depth;
		const inside = above ?
			frame.x <= zoomed.x && frame.x + frame.w >= zoomed.x + zoomed.w :
			frame.x >= zoomed.x && frame.x + frame.w <= zoomed.x + zoomed.w;
		const scale = (width - 2 * PADDING) / zoomed.w;
		const x = PADDING + (above ? 0 : (frame.x - zoomed.x) * scale);
		const w = above ? width - 2 * PADDING : frame.w * scale;

		if (!inside || w < VISIBLE) {
			frame.g.style.display = "none";
			return;
		}
		frame.g.style.display = "";
		frame.g.classList.toggle("dim", above);
		frame.rect.setAttribute("x", x.toFixed(2));
		frame.rect.setAttribute("width", Math.max(w - Math.min(0.6, w / 5), 0).toFixed(2));
		label(frame, x, w);
	}

	function zoom(frame) {
		zoomed = frame;
		frames.forEach(place);
		reset.style.visibility = zoomed === root ? "hidden" : "visible";
	}

	function fit() {
		const scrollbar = height > window.innerHeight ? 16 : 0;
		width = Math.max(window.innerWidth - scrollbar, 640);
		svg.setAttribute("width", width);
		svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
		tools.setAttribute("x", width - PADDING - TOOLS);
		for (const element of svg.querySelectorAll(".right"))
			element.setAttribute("transform", `translate(${width - PADDING} 0)`);
		zoom(zoomed);
	}

	function describe(frame) {
		const room = Math.floor((width - 240) / CHARACTER);
		details.textContent = frame ? clip(`${frame.name} — ${frame.numbers}`, room) : hint;
	}

	// Frames are in preorder: a frame within a match has already been counted with it.
	function search(pattern) {
		let expression = null, sum = 0, end = -1;
		input.classList.remove("wrong");
		try {
			expression = pattern ? new RegExp(pattern) : null;
		} catch (error) {
			input.classList.add("wrong");
		}
		for (const frame of frames) {
			const found = expression !== null && frame !== root && expression.test(frame.name);
			frame.g.classList.toggle("found", found);
			if (found && frame.x >= end) {
				sum += frame.w;
				end = frame.x + frame.w;
			}
		}
		svg.classList.toggle("searching", expression !== null);
		matched.textContent = expression ?
			`matched: ${(100 * sum / root.w).toFixed(2)}%` : "";
	}

	const reset = document.createElementNS(XHTML, "button");
	reset.textContent = "Reset zoom";
	const input = document.createElementNS(XHTML, "input");
	input.setAttribute("placeholder", "Search (regular expression)");
	input.setAttribute("aria-label", "Search");
	const bar = document.createElementNS(XHTML, "div");
	bar.setAttribute("class", "tools");
	bar.append(reset, input);
	const tools = create("foreignObject", { y: 8, width: TOOLS, height: 30 });
	tools.append(bar);
	head.append(tools);

	reset.addEventListener("click", () => zoom(root));
	input.addEventListener("input", () => search(input.value));
	svg.addEventListener("click", (event) => {
		const frame = frameOf.get(event.target.closest(".f"));
		if (frame)
			zoom(frame);
	});
	svg.addEventListener("mouseover", (event) => {
		describe(frameOf.get(event.target.closest(".f")));
	});
	window.addEventListener("keydown", (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key === "f") {
			event.preventDefault();
			input.focus();
			input.select();
		} else if (event.key === "Escape" && input.value) {
			input.value = "";
			search("");
		} else if (event.key === "Escape") {
			zoom(root);
		}
	});
	// The head stays visible when the page is scrolled.
	window.addEventListener("scroll", () => {
		const top = svg === document.documentElement ? window.scrollY : 0;
		head.setAttribute("transform", `translate(0 ${top})`);
	});
	window.addEventListener("resize", fit);
	describe(null);
	fit();
})();
