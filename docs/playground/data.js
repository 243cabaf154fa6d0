/* Data sets made by generators of their own, the same ones at every visit. */
"use strict";

(function (Mercer) {
  const { WORLD, checked } = Mercer.state;

  /* Numbers in [0, 1) from a seed: a 32 bit counter, mixed. */
  function uniform(seed) {
    let counter = seed >>> 0;
    return () => {
      counter = (counter + 0x9e3779b9) >>> 0;
      let z = counter;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32;
    };
  }

  function normal(random) {
    return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  }

  const rounded = (v) => Math.round(v * 1000) / 1000;
  const clipped = (v) => rounded(Math.min(Math.max(v, -WORLD), WORLD));
  const turns = (i, n) => (Math.PI * (i + 0.5)) / n;

  /* f(i, noise, random) gives the i-th of n points. */
  function made(n, seed, f) {
    const random = uniform(seed), noise = normal(random);
    const list = Array.from({ length: n }, (_, i) => f(i, noise, random));
    return list.map(([x, y, ...label]) => [clipped(x), clipped(y), ...label]);
  }

  const PRESETS = {
    plane: {
      moons: ["Two moons", () => made(80, 1, (i, e) => {
        const c = i % 2, t = turns(i >> 1, 40), s = c ? -1 : 1;
        return [s * (1.4 * Math.cos(t) - 0.7) + 0.15 * e(), s * (1.4 * Math.sin(t) - 0.35) + 0.15 * e(), c];
      })],
      circles: ["Circles", () => made(80, 2, (i, e) => {
        const c = i % 2, r = (c ? 0.9 : 2.1) + 0.15 * e(), t = 2 * turns(i >> 1, 40);
        return [r * Math.cos(t), r * Math.sin(t), c];
      })],
      xor: ["XOR", () => made(80, 3, (i, e) => {
        const a = i & 1 ? 1 : -1, b = i & 2 ? 1 : -1;
        return [1.3 * a + 0.5 * e(), 1.3 * b + 0.5 * e(), a === b ? 1 : 0];
      })],
      spiral: ["Spiral", () => made(120, 4, (i, e) => {
        const c = i % 2, t = 0.4 + (3 * Math.PI * (i >> 1)) / 60, r = 0.27 * t + 0.1;
        return [r * Math.cos(t + c * Math.PI) + 0.06 * e(), r * Math.sin(t + c * Math.PI) + 0.06 * e(), c];
      })],
      clusters: ["Three clusters", () => made(75, 5, (i, e) => {
        const c = i % 3, t = (2 * Math.PI * c) / 3 + 0.5;
        return [1.6 * Math.cos(t) + 0.55 * e(), 1.6 * Math.sin(t) + 0.55 * e(), c];
      })],
    },
    line: {
      sinc: ["Sinc", () => made(40, 6, (i, e, u) => {
        const x = 6 * u() - 3;
        return [x, 2 * (x ? Math.sin(Math.PI * x) / (Math.PI * x) : 1) + 0.15 * e()];
      })],
      wave: ["Wave with a gap", () => made(36, 7, (i, e) => {
        const x = i < 18 ? -2.8 + 0.12 * i : 0.9 + 0.12 * (i - 18); // a gap in the middle
        return [x, Math.sin(2 * x) + 0.12 * e()];
      })],
      step: ["Step", () => made(40, 8, (i, e) => {
        const x = -2.8 + (i * 5.6) / 39;
        return [x, (x > 0.3 ? 1 : -1) + 0.15 * e()];
      })],
      season: ["Trend and season", () => made(60, 9, (i, e) => {
        const x = -2.9 + (i * 4.4) / 59;
        return [x, 0.4 * x + 0.8 * Math.sin(2 * Math.PI * x) + 0.1 * e()];
      })],
    },
  };

  const preset = (kind, name) => PRESETS[kind][name][1]();
  const fresh = () => checked({ plane: preset("plane", "moons"), line: preset("line", "sinc") });

  Mercer.data = { PRESETS, fresh, preset, rounded };
})((globalThis.Mercer = globalThis.Mercer || {}));
