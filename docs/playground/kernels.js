/* Kernels as trees, with the names, parameters and defaults of mercer.kernels: read from text, written as text, and bound to
   rows. A tree is {type, ...}: "leaf" (name, params), "scale" (scale, parts), "sum", "difference", "product" (parts), "power"
   (exponent, parts), "method" (name, values, parts). */
"use strict";

(function (Mercer) {
  const LENGTH = 1000, DEPTH = 40, LEAVES = 12, STEPS = 60;

  /* What the reader asked for cannot be done, and the message says why; any other error is a mistake in the page. */
  class Refused extends Error {}

  // ---------------------------------------------------------------------------------------------- parameters
  /* slider: [from, to, "log" | "linear" | "whole"]. */
  const positive = (name, value, slider) => ({ name, value, low: 0, open: true, slider });
  const real = (name, value, slider) => ({ name, value, low: -Infinity, slider });
  const LENGTHSCALE = positive("lengthscale", 1, [0.05, 10, "log"]);
  const GAMMA = { name: "gamma", value: 1, low: 0, slider: [0.01, 10, "log"] };
  const SCALE = real("scale", 1, [0.01, 100, "log"]);
  const EXPONENT = { name: "exponent", value: 2, low: 0, whole: true, slider: [0, 6, "whole"] };

  function checked(spec, value, owner) {
    const said = `${owner}(${spec.name}=...): ${spec.name}=${value}`;
    if (typeof value !== "number" || !Number.isFinite(value)) throw new Refused(`${said} must be a finite number`);
    if (spec.whole && !Number.isInteger(value)) throw new Refused(`${said} must be a whole number`);
    const outside = spec.open ? value <= spec.low : value < spec.low;
    if (outside) throw new Refused(`${said} must be ${spec.open ? ">" : ">="} ${spec.low}`);
    if (spec.among && !spec.among.includes(value)) throw new Refused(`${said} must be one of ${spec.among.join(", ")}`);
    return value;
  }

  // ---------------------------------------------------------------------------------------------- leaves
  /* of: "distance" for f(|x - y|^2), "circle" for the distance on circles, "inner" for f(<x,y>, <x,x>, <y,y>). */
  const rsqrt0 = (v) => (v > 0 ? 1 / Math.sqrt(v) : 0);
  const clip = (v) => Math.min(Math.max(v, -1), 1);
  const radial = (profile, ...params) => ({ of: "distance", params: params.length ? params : [LENGTHSCALE], f: (p) => {
    const inverse = 1 / (p.lengthscale * p.lengthscale), g = profile(p);
    return (s) => g(s * inverse);
  } });
  const bump = (value) => radial(() => value);

  const LEAVES_KNOWN = {
    RBF: radial(() => (s) => Math.exp(-0.5 * s)),
    Laplacian: radial(() => (s) => Math.exp(-Math.sqrt(s))),
    Matern: radial(matern, { ...positive("nu", 1.5, [0.5, 2.5, "linear"]), among: [0.5, 1.5, 2.5] }, LENGTHSCALE),
    RationalQuadratic: radial((p) => (s) => (1 + s / (2 * p.exponent)) ** -p.exponent,
      positive("exponent", 1, [0.1, 10, "log"]), LENGTHSCALE),
    InverseMultiquadric: radial(() => (s) => 1 / Math.sqrt(1 + s)),
    Periodic: { ...radial(() => (s) => Math.exp(-0.5 * s), positive("period", 1, [0.2, 6, "log"]), LENGTHSCALE), of: "circle" },
    Linear: { of: "inner", params: [], f: () => (s) => s },
    Polynomial: { of: "inner", f: polynomial,
      params: [{ name: "degree", value: 3, low: 0, slider: [1, 8, "whole"] }, GAMMA, real("coef0", 1, [0, 5, "linear"])] },
    Cosine: { of: "inner", params: [], f: () => (s, xx, yy) => s * rsqrt0(xx) * rsqrt0(yy) },
    ArcCosine: { of: "inner", f: arcCosine,
      params: [{ name: "degree", value: 1, low: 0, whole: true, among: [0, 1, 2], slider: [0, 2, "whole"] }] },
    ArcSine: { of: "inner", f: arcSine,
      params: [positive("weight", 1, [0.05, 20, "log"]), { name: "bias", value: 1, low: 0, slider: [0, 10, "linear"] }] },
    Sigmoid: { of: "inner", f: ({ gamma, coef0 }) => (s) => Math.tanh(gamma * s + coef0),
      params: [GAMMA, real("coef0", 0, [-3, 3, "linear"])] },
    Constant: { of: "nothing", params: [real("value", 1, [0, 5, "linear"])] },
    White: { of: "nothing", params: [{ name: "variance", value: 1, low: 0, slider: [0, 2, "linear"] }] },
    Epanechnikov: bump((s) => Math.max(1 - s, 0)),
    Biweight: bump((s) => Math.max(1 - s, 0) ** 2),
    Tricube: bump((s) => Math.max(1 - s * Math.sqrt(s), 0) ** 3),
    Triangular: bump((s) => Math.max(1 - Math.sqrt(s), 0)),
    Window: bump((s) => (s <= 1 ? 1 : 0)),
    CosineWindow: bump((s) => Math.sin(0.5 * Math.PI * (1 - Math.sqrt(Math.min(s, 1))))),
  };

  function matern({ nu }) {
    if (nu === 0.5) return (s) => Math.exp(-Math.sqrt(s));
    if (nu === 1.5) return (s) => { const z = Math.sqrt(3 * s); return (1 + z) * Math.exp(-z); };
    return (s) => { const z = Math.sqrt(5 * s); return (1 + z + (z * z) / 3) * Math.exp(-z); };
  }

  function polynomial({ degree, gamma, coef0 }) {
    const raised = power(degree);
    return (s) => raised(gamma * s + coef0);
  }

  function arcCosine({ degree }) {
    return (s, xx, yy) => {
      const c = clip(s * rsqrt0(xx) * rsqrt0(yy)), rest = Math.PI - Math.acos(c), sine = Math.sqrt(Math.max(1 - c * c, 0));
      if (degree === 0) return rest / Math.PI;
      if (degree === 1) return (Math.sqrt(xx) * Math.sqrt(yy) * (sine + rest * c)) / Math.PI;
      return (xx * yy * (3 * sine * c + rest * (1 + 2 * c * c))) / Math.PI;
    };
  }

  function arcSine({ weight, bias }) {
    const twice = (v) => 2 * (bias + weight * v);
    return (s, xx, yy) => (2 / Math.PI) * Math.asin(twice(s) * rsqrt0(1 + twice(xx)) * rsqrt0(1 + twice(yy)));
  }

  /* Operators called as methods: value of k(x, y) from k(x, y), k(x, x), k(y, y). */
  const METHODS = {
    normalise: { params: [], f: () => (k, kx, ky) => k * rsqrt0(kx) * rsqrt0(ky) },
    gaussian: { params: [LENGTHSCALE], f: ([l]) => (k, kx, ky) => Math.exp((2 * k - kx - ky) / (2 * l * l)) },
    exp: { params: [], f: () => (k) => Math.exp(k) },
    tanh: { params: [], f: () => (k) => Math.tanh(k) },
    on: { params: null },
  };

  function leaf(name, given = {}) {
    const params = {};
    for (const spec of LEAVES_KNOWN[name].params) params[spec.name] = checked(spec, given[spec.name] ?? spec.value, name);
    return { type: "leaf", name, params };
  }

  // ---------------------------------------------------------------------------------------------- algebra
  const isKernel = (v) => typeof v === "object" && v !== null;
  const kernel = (v) => (isKernel(v) ? v : leaf("Constant", { value: v }));
  const scaled = (scale, part) => ({ type: "scale", scale: checked(SCALE, scale, "scale"), parts: [part] });

  function flat(type, a, b) {
    return { type, parts: [...(a.type === type ? a.parts : [a]), b] }; // a + b + c is one sum, as typed
  }

  const OPERATIONS = {
    "+": (a, b) => (isKernel(a) || isKernel(b) ? flat("sum", kernel(a), kernel(b)) : a + b),
    "-": (a, b) => (isKernel(a) || isKernel(b) ? { type: "difference", parts: [kernel(a), kernel(b)] } : a - b),
    "*": (a, b) => {
      if (isKernel(a) && isKernel(b)) return flat("product", a, b);
      return isKernel(b) ? scaled(a, b) : isKernel(a) ? scaled(b, a) : a * b;
    },
    "/": (a, b) => {
      if (isKernel(b)) throw new Refused("kernels divide nothing; a number may");
      if (b === 0) throw new Refused("this is no finite number");
      return isKernel(a) ? scaled(1 / b, a) : a / b;
    },
    "**": (a, b) => {
      if (isKernel(b)) throw new Refused("a number to the power of a kernel is none");
      return isKernel(a) ? { type: "power", exponent: checked(EXPONENT, b, "**"), parts: [a] } : a ** b;
    },
  };

  // ---------------------------------------------------------------------------------------------- reading
  class KernelError extends Refused {
    constructor(message, at) {
      super(message);
      this.at = at;
    }
  }

  const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/().,=]))/y;

  function tokens(text) {
    const found = [], end = text.trimEnd().length;
    TOKEN.lastIndex = 0;
    let at = 0;
    while (at < end) {
      TOKEN.lastIndex = at;
      const match = TOKEN.exec(text);
      if (!match) {
        at += text.slice(at).search(/\S/);
        throw new KernelError(`"${text[at]}" has no meaning here`, at);
      }
      const kind = ["number", "name", "sign"][match.slice(1).findIndex((part) => part !== undefined)];
      const word = match[0].trimStart();
      at = TOKEN.lastIndex;
      found.push({ kind, text: word, at: at - word.length });
    }
    return [...found, { kind: "end", text: "the end", at: end }];
  }

  /* The tree that a text describes; a KernelError says where it does not. */
  function parse(text) {
    if (typeof text !== "string") throw new KernelError("a kernel is read from text", 0);
    if (text.length > LENGTH) throw new KernelError(`a kernel of ${text.length} characters; at most ${LENGTH} are read`, LENGTH);
    const reader = new Reader(tokens(text));
    const value = reader.sum();
    if (reader.token.kind !== "end") throw new KernelError(`"${reader.token.text}" was not expected here`, reader.token.at);
    const tree = kernelAt(value, 0);
    if (leaves(tree).length > LEAVES) throw new KernelError(`the playground takes ${LEAVES} kernels in a tree at most`, 0);
    return tree;
  }

  /* A refusal that knows its place in the text. */
  function placed(error, at) {
    return error instanceof Refused && !(error instanceof KernelError) ? new KernelError(error.message, at) : error;
  }

  function kernelAt(value, at) {
    try {
      return kernel(value);
    } catch (error) {
      throw placed(error, at);
    }
  }

  class Reader {
    constructor(list) {
      Object.assign(this, { list, place: 0, depth: 0, steps: 0 });
    }

    get token() {
      return this.list[this.place];
    }

    next() {
      return this.list[Math.min(this.place++, this.list.length - 1)];
    }

    has(...signs) {
      return this.token.kind === "sign" && signs.includes(this.token.text);
    }

    expect(sign, why) {
      if (!this.has(sign)) throw new KernelError(`expected "${sign}" ${why}, got ${this.token.text}`, this.token.at);
      return this.next();
    }

    deeper(at, rule) {
      if (++this.depth > DEPTH) throw new KernelError(`nested more than ${DEPTH} deep`, at);
      const value = rule();
      this.depth--;
      return value;
    }

    made(at, make) {
      if (++this.steps > STEPS) throw new KernelError(`more than ${STEPS} operations`, at);
      try {
        return make();
      } catch (error) {
        throw placed(error, at);
      }
    }

    sum() {
      return this.chain(() => this.product(), "+", "-");
    }

    product() {
      return this.chain(() => this.factor(), "*", "/");
    }

    chain(rule, ...signs) {
      let value = rule();
      while (this.has(...signs)) {
        const sign = this.next(), right = rule();
        value = this.made(sign.at, () => OPERATIONS[sign.text](value, right));
      }
      return value;
    }

    factor() {
      if (this.has("-")) {
        const sign = this.next(), value = this.deeper(sign.at, () => this.factor());
        return this.made(sign.at, () => OPERATIONS["*"](-1, value));
      }
      const value = this.called();
      if (!this.has("**")) return value;
      const sign = this.next(), exponent = this.deeper(sign.at, () => this.factor());
      return this.made(sign.at, () => OPERATIONS["**"](value, exponent));
    }

    called() {
      let value = this.atom();
      while (this.has(".")) {
        this.next();
        value = this.method(value, this.next());
      }
      return value;
    }

    atom() {
      const token = this.next();
      if (token.kind === "number") return Number(token.text);
      if (token.kind === "name") return this.leaf(token);
      if (token.kind === "sign" && token.text === "(") {
        const value = this.deeper(token.at, () => this.sum());
        this.expect(")", "to close the parenthesis");
        return value;
      }
      throw new KernelError(`expected a kernel or a number, got ${token.text}`, token.at);
    }

    leaf(token) {
      if (!Object.hasOwn(LEAVES_KNOWN, token.text)) {
        throw new KernelError(`no kernel here is called ${token.text}${meant(token.text, Object.keys(LEAVES_KNOWN))}`, token.at);
      }
      if (!this.has("(")) throw new KernelError(`${token.text} needs parentheses: ${token.text}()`, token.at);
      const given = this.arguments(token, LEAVES_KNOWN[token.text].params);
      return this.made(token.at, () => leaf(token.text, given));
    }

    method(value, token) {
      if (!isKernel(value)) throw new KernelError("only kernels have methods, this is a number", token.at);
      if (token.kind !== "name" || !Object.hasOwn(METHODS, token.text)) {
        throw new KernelError(`kernels here have no method ${token.text}${meant(token.text, Object.keys(METHODS))}`, token.at);
      }
      if (!this.has("(")) throw new KernelError(`${token.text} needs parentheses: .${token.text}()`, token.at);
      const { params } = METHODS[token.text];
      const given = this.arguments(token, params ?? [{ name: "0" }, { name: "1" }]);
      return this.made(token.at, () => method(token.text, given, value));
    }

    /* Positional and named numbers between parentheses, by name. */
    arguments(owner, specs) {
      const given = {};
      let named = false, place = 0;
      this.next();
      while (!this.has(")")) {
        const token = this.token, after = this.list[Math.min(this.place + 1, this.list.length - 1)];
        const name = token.kind === "name" && after.text === "=" ? token.text : null;
        if (name !== null) { this.next(); this.next(); named = true; }
        else if (named) throw new KernelError("arguments without a name come before those with one", token.at);
        const spec = name === null ? specs[place++] : specs.find((s) => s.name === name);
        const known = specs.map((s) => s.name).join(", ") || "no arguments";
        if (!spec) throw new KernelError(`${owner.text}() takes ${known}`, token.at);
        if (Object.hasOwn(given, spec.name)) throw new KernelError(`${spec.name} is given twice`, token.at);
        const value = this.deeper(token.at, () => this.sum());
        if (typeof value !== "number") throw new KernelError(`${spec.name} is a number, not a kernel`, token.at);
        given[spec.name] = value;
        if (!this.has(",")) break;
        this.next();
      }
      this.expect(")", "to close the arguments");
      return given;
    }
  }

  function method(name, given, part) {
    if (name === "on") {
      const columns = Object.values(given);
      if (!columns.length || !columns.every((c) => c === 0 || c === 1) || new Set(columns).size < columns.length) {
        throw new Refused("on(...) takes the columns 0 or 1, each once");
      }
      return { type: "method", name, values: columns, parts: [part] };
    }
    const values = METHODS[name].params.map((spec) => checked(spec, given[spec.name] ?? spec.value, name));
    return { type: "method", name, values, parts: [part] };
  }

  /* The name that a misspelt one is nearest to. */
  function meant(word, known) {
    const near = known.map((name) => [distance(word.toLowerCase(), name.toLowerCase()), name]).sort((a, b) => a[0] - b[0])[0];
    return near[0] <= Math.max(1, word.length / 3) ? `; did you mean ${near[1]}?` : `; there are ${known.join(", ")}`;
  }

  function distance(a, b) {
    let above = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const line = [i];
      for (let j = 1; j <= b.length; j++) {
        line.push(Math.min(above[j] + 1, line[j - 1] + 1, above[j - 1] + (a[i - 1] !== b[j - 1])));
      }
      above = line;
    }
    return above[b.length];
  }

  // ---------------------------------------------------------------------------------------------- writing
  const PRECEDENCE = { sum: 1, difference: 1, product: 2, scale: 2, power: 3, method: 4, leaf: 4 };

  /* The text of a tree, as Python would print it. */
  function write(tree, precedence = 0) {
    const text = WRITERS[tree.type](tree);
    return PRECEDENCE[tree.type] < precedence ? `(${text})` : text;
  }

  const joined = (sign, level) => ({ parts }) => parts.map((p, i) => write(p, i ? level + 1 : level)).join(sign);
  const number = (v) => (Object.is(v, -0) ? "0" : String(v));
  const WRITERS = {
    sum: joined(" + ", 1),
    difference: joined(" - ", 1),
    product: joined(" * ", 2),
    scale: ({ scale, parts }) => `${number(scale)} * ${write(parts[0], 3)}`,
    power: ({ exponent, parts }) => `${write(parts[0], 4)}**${number(exponent)}`,
    method: ({ name, values, parts }) => `${write(parts[0], 4)}.${name}(${values.map(number).join(", ")})`,
    leaf: ({ name, params }) => {
      const shown = LEAVES_KNOWN[name].params.filter((spec) => params[spec.name] !== spec.value);
      return `${name}(${shown.map((spec) => `${spec.name}=${number(params[spec.name])}`).join(", ")})`;
    },
  };

  /* All leaves of a tree, from left to right. */
  function leaves(tree) {
    return tree.type === "leaf" ? [tree] : tree.parts.flatMap(leaves);
  }

  /* What sliders may move, as {owner, label, spec, get, set}; setting changes the tree. */
  function parameters(tree, found = []) {
    const add = (owner, spec, get, set) => found.push({ owner, spec, get, set });
    if (tree.type === "scale") add(tree, SCALE, () => tree.scale, (v) => { tree.scale = v; });
    if (tree.type === "power") add(tree, EXPONENT, () => tree.exponent, (v) => { tree.exponent = v; });
    if (tree.type === "method" && METHODS[tree.name].params) {
      METHODS[tree.name].params.forEach((spec, i) => add(tree, spec, () => tree.values[i], (v) => { tree.values[i] = v; }));
    }
    if (tree.type === "leaf") {
      for (const spec of LEAVES_KNOWN[tree.name].params) {
        add(tree, spec, () => tree.params[spec.name], (v) => { tree.params[spec.name] = v; });
      }
    } else {
      tree.parts.forEach((part) => parameters(part, found));
    }
    return found;
  }

  /* The tree with one of its nodes replaced, or left out where `other` is null; null if nothing is left. */
  function replaced(tree, node, other) {
    if (tree === node) return other;
    if (tree.type === "leaf") return tree;
    const parts = tree.parts.map((part) => replaced(part, node, other)).filter((part) => part !== null);
    if (!parts.length) return null;
    const many = ["sum", "product", "difference"].includes(tree.type);
    return many && parts.length === 1 ? parts[0] : { ...tree, parts };
  }

  // ---------------------------------------------------------------------------------------------- numbers
  /* A tree bound to rows X: row(x, own) gives k(x, x_i) for all i, where x is row `own` of X (-1: a new row), and at(x) gives
     k(x, x), of which White is a part unless `noisy` is false. */
  function bind(tree, X, columns = null) {
    if (tree.type === "method" && tree.name === "on") return bind(tree.parts[0], X, chosen(tree.values, X, columns));
    if (tree.type === "leaf") return bindLeaf(tree, X, columns);
    const parts = tree.parts.map((part) => bind(part, X, columns));
    if (tree.type === "method") return bindMethod(METHODS[tree.name].f(tree.values), parts[0], X);
    const f = COMBINED[tree.type](tree);
    return {
      row: (x, own = -1) => f(parts.map((p) => p.row(x, own))),
      at: (x, noisy = true) => f(parts.map((p) => [p.at(x, noisy)]))[0],
    };
  }

  function chosen(values, X, columns) {
    const width = columns ? columns.length : X.length ? X[0].length : 2;
    const missing = values.find((c) => c >= width);
    const many = width > 1 ? "columns" : "column";
    if (missing !== undefined) throw new Refused(`on(${missing}): the rows have ${width} ${many}, numbered from 0`);
    return columns ? values.map((c) => columns[c]) : values;
  }

  function fold(first, rest, f) {
    for (const part of rest) for (let i = 0; i < first.length; i++) first[i] = f(first[i], part[i]);
    return first;
  }

  const COMBINED = {
    sum: () => ([first, ...rest]) => fold(first, rest, (a, b) => a + b),
    difference: () => ([first, ...rest]) => fold(first, rest, (a, b) => a - b),
    product: () => ([first, ...rest]) => fold(first, rest, (a, b) => a * b),
    scale: ({ scale }) => ([part]) => each(part, (v) => scale * v),
    power: ({ exponent }) => ([part]) => each(part, power(exponent)),
  };

  /* f of every number, in place: a map of a typed array takes several times as long. */
  function each(list, f) {
    for (let i = 0; i < list.length; i++) list[i] = f(list[i]);
    return list;
  }

  /* v -> v^p; small whole powers by products, which are quicker. */
  function power(p) {
    if (!Number.isInteger(p) || p < 1 || p > 8) return (v) => v ** p;
    return (v) => {
      let product = v;
      for (let i = 1; i < p; i++) product *= v;
      return product;
    };
  }

  function bindMethod(f, part, X) {
    const own = Float64Array.from(X, (x) => part.at(x));
    return {
      row: (x, at = -1) => {
        const kx = part.at(x), out = part.row(x, at);
        for (let i = 0; i < out.length; i++) out[i] = f(out[i], kx, own[i]);
        return out;
      },
      at: (x, noisy = true) => {
        const k = part.at(x, noisy);
        return f(k, k, k);
      },
    };
  }

  function bindLeaf({ name, params }, X, columns) {
    const n = X.length, known = LEAVES_KNOWN[name];
    if (name === "Constant") return { row: () => new Float64Array(n).fill(params.value), at: () => params.value };
    if (name === "White") {
      return {
        row: (x, own = -1) => { const out = new Float64Array(n); if (own >= 0) out[own] = params.variance; return out; },
        at: (x, noisy = true) => (noisy ? params.variance : 0),
      };
    }
    const used = columns ?? Array.from({ length: X.length ? X[0].length : 0 }, (_, j) => j);
    const taken = used.map((c) => Float64Array.from(X, (x) => x[c]));
    return BINDERS[known.of](known.f(params), params, taken, (x) => (X.length || columns ? used.map((c) => x[c]) : x), n);
  }

  const BINDERS = {
    distance: (f, params, taken, pick, n) => ({
      row(x) {
        const z = pick(x), out = new Float64Array(n);
        taken.forEach((column, c) => {
          const t = z[c];
          for (let i = 0; i < n; i++) out[i] += (t - column[i]) * (t - column[i]);
        });
        return each(out, f);
      },
      at: () => f(0),
    }),
    circle: (f, { period }, taken, pick, n) => ({
      row(x) {
        const z = pick(x), out = new Float64Array(n);
        taken.forEach((column, c) => {
          for (let i = 0; i < n; i++) out[i] += 4 * Math.sin((Math.PI * (z[c] - column[i])) / period) ** 2;
        });
        return each(out, f);
      },
      at: () => f(0),
    }),
    inner: (f, params, taken, pick, n) => {
      const norms = new Float64Array(n);
      for (const column of taken) for (let i = 0; i < n; i++) norms[i] += column[i] * column[i];
      const own = (z) => z.reduce((total, v) => total + v * v, 0);
      return {
        row: (x) => {
          const z = pick(x), xx = own(z), out = new Float64Array(n);
          taken.forEach((column, c) => { for (let i = 0; i < n; i++) out[i] += z[c] * column[i]; });
          for (let i = 0; i < n; i++) out[i] = f(out[i], xx, norms[i]);
          return out;
        },
        at: (x) => { const xx = own(pick(x)); return f(xx, xx, xx); },
      };
    },
  };

  /* The Gram matrix of rows X, as a Float64Array of n * n numbers. */
  function gram(tree, X) {
    const n = X.length, bound = bind(tree, X), K = new Float64Array(n * n);
    X.forEach((x, i) => K.set(bound.row(x, i), i * n));
    const bad = K.findIndex((v) => !Number.isFinite(v));
    const pair = `${Math.floor(bad / n)} and ${bad % n}`;
    if (bad >= 0) throw new Refused(`k(x, y) is ${K[bad]} for points ${pair}; choose smaller parameters`);
    return K;
  }

  const names = Object.keys(LEAVES_KNOWN);
  Mercer.kernels = { KernelError, Refused, bind, gram, leaf, leaves, names, parameters, parse, replaced, write };
})((globalThis.Mercer = globalThis.Mercer || {}));
