/* The page: one state, what changes it, and what is drawn from it. */
"use strict";

(function (Mercer) {
  const { kernels, machines, view } = Mercer;
  const { SCHEMA, WORLD, POINTS, CLASSES, checked, fromHash, toHash } = Mercer.state;
  const { PRESETS, fresh, preset, rounded } = Mercer.data;
  const { control, kernelForm, make, options } = Mercer.controls;
  const $ = (id) => document.getElementById(id);
  const PATIENCE = 70, SLICE = 12, UNDOS = 100, CLASS_NAMES = ["disc", "square", "triangle"]; // times in milliseconds

  const CONTROLS = {
    C: { label: "C", slider: [0.01, 1000, "log"] },
    alpha: { label: "alpha (noise)", slider: [0.0001, 10, "log"] },
    mean: { label: "mean", among: ["zero", "constant"] },
    component: { label: "component", among: [1, 2, 3, 4] },
    variant: { label: "variant", among: ["averaged", "plain"] },
    passes: { label: "passes", slider: [1, 50, "whole"] },
    window: { label: "window", among: machines.WINDOWS },
    bandwidth: { label: "bandwidth", slider: [0.05, 3, "log"] },
    spread: { label: "target width", slider: [0.02, 2, "log"] },
  };

  let state = fresh(), chosenClass = 0, selected = -1, removing = false, dragging = -1;
  let machine = null, found = null, pending = false, run = 0, settings = {}, settingsOf = null, seen = null, saving = 0;
  const past = [];
  const pointed = () => $("map").matches(":hover, :focus"); // what is said of a point then stays
  const plane = () => machines.TABS[state.tab].on === "plane";
  const points = () => (plane() ? state.plane : state.line);
  const form = kernelForm($("sliders"), (tree) => change("kernel", () => useKernel(tree ? kernels.write(tree) : "RBF()")));

  // ---------------------------------------------------------------------------------------------- changes
  /* Make a change that can be taken back; changes of one kind that follow at once, as of a slider, are taken back together. */
  function change(kind, make) {
    const now = performance.now(), last = past.at(-1), before = JSON.stringify(state);
    make();
    if (kind && last && last.kind === kind && now - last.time < 1000) last.time = now;
    else if (JSON.stringify(state) !== before) past.push({ kind, time: now, state: before });
    if (past.length > UNDOS) past.shift();
    $("notice").hidden = true;
    schedule();
  }

  function undo() {
    const last = past.pop();
    if (!last) return;
    state = checked(JSON.parse(last.state));
    selected = -1;
    complain(null);
    schedule();
  }

  /* Read a kernel; a text that is none leaves the state as it is, and the complaint points at the place. */
  function useKernel(text) {
    try {
      kernels.parse(text);
      state.kernel = text;
      complain(null);
    } catch (error) {
      if (!(error instanceof kernels.KernelError)) throw error;
      complain(error, text);
    }
  }

  /* Under the kernel: what is wrong with a text, and a mark at the place. */
  function complain(error, text = "") {
    const [said, shown] = $("complaint").children, from = Math.max(0, (error?.at ?? 0) - 30);
    $("complaint").hidden = !error;
    said.textContent = error ? error.message : "";
    shown.textContent = error ? `${text.slice(from, from + 60)}\n${" ".repeat(error.at - from)}^` : "";
    $("kernel").setAttribute("aria-invalid", String(Boolean(error)));
  }

  function addPoint([x, y]) {
    if (points().length >= POINTS) {
      tell(`There are ${POINTS} points already, as many as the playground takes.`);
      return false;
    }
    change(null, () => points().push([rounded(x), rounded(y), ...(plane() ? [chosenClass] : [])]));
    selected = points().length - 1;
    return true;
  }

  function removePoint(i) {
    if (i < 0 || i >= points().length) return;
    change(null, () => points().splice(i, 1));
    selected = Math.min(selected, points().length - 1);
  }

  function movePoint(i, x, y) {
    const inside = (v) => rounded(Math.min(Math.max(v, -WORLD), WORLD));
    change(`move ${i}`, () => points()[i].splice(0, 2, inside(x), inside(y)));
  }

  /* What a refusal says; a mistake in the page goes on to the console. */
  function refusal(error) {
    if (!(error instanceof kernels.Refused)) throw error;
    return error.message;
  }

  function tell(text) {
    $("notice").textContent = text;
    $("notice").hidden = false;
  }

  /* Use the link in the address, if it is not the one that the page knows already. */
  function follow() {
    if (location.hash === seen) return false;
    seen = location.hash;
    load(seen);
    return true;
  }

  function load(hash) {
    try {
      const given = fromHash(hash);
      if (given) { state = given; selected = -1; complain(null); }
    } catch (error) {
      tell(`The link was not used: ${refusal(error)}.`);
    }
    schedule();
  }

  // ---------------------------------------------------------------------------------------------- drawing
  function schedule() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; refresh(); });
  }

  function refresh() {
    run++;
    showControls();
    found = null;
    machine = fitted();
    if (plane() && machine) startField(run);
    else draw();
    requestAnimationFrame(showMatrices);
    clearTimeout(saving);
    saving = setTimeout(save, 250);
  }

  function fitted() {
    try {
      const made = machines.fit(state);
      say(made.words.join(" "), false);
      return made;
    } catch (error) {
      say(refusal(error), true);
      return null;
    }
  }

  function say(text, warned) {
    if ($("summary").textContent !== text) $("summary").textContent = text;
    $("summary").classList.toggle("warned", warned);
  }

  /* The map at once where that is quick, else a coarse one first and the rest in slices. */
  function startField(mine) {
    const fine = view.field(machine, WORLD);
    if (fine.step(performance.now() + PATIENCE)) { found = fine; return draw(); }
    found = view.field(machine, WORLD, view.CELLS / 4);
    found.step(Infinity);
    draw();
    const more = () => {
      if (mine !== run) return;
      if (!fine.step(performance.now() + SLICE)) return requestAnimationFrame(more);
      found = fine;
      draw();
    };
    requestAnimationFrame(more);
  }

  function draw() {
    const scene = { machine, found, tab: state.tab, world: WORLD, points: points(), selected };
    if (plane()) view.map($("map"), scene);
    else view.curve($("map"), scene);
    $("map").dataset.cells = found ? found.m - 1 : 0;
  }

  function redraw() {
    requestAnimationFrame(() => { draw(); showMatrices(); });
  }

  /* Rows by class, or from left to right. */
  function ordered({ X, y }) {
    return [...X.keys()].sort((i, j) => (plane() ? y[i] - y[j] || i - j : X[i][0] - X[j][0]));
  }

  function showMatrices() {
    const rows = machines.rowsOf(state), n = rows.X.length;
    try {
      const K = kernels.gram(machines.treeOf(state), rows.X), [least, most] = view.gram($("gram"), K, n, ordered(rows));
      const values = Mercer.linalg.eigen(K, n, false).values, { psd, rounding, text } = machines.verdict(values);
      const order = plane() ? "by class" : "from left to right", range = [least, most].map(machines.short).join(" to ");
      $("gram-text").textContent = n ? `${n} × ${n}, ${order}; values from ${range}` : "";
      view.spectrum($("spectrum"), values, rounding);
      const doubtful = !psd && state.tab === "svm" ? " The answer of such a machine need not be the only one." : "";
      $("verdict").textContent = text + doubtful;
      $("verdict").classList.toggle("warned", !psd);
    } catch (error) {
      view.gram($("gram"), [], 0, []);
      view.spectrum($("spectrum"), [], 0);
      $("gram-text").textContent = "";
      $("verdict").textContent = refusal(error);
    }
    $("script").textContent = Mercer.api.python(state);
    $("spectrum").dataset.drawn = run;
  }

  function save() {
    if (follow()) return; // a link that came in the meantime is not written over
    history.replaceState(null, "", toHash(state));
    seen = location.hash;
  }

  // ---------------------------------------------------------------------------------------------- controls
  function showControls() {
    for (const tab of $("tabs").children) {
      const on = tab.dataset.tab === state.tab;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) $("panel").setAttribute("aria-labelledby", tab.id);
    }
    if (settingsOf !== state.tab) rebuildSettings();
    for (const [name, shown] of Object.entries(settings)) shown.show(state[name]);
    $("kernel-part").hidden = state.tab === "density";
    if (document.activeElement !== $("kernel") && $("complaint").hidden) $("kernel").value = state.kernel;
    form.show(kernels.parse(state.kernel));
    $("undo").disabled = !past.length;
    $("remove").setAttribute("aria-pressed", String(removing));
    $("classes").hidden = !plane();
    if (!pointed()) $("readout").textContent = machines.TABS[state.tab].hint;
  }

  function rebuildSettings() {
    settingsOf = state.tab;
    settings = {};
    for (const name of machines.TABS[state.tab].settings) {
      settings[name] = control(CONTROLS[name].label, CONTROLS[name], (value) => set(name, value));
    }
    $("settings").replaceChildren(...Object.values(settings).map((shown) => shown.node));
    const list = Object.entries(PRESETS[machines.TABS[state.tab].on]).map(([key, [text]]) => [key, text]);
    options($("preset"), [["", "choose…"], ...list]);
  }

  function set(name, value) {
    if (!SCHEMA[name].check(value)) tell(`${name} must be ${SCHEMA[name].says}.`);
    else change(name, () => { state[name] = value; });
    schedule();
  }

  function makeTabs() {
    for (const [key, { name }] of Object.entries(machines.TABS)) {
      const aria = { role: "tab", controls: "panel" };
      const tab = make("button", { type: "button", id: `tab-${key}`, textContent: name, aria });
      tab.dataset.tab = key;
      tab.addEventListener("click", () => change(null, () => { state.tab = key; selected = -1; }));
      $("tabs").append(tab);
    }
    $("tabs").addEventListener("keydown", (event) => {
      const tabs = [...$("tabs").children], by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
      next.focus();
      next.click();
      event.preventDefault();
    });
  }

  function makeClasses() {
    for (let c = 0; c < CLASSES; c++) {
      const aria = { label: `class ${c}, ${CLASS_NAMES[c]}` };
      const radio = make("input", { type: "radio", name: "class", value: c, checked: c === chosenClass, aria });
      radio.addEventListener("change", () => { chosenClass = c; });
      $("classes").append(make("label", {}, radio, make("span", { className: `swatch swatch-${c}` }), String(c)));
    }
  }

  function combine(type) {
    const tree = kernels.parse(state.kernel), other = kernels.leaf($("leaf").value);
    const parts = tree.type === type ? [...tree.parts, other] : [tree, other];
    change(null, () => useKernel(kernels.write({ type, parts })));
  }

  // ---------------------------------------------------------------------------------------------- the mouse
  function place(event) {
    const box = $("map").getBoundingClientRect(), { back } = view.scales(box.width, box.height, WORLD);
    return { at: back(event.clientX - box.left, event.clientY - box.top), unit: (2 * WORLD) / box.width };
  }

  /* The point nearest to a place, if it is within reach of a finger or a mouse. */
  function nearest([x, y], reach) {
    let best = -1, closest = reach;
    points().forEach((p, i) => {
      const distance = Math.hypot(p[0] - x, p[1] - y);
      if (distance <= closest) { best = i; closest = distance; }
    });
    return best;
  }

  function pressed(event) {
    if (event.button) return;
    const { at, unit } = place(event), near = nearest(at, unit * (event.pointerType === "touch" ? 18 : 10));
    $("map").focus({ preventScroll: true });
    if (event.shiftKey || removing) return removePoint(near);
    if (near < 0 && !addPoint(at)) return;
    selected = dragging = near < 0 ? points().length - 1 : near; // a new point may be drawn to its place at once
    $("map").setPointerCapture(event.pointerId);
    draw();
  }

  function moved(event) {
    const { at } = place(event);
    if (dragging >= 0) return movePoint(dragging, ...at);
    readout(at);
  }

  function readout(at) {
    if (!machine) return;
    const { value, std, label, scores } = machine.answer(plane() ? at : [at[0]]), short = machines.short;
    const where = (plane() ? at : [at[0]]).map((v) => v.toFixed(2)).join(", ");
    const said = value !== undefined ? short(value) : scores.map(short).join(", ");
    const band = std === undefined ? "" : ` ± ${short(2 * std)}`, named = label === undefined ? "" : `, class ${label}`;
    $("readout").textContent = `at (${where}): ${said}${band}${named}`;
  }

  // ---------------------------------------------------------------------------------------------- keys
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  function pressedKey(event) {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : actionOf(event.key, event.shiftKey ? 0.25 : 0.05);
    if (!act) return;
    act();
    draw();
    tellPoint();
    event.preventDefault();
  }

  /* What a key does to the picture; undefined where it does nothing. */
  function actionOf(key, step) {
    const p = points()[selected], n = points().length;
    if (key in ARROWS) return p && (() => movePoint(selected, p[0] + step * ARROWS[key][0], p[1] + step * ARROWS[key][1]));
    if (/^[1-3]$/.test(key)) return p && plane() ? () => change(null, () => { p[2] = Number(key) - 1; }) : undefined;
    const others = {
      n: () => { selected = n ? (selected + 1) % n : -1; }, p: () => { selected = n ? (Math.max(selected, 0) + n - 1) % n : -1; },
      a: () => addPoint([0, 0]), delete: () => removePoint(selected), backspace: () => removePoint(selected),
    };
    return others[key.toLowerCase()];
  }

  function tellPoint() {
    const p = points()[selected], of = `point ${selected + 1} of ${points().length}`;
    if (p) $("readout").textContent = `${of} at (${p[0]}, ${p[1]})${plane() ? `, class ${p[2]}` : ""}`;
  }

  // ---------------------------------------------------------------------------------------------- copies
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      $("copied").textContent = `${what} copied.`;
    } catch {
      $("copied").textContent = what === "Link" ? "Copy it from the address bar." : "Select the script below and copy it.";
      if (what !== "Link") $("script").parentElement.open = true;
    }
  }

  // ---------------------------------------------------------------------------------------------- begin
  function listen() {
    const clicks = {
      undo, remove: () => { removing = !removing; schedule(); },
      clear: () => change(null, () => { points().length = 0; selected = -1; }),
      add: () => combine("sum"), multiply: () => combine("product"),
      normalise: () => change(null, () => useKernel(`(${state.kernel}).normalise()`)),
      reset: () => change(null, () => { state = fresh(); selected = -1; complain(null); }),
      "copy-python": () => copy(Mercer.api.python(state), "Script"),
      "copy-link": () => { save(); copy(location.href, "Link"); },
    };
    for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
    $("kernel").addEventListener("input", () => change("kernel", () => useKernel($("kernel").value.replace(/\s/g, " "))));
    $("kernel").addEventListener("blur", schedule);
    $("preset").addEventListener("change", () => {
      const name = $("preset").value, kind = machines.TABS[state.tab].on;
      if (name) change(null, () => { state[kind] = preset(kind, name); selected = -1; });
      $("preset").value = "";
    });
    const map = $("map"), events = { pointerdown: pressed, pointermove: moved, keydown: pressedKey };
    for (const [name, act] of Object.entries(events)) map.addEventListener(name, act);
    for (const name of ["pointerup", "pointercancel"]) map.addEventListener(name, () => { dragging = -1; });
    map.addEventListener("pointerleave", () => { $("readout").textContent = machines.TABS[state.tab].hint; });
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "z" || /INPUT|TEXTAREA/.test(event.target.tagName)) return;
      undo();
      event.preventDefault();
    });
    window.addEventListener("hashchange", follow);
    window.addEventListener("resize", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  makeTabs();
  makeClasses();
  options($("leaf"), kernels.names.map((name) => [name, name]));
  listen();
  follow();
  Mercer.api.state = () => structuredClone(state);
})((globalThis.Mercer = globalThis.Mercer || {}));
