/* Pictures on canvases: the map of a machine, its curve, the Gram matrix, the spectrum. Colours come from the style sheet. */
"use strict";

(function (Mercer) {
  const CELLS = 80, LEVELS = 7; // cells of the map each way, and steps of colour each way from the middle

  // ---------------------------------------------------------------------------------------------- canvas and colour
  /* A cleared context in CSS pixels, and the size in them. */
  function begin(canvas) {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(box.width)), height = Math.max(1, Math.round(box.height));
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const draw = canvas.getContext("2d");
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, height);
    return { draw, width, height };
  }

  function palette() {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
    const names = ["paper", "panel", "ink", "quiet", "line", "warn", "sea", "plum", "class-0", "class-1", "class-2"];
    return Object.fromEntries(names.map((name) => [name, read(`--${name}`)]));
  }

  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const mixed = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
  const css = (c) => `rgb(${c.join(",")})`;

  /* How far the world's [-3, 3] goes on a canvas. */
  function scales(width, height, world) {
    return {
      x: (v) => ((v + world) / (2 * world)) * width, y: (v) => ((world - v) / (2 * world)) * height,
      back: (px, py) => [(px / width) * 2 * world - world, world - (py / height) * 2 * world],
    };
  }

  // ---------------------------------------------------------------------------------------------- fields
  /* Answers of a machine on a grid of (cells + 1)^2 nodes, computed row by row: step(until) goes on until a time is over. */
  function field(machine, world, cells = CELLS) {
    const m = cells + 1, answers = new Array(m * m);
    let at = 0;
    return {
      m, answers,
      step(until) {
        for (; at < m * m && performance.now() < until; at++) {
          const across = (at % m) / cells, down = Math.floor(at / m) / cells;
          answers[at] = machine.answer([world * (2 * across - 1), world * (1 - 2 * down)]);
        }
        return at === m * m;
      },
    };
  }

  function quantile(values, q) {
    const sorted = Float64Array.from(values).sort();
    return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] || 1;
  }

  /* A number in [-1, 1] (or [0, 1]) for every node, and the colours of the two ends. */
  function toned({ answers }, machine, tab, colours) {
    const values = answers.map((a) => a.value);
    if (tab === "density") {
      const top = values.reduce((a, v) => Math.max(a, v), 0) || 1;
      return { tones: values.map((v) => v / top), high: colours.sea, low: colours.paper };
    }
    const size = quantile(values.map(Math.abs), 0.97);
    const tones = values.map((v) => v / size), [low, high] = (machine.classes ?? []).map((c) => colours[`class-${c}`]);
    return { tones, high: high ?? colours.sea, low: low ?? colours.plum }; // components have no classes, nor their colours
  }

  /* Filled contours: the tones between nodes are bilinear, and then taken to the nearest level. */
  function paintField(target, found, machine, tab, colours) {
    const side = 320, image = new ImageData(side, side), paper = rgb(colours.paper);
    const many = found.answers[0].value === undefined;
    const shade = many ? ofClasses(found, machine, colours, paper) : ofValues(found, machine, tab, colours, paper);
    for (let py = 0; py < side; py++) {
      for (let px = 0; px < side; px++) {
        const c = shade(((px + 0.5) / side) * (found.m - 1), ((py + 0.5) / side) * (found.m - 1));
        image.data.set([c[0], c[1], c[2], 255], 4 * (py * side + px));
      }
    }
    const hidden = document.createElement("canvas");
    hidden.width = hidden.height = side;
    hidden.getContext("2d").putImageData(image, 0, 0);
    target.draw.imageSmoothingEnabled = true;
    target.draw.drawImage(hidden, 0, 0, target.width, target.height);
  }

  function bilinear(values, m, x, y) {
    const i = Math.min(Math.floor(x), m - 2), j = Math.min(Math.floor(y), m - 2), u = x - i, v = y - j, at = j * m + i;
    return (1 - v) * ((1 - u) * values[at] + u * values[at + 1]) + v * ((1 - u) * values[at + m] + u * values[at + m + 1]);
  }

  function ofValues(found, machine, tab, colours, paper) {
    const { tones, high, low } = toned(found, machine, tab, colours);
    const steps = Array.from({ length: LEVELS + 1 }, (_, i) => i / LEVELS);
    const up = steps.map((t) => mixed(paper, rgb(high), 0.8 * t)), down = steps.map((t) => mixed(paper, rgb(low), 0.8 * t));
    return (x, y) => {
      const t = Math.max(-1, Math.min(1, bilinear(tones, found.m, x, y)));
      const size = Math.abs(t) * LEVELS; // of a density the lowest level is paper; of a decision each side has its colour
      const level = tab === "density" ? Math.floor(size) : Math.ceil(size);
      return t < 0 ? down[level] : up[level];
    };
  }

  function ofClasses(found, machine, colours, paper) {
    const fields = machine.classes.map((_, c) => found.answers.map((a) => a.scores[c]));
    const leads = found.answers.map((a) => { const s = [...a.scores].sort((p, q) => q - p); return s[0] - s[1]; });
    const size = quantile(leads, 0.9), ends = machine.classes.map((c) => rgb(colours[`class-${c}`]));
    return (x, y) => {
      const scores = fields.map((f) => bilinear(f, found.m, x, y)), sorted = [...scores].sort((p, q) => q - p);
      const t = Math.min(1, (sorted[0] - sorted[1]) / size);
      return mixed(paper, ends[scores.indexOf(sorted[0])], 0.15 + 0.55 * (Math.ceil(t * 4) / 4));
    };
  }

  /* Lines where a field has a value: in each cell straight pieces between the edges that it crosses. */
  function contour(target, values, m, level) {
    const { draw, width, height } = target, sx = width / (m - 1), sy = height / (m - 1);
    draw.beginPath();
    for (let j = 0; j < m - 1; j++) {
      for (let i = 0; i < m - 1; i++) {
        const at = j * m + i, corner = [values[at], values[at + 1], values[at + m + 1], values[at + m]].map((v) => v - level);
        const places = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], cuts = [];
        for (let e = 0; e < 4; e++) {
          const a = corner[e], b = corner[(e + 1) % 4];
          if (a > 0 === b > 0) continue;
          const t = a / (a - b), p = places[e], q = places[(e + 1) % 4];
          cuts.push([(p[0] + t * (q[0] - p[0])) * sx, (p[1] + t * (q[1] - p[1])) * sy]);
        }
        for (let c = 0; c + 1 < cuts.length; c += 2) { draw.moveTo(...cuts[c]); draw.lineTo(...cuts[c + 1]); }
      }
    }
    draw.stroke();
  }

  // ---------------------------------------------------------------------------------------------- points
  /* A disc, a square or a triangle: classes differ by shape as well as by colour. */
  function mark({ draw }, x, y, shape, r) {
    draw.beginPath();
    if (shape === 0) draw.arc(x, y, r, 0, 2 * Math.PI);
    if (shape === 1) draw.rect(x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r);
    if (shape !== 2) return;
    draw.moveTo(x, y - 1.15 * r);
    draw.lineTo(x + r, y + 0.8 * r);
    draw.lineTo(x - r, y + 0.8 * r);
    draw.closePath();
  }

  function points(target, list, { world, colours, selected, support, plain }) {
    const { x, y } = scales(target.width, target.height, world), { draw } = target;
    list.forEach((p, i) => {
      const at = [x(p[0]), y(p[1])], shape = plain ? 0 : p[2];
      mark(target, ...at, shape, 4.5);
      draw.fillStyle = plain ? colours.ink : colours[`class-${p[2]}`];
      draw.fill();
      draw.lineWidth = 1.2;
      draw.strokeStyle = colours.paper;
      draw.stroke();
      if (support && support.has(i)) ring(draw, at, 7.5, 1.4, colours.ink);
      if (i === selected) ring(draw, at, 11, 2.5, colours.warn);
    });
  }

  function ring(draw, at, r, width, colour) {
    draw.beginPath();
    draw.arc(...at, r, 0, 2 * Math.PI);
    draw.lineWidth = width;
    draw.strokeStyle = colour;
    draw.stroke();
  }

  const signed = (v) => String(v).replace("-", "\u2212");

  function axes(target, world, colours, grid) {
    const { draw, width, height } = target, { x, y } = scales(width, height, world);
    draw.font = "11px system-ui, sans-serif";
    draw.lineWidth = 1;
    for (let v = -world + 1; v < world; v++) {
      draw.strokeStyle = colours.line;
      draw.beginPath();
      draw.moveTo(x(v), grid ? 0 : height - 5);
      draw.lineTo(x(v), height);
      draw.moveTo(0, y(v));
      draw.lineTo(grid ? width : 5, y(v));
      draw.stroke();
      draw.fillStyle = colours.quiet;
      draw.textAlign = "center";
      draw.fillText(signed(v), x(v), height - 7);
      draw.textAlign = "left";
      draw.fillText(signed(v), 7, y(v) + 4);
    }
  }

  // ---------------------------------------------------------------------------------------------- the map, the curve
  function map(canvas, scene) {
    const target = begin(canvas), colours = palette(), { machine, found, tab, world } = scene, { draw } = target;
    if (machine && found) {
      paintField(target, found, machine, tab, colours);
      draw.strokeStyle = colours.ink;
      draw.lineCap = "round";
      const values = found.answers.map((a) => a.value);
      if (tab !== "density" && values[0] !== undefined) {
        draw.lineWidth = 2;
        contour(target, values, found.m, 0);
        draw.lineWidth = 1.2;
        draw.setLineDash([5, 5]);
        if (machine.margins) for (const level of [-1, 1]) contour(target, values, found.m, level);
        draw.setLineDash([]);
      }
    }
    axes(target, world, colours, !found);
    points(target, scene.points, { world, colours, selected: scene.selected, support: machine && machine.support });
  }

  function curve(canvas, scene) {
    const target = begin(canvas), colours = palette(), { machine, world } = scene, { draw, width, height } = target;
    axes(target, world, colours, true);
    if (machine) {
      const { x, y } = scales(width, height, world), places = Array.from({ length: 241 }, (_, i) => world * (i / 120 - 1));
      const answers = places.map((v) => machine.answer([v])), line = (f) => places.map((v, i) => [x(v), y(f(answers[i]))]);
      const band = [...line((a) => a.value + 2 * a.std), ...line((a) => a.value - 2 * a.std).reverse()];
      draw.fillStyle = css(mixed(rgb(colours.paper), rgb(colours["class-0"]), 0.22));
      path(draw, band);
      draw.fill();
      draw.strokeStyle = colours["class-0"];
      draw.lineWidth = 2.5;
      path(draw, line((a) => a.value));
      draw.stroke();
    }
    points(target, scene.points, { world, colours, selected: scene.selected, plain: true });
  }

  function path(draw, list) {
    draw.beginPath();
    list.forEach((p, i) => (i ? draw.lineTo(...p) : draw.moveTo(...p)));
  }

  // ---------------------------------------------------------------------------------------------- Gram and spectrum
  /* Numbers n * n in a given order of the rows; returns the range of the values. */
  function gram(canvas, K, n, order) {
    const target = begin(canvas), colours = palette(), { draw, width } = target;
    if (!n) return [0, 0];
    let least = Infinity, most = -Infinity;
    for (const v of K) { least = Math.min(least, v); most = Math.max(most, v); }
    const size = Math.max(Math.abs(least), Math.abs(most)) || 1, paper = rgb(colours.paper);
    const ends = least < 0 ? [rgb(colours["class-0"]), rgb(colours["class-1"])] : [paper, rgb(colours.sea)];
    const shade = (v) => mixed(paper, ends[v < 0 ? 0 : 1], Math.abs(v) / size), image = new ImageData(n, n);
    order.forEach((i, a) => order.forEach((j, b) => image.data.set([...shade(K[i * n + j]), 255], 4 * (a * n + b))));
    const hidden = document.createElement("canvas"), side = width - 40;
    hidden.width = hidden.height = n;
    hidden.getContext("2d").putImageData(image, 0, 0);
    draw.imageSmoothingEnabled = false;
    draw.drawImage(hidden, 20, 0, side, side);
    draw.strokeStyle = colours.line;
    draw.lineWidth = 1;
    draw.strokeRect(20, 0, side, side);
    bar(target, shade, least < 0 ? -size : 0, size, side + 8, colours);
    return [least, most];
  }

  /* The colours of a range of values, with its ends. */
  function bar({ draw, width }, shade, from, to, top, colours) {
    for (let i = 0; i < 60; i++) {
      draw.fillStyle = css(shade(from + ((to - from) * (i + 0.5)) / 60));
      draw.fillRect(60 + (i * (width - 120)) / 60, top, (width - 120) / 60 + 1, 10);
    }
    draw.strokeStyle = colours.line;
    draw.strokeRect(60, top, width - 120, 10);
    draw.fillStyle = colours.quiet;
    draw.font = "11px system-ui, sans-serif";
    draw.textAlign = "right";
    draw.fillText(Mercer.machines.short(from), 54, top + 9);
    draw.textAlign = "left";
    draw.fillText(Mercer.machines.short(to), width - 54, top + 9);
  }

  /* Bars of |eigenvalue| on a scale of decades; negative ones have another colour, and those that rounding explains are grey. */
  function spectrum(canvas, values, rounding) {
    const target = begin(canvas), colours = palette(), { draw, width, height } = target;
    if (!values.length) return;
    const left = 44, foot = 22, top = Math.max(...values.map(Math.abs)) || 1;
    const high = Math.ceil(Math.log10(top) + 1e-9), decades = 18, deep = height - foot - 8;
    const y = (v) => 8 + (deep * (high - Math.max(Math.log10(Math.abs(v) || 1e-300), high - decades))) / decades;
    draw.font = "11px system-ui, sans-serif";
    draw.fillStyle = colours.quiet;
    draw.strokeStyle = colours.line;
    draw.lineWidth = 1;
    draw.textAlign = "right";
    for (let k = 0; k <= decades; k += 3) {
      const at = 8 + (deep * k) / decades;
      draw.beginPath();
      draw.moveTo(left, at);
      draw.lineTo(width, at);
      draw.stroke();
      draw.fillText(high - k === 0 ? "1" : `1e${high - k}`, left - 5, at + 4);
    }
    const step = (width - left) / values.length, thick = Math.max(1, Math.min(step - 1, 18));
    values.forEach((v, i) => {
      draw.fillStyle = Math.abs(v) <= rounding ? colours.line : v < 0 ? colours["class-1"] : colours["class-0"];
      draw.fillRect(left + i * step + (step - thick) / 2, y(v), thick, 8 + deep - y(v));
    });
    draw.fillStyle = colours.quiet;
    draw.textAlign = "left";
    draw.fillText("|eigenvalue|", left, height - 6);
    draw.textAlign = "right";
    const last = values[values.length - 1], other = last < -rounding ? "negative: the other colour" : "grey: 0 to rounding";
    if (last <= rounding) draw.fillText(other, width - 2, height - 6);
  }

  Mercer.view = { CELLS, curve, field, gram, map, scales, spectrum };
})((globalThis.Mercer = globalThis.Mercer || {}));
