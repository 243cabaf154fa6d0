/* All that the page shows follows from one state: its schema, and the link that holds it. What comes from outside is JSON and
   is checked here, key by key. */
"use strict";

(function (Mercer) {
  const { TABS, WINDOWS } = Mercer.machines, { Refused } = Mercer.kernels;
  const POINTS = 300, WORLD = 3, CHARACTERS = 60000, CLASSES = 3;

  // ---------------------------------------------------------------------------------------------- schema
  const one = (...words) => ({ check: (v) => words.includes(v), says: `one of ${words.join(", ")}` });
  const between = (low, high, is = Number.isFinite, what = "number") => ({
    check: (v) => is(v) && v >= low && v <= high, says: `a ${what} from ${low} to ${high}`,
  });
  const whole = (low, high) => between(low, high, Number.isInteger, "whole number");
  const label = whole(0, CLASSES - 1);
  const inside = (v) => Number.isFinite(v) && Math.abs(v) <= 2 * WORLD;
  const points = (check, says) => ({
    check: (list) => Array.isArray(list) && list.length <= POINTS && list.every((p) => Array.isArray(p) && check(p)),
    says: `at most ${POINTS} points ${says}, coordinates from ${-2 * WORLD} to ${2 * WORLD}`,
  });

  const SCHEMA = {
    version: { ...one(1), value: 1 },
    tab: { ...one(...Object.keys(TABS)), value: "svm" },
    kernel: { check: readable, says: "a kernel such as RBF(lengthscale=0.5)", value: "RBF(lengthscale=0.7)" },
    plane: { ...points((p) => p.length === 3 && inside(p[0]) && inside(p[1]) && label.check(p[2]), "[x, y, class]"), value: [] },
    line: { ...points((p) => p.length === 2 && p.every(inside), "[x, y]"), value: [] },
    C: { ...between(0.001, 10000), value: 1 },
    alpha: { ...between(0.000001, 100), value: 0.05 },
    mean: { ...one("zero", "constant"), value: "zero" },
    component: { ...whole(1, 4), value: 1 },
    variant: { ...one("averaged", "plain"), value: "averaged" },
    passes: { ...whole(1, 100), value: 10 },
    window: { ...one(...WINDOWS), value: "gaussian" },
    bandwidth: { ...between(0.02, 10), value: 0.4 },
    spread: { ...between(0.01, 5), value: 0.2 },
  };

  function readable(text) {
    try {
      return Boolean(Mercer.kernels.parse(text));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return false;
    }
  }

  /* A state from a plain object; what is not given is as by default. Throws where a key or a value is not of the schema. */
  function checked(given) {
    if (typeof given !== "object" || given === null || Array.isArray(given)) throw new Refused("a state is an object");
    for (const key of Object.keys(given)) {
      if (!Object.hasOwn(SCHEMA, key)) throw new Refused(`there is no setting "${key.slice(0, 40)}"`);
      if (!SCHEMA[key].check(given[key])) throw new Refused(`${key} must be ${SCHEMA[key].says}`);
    }
    const taken = Object.keys(SCHEMA).map((key) => [key, Object.hasOwn(given, key) ? given[key] : SCHEMA[key].value]);
    return structuredClone(Object.fromEntries(taken));
  }

  const toHash = (state) => `#${encodeURIComponent(JSON.stringify(state))}`;

  /* The state that a link holds, null for a link without one. */
  function fromHash(hash) {
    if (hash === "" || hash === "#") return null;
    if (hash.length > CHARACTERS) throw new Refused(`the link is longer than ${CHARACTERS} characters`);
    let given;
    try {
      given = JSON.parse(decodeURIComponent(hash.slice(1)));
    } catch {
      throw new Refused("the link holds no JSON; it may have been cut");
    }
    return checked(given);
  }

  Mercer.state = { CLASSES, POINTS, SCHEMA, WORLD, checked, fromHash, toHash };
  Object.assign(Mercer.api, { checked, fromHash });
})((globalThis.Mercer = globalThis.Mercer || {}));
