/* What is learned from the points, with the conventions of mercer's estimators. A machine is made by fit(rows, state) and has
   answer(x), which gives {value} and what else it knows of x: std, label, scores; `words` say what happened. */
"use strict";

(function (Mercer) {
  const { EPS, cholesky, dot, eigen, forward, row, smo, solve } = Mercer.linalg;
  const { Refused, bind, gram, leaf } = Mercer.kernels;
  const TOL = 1e-9, MOST_STEPS = 400000, COMPONENTS = 4;

  const count = (n, what, many = `${what}s`) => `${n} ${n === 1 ? what : many}`;

  /* A number in three digits, or as a power of ten. */
  function short(v) {
    const plain = v === 0 || (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e4);
    return plain ? String(Number(v.toPrecision(3))) : v.toExponential(1);
  }

  /* Rows of the tab in use: points of the plane, or places on the line with their targets. */
  function rowsOf(state) {
    const flat = TABS[state.tab].on === "plane";
    const points = flat ? state.plane : state.line;
    return { X: points.map((p) => (flat ? [p[0], p[1]] : [p[0]])), y: points.map((p) => (flat ? p[2] : p[1])) };
  }

  function need(n, least, what) {
    if (n < least) throw new Refused(`${what} needs ${count(least, "point")} at least; click in the picture, or choose a preset`);
  }

  function classesOf(y, what) {
    const classes = [...new Set(y)].sort((a, b) => a - b);
    if (classes.length < 2) throw new Refused(`${what} needs points of two classes; choose the other class and click`);
    return { classes, codes: y.map((c) => classes.indexOf(c)) };
  }

  const best = (scores) => scores.indexOf(Math.max(...scores)); // the first of equals

  // ---------------------------------------------------------------------------------------------- support vectors
  const svm = {
    fit({ X, y }, { tree, C }) {
      const { classes, codes } = classesOf(y, "A support vector machine");
      const K = gram(tree, X), bound = bind(tree, X), pairs = [];
      for (let a = 0; a < classes.length; a++) {
        for (let b = a + 1; b < classes.length; b++) pairs.push(pairMachine(K, codes, a, b, C, classes.length === 2));
      }
      const support = new Set(pairs.flatMap((p) => p.support));
      const apart = Math.max(...pairs.map((p) => p.violation));
      return {
        classes, support, margins: classes.length === 2,
        words: [`${count(support.size, "support vector")} of ${count(X.length, "point")}.`,
          ...(apart > 1e-6 ? [`The solver stopped early, with slopes ${short(apart)} apart: lower C or scale the kernel.`] : [])],
        answer(x) {
          const k = bound.row(x);
          return voted(pairs.map((p) => p.value(k)), pairs, classes);
        },
      };
    },
  };

  /* The machine of two classes; positive is the first, or the second where there are only two, as in mercer. */
  function pairMachine(K, codes, a, b, C, flipped) {
    const inside = [...codes.keys()].filter((i) => codes[i] === a || codes[i] === b), m = inside.length;
    const own = new Float64Array(m * m);
    inside.forEach((i, p) => inside.forEach((j, q) => { own[p * m + q] = K[i * codes.length + j]; }));
    const sign = flipped ? -1 : 1;
    const found = smo(own, m, inside.map((i) => (codes[i] === a ? sign : -sign)), C, TOL, MOST_STEPS);
    const weights = new Float64Array(codes.length);
    inside.forEach((i, p) => { weights[i] = found.b[p]; });
    const support = inside.filter((i) => weights[i] !== 0);
    return { a, b, violation: found.violation, support, value: (k) => dot(k, weights) + found.intercept };
  }

  function voted(values, pairs, classes) {
    if (classes.length === 2) return { value: values[0], label: classes[values[0] > 0 ? 1 : 0] };
    const votes = new Array(classes.length).fill(0), wins = [...votes], sums = [...votes];
    pairs.forEach(({ a, b }, p) => {
      votes[values[p] < 0 ? b : a]++; // decisions count a tie for the first class, labels for the second
      wins[values[p] > 0 ? a : b]++;
      sums[a] += values[p];
      sums[b] -= values[p];
    });
    return { scores: votes.map((v, c) => v + sums[c] / (3 * (Math.abs(sums[c]) + 1))), label: classes[best(wins)] };
  }

  // ---------------------------------------------------------------------------------------------- ridge, Gaussian process
  const ridge = {
    fit({ X, y }, { tree, alpha, mean }) {
      need(X.length, 1, "A Gaussian process");
      const n = X.length, bound = bind(tree, X), A = gram(tree, X);
      for (let i = 0; i < n; i++) A[i * n + i] += alpha;
      const L = cholesky(A, n);
      if (!L) throw new Refused("K + alpha I is not positive definite: raise alpha, or choose a kernel that is");
      const u = mean === "constant" ? solve(L, n, new Array(n).fill(1)) : null;
      const weight = u ? u.reduce((a, v) => a + v, 0) : 0;
      const beta = u ? dot(u, y) / weight : 0;
      const a = solve(L, n, y.map((t) => t - beta));
      return {
        words: wordsOfProcess(L, n, a, y, u),
        answer(x) {
          const k = bound.row(x), half = forward(L, n, k), gap = u ? 1 - dot(u, k) : 0;
          const variance = bound.at(x, false) - dot(half, half) + (u ? (gap * gap) / weight : 0);
          return { value: dot(k, a) + beta, std: Math.sqrt(Math.max(variance, 0)) };
        },
      };
    },
  };

  function wordsOfProcess(L, n, a, y, u) {
    if (u) return ["Ridge regression with an intercept and the mean of a Gaussian process with an unknown constant agree."];
    let logs = 0;
    for (let i = 0; i < n; i++) logs += Math.log(L[i * n + i]);
    const evidence = -0.5 * dot(a, y) - logs - 0.5 * n * Math.log(2 * Math.PI);
    return [`Ridge regression and the mean of a Gaussian process agree; the log evidence is ${evidence.toFixed(2)}.`];
  }

  // ---------------------------------------------------------------------------------------------- components
  const pca = {
    fit({ X }, { tree, component }) {
      need(X.length, 2, "Kernel PCA");
      const n = X.length, K = gram(tree, X), bound = bind(tree, X), { centred, means } = centre(K, n);
      const { values, vectors } = eigen(centred, n, true);
      const floor = Math.max(values[0], 0) * n * EPS, rank = values.filter((v) => v > floor).length;
      if (!rank) throw new Refused("all points are the same to this kernel: there is no component");
      const directions = vectors.slice(0, Math.min(rank, n - 1, COMPONENTS)).map((v, j) => direction(v, values[j], means));
      const total = values.reduce((a, v) => a + v, 0), shown = Math.min(component, directions.length);
      return {
        words: [`Component ${shown} has ${((100 * values[shown - 1]) / total).toFixed(1)} % of the variance in feature space.`,
          ...(shown < component ? [`There are only ${count(shown, "component")}.`] : [])],
        answer(x) {
          const k = bound.row(x), scores = directions.map((d) => dot(k, d.weights) + d.intercept);
          return { value: scores[shown - 1], scores };
        },
      };
    },
  };

  function centre(K, n) {
    const means = new Float64Array(n), centred = Float64Array.from(K);
    for (let i = 0; i < n; i++) means[i] = row(K, n, i).reduce((a, v) => a + v, 0) / n;
    const mean = means.reduce((a, v) => a + v, 0) / n;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) centred[i * n + j] += mean - means[i] - means[j];
    return { centred, means };
  }

  /* An eigenvector as an expansion of length 1, its largest entry positive. */
  function direction(v, value, means) {
    const peak = v.reduce((p, t) => (Math.abs(t) > Math.abs(p) ? t : p), 0), scale = Math.sign(peak) / Math.sqrt(value);
    const middle = v.reduce((a, t) => a + t, 0) / v.length;
    const weights = Float64Array.from(v, (t) => (t - middle) * scale);
    return { weights, intercept: -dot(means, weights) };
  }

  // ---------------------------------------------------------------------------------------------- perceptron
  const perceptron = {
    fit({ X, y }, { tree, variant, passes }) {
      const { classes, codes } = classesOf(y, "A perceptron");
      const n = X.length, K = gram(tree, X), bound = bind(tree, X), width = classes.length === 2 ? 1 : classes.length;
      const columns = () => Array.from({ length: width }, () => new Float64Array(n));
      const c = columns(), sums = columns(), scores = columns();
      let steps = 0, wrong = 0, made = 0, pass = 0;
      for (; pass < passes && (pass === 0 || made); pass++) {
        made = 0;
        for (let i = 0; i < n; i++, steps++) {
          const rival = rivalOf(scores, i, codes[i]);
          if (rival < 0) continue;
          made++;
          for (const [column, sign] of updates(width, codes[i], rival)) {
            c[column][i] += sign;
            sums[column][i] += sign * steps;
            for (let j = 0; j < n; j++) scores[column][j] += sign * (K[i * n + j] + 1); // the bias is the kernel k + 1
          }
        }
        wrong += made;
      }
      if (variant === "averaged") c.forEach((column, r) => column.forEach((v, i) => { column[i] = v - sums[r][i] / steps; }));
      const biases = c.map((column) => column.reduce((a, v) => a + v, 0));
      const stored = [...Array(n).keys()].filter((i) => sums.some((s) => s[i]) || c.some((column) => column[i]));
      return {
        classes, support: new Set(stored),
        words: [`${count(wrong, "mistake")} in ${count(pass, "pass", "passes")}, ${made || "none"} of them in the last.`],
        answer(x) {
          const k = bound.row(x), values = c.map((column, r) => dot(column, k) + biases[r]);
          if (width === 1) return { value: values[0], label: classes[values[0] > 0 ? 1 : 0] };
          return { scores: values, label: classes[best(values)] };
        },
      };
    },
  };

  /* The class that wins against, or ties with, the right one; -1 if the answer is right. */
  function rivalOf(scores, i, label) {
    if (scores.length === 1) return (label === 1 ? scores[0][i] > 0 : scores[0][i] < 0) ? -1 : 1 - label;
    let rival = -1;
    scores.forEach((s, r) => { if (r !== label && (rival < 0 || s[i] > scores[rival][i])) rival = r; });
    return scores[label][i] > scores[rival][i] ? -1 : rival;
  }

  const updates = (width, label, rival) => (width === 1 ? [[0, label === 1 ? 1 : -1]] : [[label, 1], [rival, -1]]);

  // ---------------------------------------------------------------------------------------------- density
  /* The kernel of each window, and the integral over the plane of the window of bandwidth 1. */
  const WINDOWS = {
    gaussian: ["RBF", 2 * Math.PI], exponential: ["Laplacian", 2 * Math.PI], epanechnikov: ["Epanechnikov", Math.PI / 2],
    biweight: ["Biweight", Math.PI / 3], tricube: ["Tricube", (2 * Math.PI * 162) / 880], triangular: ["Triangular", Math.PI / 3],
    boxcar: ["Window", Math.PI], cosine: ["CosineWindow", 4 - 8 / Math.PI],
  };

  const density = {
    fit({ X }, { tree, window, bandwidth }) {
      need(X.length, 1, "A density");
      const bound = bind(tree, X), mass = X.length * WINDOWS[window][1] * bandwidth * bandwidth;
      return {
        words: [`The mean of ${count(X.length, "window")}; the integral over the plane is 1.`],
        answer: (x) => ({ value: bound.row(x).reduce((a, v) => a + v, 0) / mass }),
      };
    },
  };

  // ---------------------------------------------------------------------------------------------- Nadaraya-Watson
  const smooth = {
    fit({ X, y }, { tree, spread }) {
      need(X.length, 1, "A smoother");
      const least = gram(tree, X).reduce((a, v) => Math.min(a, v), Infinity);
      const advice = "use RBF() or another of a distance";
      if (least < 0) throw new Refused(`weights must be >= 0, and this kernel has values down to ${short(least)}: ${advice}`);
      const weights = weightsOf(tree, X), centre = y.reduce((a, v) => a + v, 0) / y.length, U = y.map((t) => t - centre);
      return {
        words: ["The mean of the targets, weighted by the kernel, and the spread of their conditional density."],
        answer(x) {
          const w = weights(x), total = w.reduce((a, v) => a + v, 0);
          const mean = dot(w, U) / total, square = w.reduce((a, v, i) => a + v * U[i] * U[i], 0) / total;
          return { value: mean + centre, std: Math.sqrt(Math.max(square - mean * mean, 0) + spread * spread) };
        },
      };
    },
  };

  /* Weights up to a factor. Those of one Gaussian or Laplacian are relative to the largest, so that none underflows. */
  function weightsOf(tree, X) {
    const l = tree.type === "leaf" && tree.params.lengthscale;
    const power = { RBF: (s) => -0.5 * s, Laplacian: (s) => -Math.sqrt(s) }[tree.name];
    if (tree.type === "leaf" && power) {
      return (x) => {
        const logs = X.map((z) => power(((x[0] - z[0]) / l) ** 2)), top = Math.max(...logs);
        return Float64Array.from(logs, (v) => Math.exp(v - top));
      };
    }
    const bound = bind(tree, X);
    return (x) => {
      const k = bound.row(x);
      return k.some((v) => v !== 0) ? k : k.fill(1); // where all values are 0, all rows answer alike
    };
  }

  // ---------------------------------------------------------------------------------------------- tabs
  const TABS = {
    svm: { name: "SVM", on: "plane", machine: svm, settings: ["C"],
      hint: "Rings: support vectors. Line: the border. Dashed: the margin." },
    ridge: { name: "Ridge / GP", on: "line", machine: ridge, settings: ["alpha", "mean"],
      hint: "Line: the mean. Band: two posterior standard deviations." },
    pca: { name: "Kernel PCA", on: "plane", machine: pca, settings: ["component"],
      hint: "Colour: the component; line: where it is 0. Classes are not used." },
    perceptron: { name: "Perceptron", on: "plane", machine: perceptron, settings: ["variant", "passes"],
      hint: "Rings: points that erred. Points are visited in the order in which they came." },
    density: { name: "Density", on: "plane", machine: density, settings: ["window", "bandwidth"],
      hint: "Colour: the density. Classes are not used." },
    smooth: { name: "Nadaraya-Watson", on: "line", machine: smooth, settings: ["spread"],
      hint: "Line: the weighted mean. Band: two standard deviations." },
  };

  /* The kernel in use: a density has a window of its own. */
  function treeOf(state) {
    if (state.tab === "density") return leaf(WINDOWS[state.window][0], { lengthscale: state.bandwidth });
    return Mercer.kernels.parse(state.kernel);
  }

  function fit(state) {
    return TABS[state.tab].machine.fit(rowsOf(state), { ...state, tree: treeOf(state) });
  }

  /* Numbers by place, for all queries: values, and std, scores or labels where the machine has them. */
  function predict(state, queries) {
    const machine = fit(state), answers = queries.map((x) => machine.answer(x)), out = {};
    const names = { value: "values", std: "std", scores: "scores", label: "labels" };
    for (const [key, name] of Object.entries(names)) {
      if (answers.length && answers[0][key] !== undefined) out[name] = answers.map((a) => a[key]);
    }
    return out;
  }

  function gramOf(state) {
    const { X } = rowsOf(state), K = gram(treeOf(state), X);
    return X.map((_, i) => Array.from(row(K, X.length, i)));
  }

  function spectrum(state) {
    const { X } = rowsOf(state);
    return eigen(gram(treeOf(state), X), X.length, false).values;
  }

  /* What a spectrum says of the kernel on these points. */
  function verdict(values) {
    if (!values.length) return { psd: true, rounding: 0, text: "No points, no spectrum." };
    const least = values[values.length - 1], largest = Math.max(Math.abs(values[0]), Math.abs(least));
    const rounding = 10 * values.length * EPS * largest, psd = least >= -rounding;
    const rank = values.filter((v) => v > rounding).length;
    const yes = `Positive semi-definite on these ${count(values.length, "point")}: `, smallest = "smallest eigenvalue";
    const said = rank < values.length ? `rank ${rank} to rounding` : `${smallest} ${short(least)}`;
    const no = `Not positive semi-definite on these points: the ${smallest} is ${short(least)}.`;
    return { psd, rounding, text: psd ? `${yes}${said}.` : no };
  }

  Mercer.machines = { TABS, WINDOWS: Object.keys(WINDOWS), fit, rowsOf, short, treeOf, verdict };
  Mercer.api = { gram: gramOf, predict, spectrum };
})((globalThis.Mercer = globalThis.Mercer || {}));
