/* Sliders, number fields and choices; the form of a kernel, made from its tree. Elements are made one by one and their text is
   set as text: nothing that was typed or came with a link is ever read as HTML. */
"use strict";

(function (Mercer) {
  const { leaf, names, parameters, replaced, write } = Mercer.kernels;
  const STEPS = 400;

  function make(tag, properties = {}, ...children) {
    const { aria = {}, ...rest } = properties, node = Object.assign(document.createElement(tag), rest);
    for (const [name, value] of Object.entries(aria)) node.setAttribute(name === "role" ? name : `aria-${name}`, value);
    node.append(...children);
    return node;
  }

  function options(select, list) {
    select.replaceChildren(...list.map(([value, text]) => make("option", { value, textContent: text })));
    return select;
  }

  const rounded = (v) => Number(v.toPrecision(3));

  /* From a slider's place to the value and back. */
  const SCALES = {
    log: {
      value: (t, [a, b]) => rounded(a * (b / a) ** t),
      place: (v, [a, b]) => (v > 0 ? Math.log(v / a) / Math.log(b / a) : 0),
    },
    linear: { value: (t, [a, b]) => rounded(a + (b - a) * t), place: (v, [a, b]) => (v - a) / (b - a) },
    whole: { value: (t, [a, b]) => Math.round(a + (b - a) * t), place: (v, [a, b]) => (v - a) / (b - a) },
  };

  /* A labelled control for a number or a choice: {node, show(value)}; told(value) is called when the reader changes it. */
  function control(label, spec, told) {
    return spec.among ? choice(label, spec, told) : slider(label, spec, told);
  }

  function choice(label, spec, told) {
    const select = options(make("select", { aria: { label } }), spec.among.map((v) => [v, spec.words?.[v] ?? String(v)]));
    select.addEventListener("change", () => told(spec.among[select.selectedIndex]));
    const node = make("div", { className: "param" }, make("span", { textContent: label }), select);
    return { node, show: (v) => { select.selectedIndex = spec.among.indexOf(v); } };
  }

  function slider(label, spec, told) {
    const [from, to, kind] = spec.slider, scale = SCALES[kind], steps = kind === "whole" ? to - from : STEPS;
    const range = make("input", { type: "range", min: 0, max: steps, step: 1, aria: { label } });
    const field = make("input", { type: "number", step: "any", aria: { label: `${label}, as a number` } });
    range.addEventListener("input", () => told(scale.value(range.value / steps, [from, to])));
    field.addEventListener("change", () => told(field.value === "" ? NaN : Number(field.value)));
    const show = (v) => {
      range.value = Math.round(scale.place(v, [from, to]) * steps);
      range.setAttribute("aria-valuetext", String(v));
      if (document.activeElement !== field || Number(field.value) !== v) field.value = v;
    };
    return { node: make("div", { className: "param" }, make("span", { textContent: label }), range, field), show };
  }

  // ---------------------------------------------------------------------------------------------- the form of a kernel
  const within = (tree) => [tree, ...(tree.parts ?? []).flatMap(within)];
  const signature = (tree) => within(tree).map((node) => `${node.type}${node.name ?? ""}${(node.parts ?? []).length}`).join();

  /* Keeps an element's sliders in step with a tree; changed(tree) is called with the new tree. */
  function kernelForm(element, changed) {
    let tree = null, drawn = null, shown = [];

    function show(next) {
      tree = next;
      if (signature(tree) !== drawn) rebuild();
      drawn = signature(tree);
      parameters(tree).forEach((p, i) => shown[i].show(p.get()));
      element.querySelectorAll("[data-of]").forEach((node) => { node.textContent = title(within(tree)[node.dataset.of]); });
    }

    function rebuild() {
      const nodes = within(tree), owned = parameters(tree);
      shown = owned.map((p, i) => control(p.spec.name, p.spec, (value) => set(i, value)));
      const groups = nodes.map((node, place) => {
        const own = shown.filter((_, i) => owned[i].owner === node).map((c) => c.node);
        const shows = node.type === "leaf" || node.type === "method" || own.length;
        return shows ? make("div", { className: "part" }, head(node, place), ...own) : null;
      });
      element.replaceChildren(...groups.filter(Boolean));
    }

    function set(i, value) {
      const parameter = parameters(tree)[i];
      if (Number.isFinite(value)) parameter.set(value);
      changed(tree);
    }

    const swap = (place, other) => changed(replaced(tree, within(tree)[place], other));

    function head(node, place) {
      const remove = button("×", "Leave it out", `leave out ${node.name ?? node.type}`);
      if (node.type !== "leaf") {
        remove.addEventListener("click", () => swap(place, within(tree)[place].parts[0]));
        const text = make("span");
        text.dataset.of = place;
        return make("div", { className: "head" }, text, remove);
      }
      remove.disabled = Mercer.kernels.leaves(tree).length === 1;
      remove.addEventListener("click", () => swap(place, null));
      const kind = options(make("select", { aria: { label: "kind of kernel" } }), names.map((name) => [name, name]));
      kind.value = node.name;
      kind.addEventListener("change", () => swap(place, leaf(kind.value)));
      const scale = button("scale", "Give it a scale", `give ${node.name} a scale`);
      scale.addEventListener("click", () => swap(place, { type: "scale", scale: 1, parts: [within(tree)[place]] }));
      return make("div", { className: "head" }, kind, scale, remove);
    }

    const button = (textContent, title, label) => make("button", { type: "button", textContent, title, aria: { label } });
    const title = (node) => `${node.type === "method" ? `.${node.name}()` : node.type} of ${write(node.parts[0])}`;
    return { show };
  }

  Mercer.controls = { control, kernelForm, make, options };
})((globalThis.Mercer = globalThis.Mercer || {}));
