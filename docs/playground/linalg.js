/* Dense symmetric matrices as Float64Array (n * n, row by row): Cholesky, eigenvalues, and the dual of a support vector
   machine. Everything here is small: a few hundred rows. */
"use strict";

(function (Mercer) {
  const EPS = 2 ** -52;

  function dot(a, b) {
    let total = 0;
    for (let i = 0; i < a.length; i++) total += a[i] * b[i];
    return total;
  }

  const row = (A, n, i) => A.subarray(i * n, (i + 1) * n);

  /* The lower factor L of A = L L^T, or null where a pivot is not positive. */
  function cholesky(A, n) {
    const L = Float64Array.from(A);
    for (let j = 0; j < n; j++) {
      const top = row(L, n, j).subarray(0, j);
      const pivot = L[j * n + j] - dot(top, top);
      if (!(pivot > 0)) return null;
      const root = (L[j * n + j] = Math.sqrt(pivot));
      for (let i = j + 1; i < n; i++) L[i * n + j] = (L[i * n + j] - dot(top, row(L, n, i))) / root;
    }
    return L;
  }

  /* x with L x = b. */
  function forward(L, n, b) {
    const x = Float64Array.from(b);
    for (let i = 0; i < n; i++) {
      let value = x[i];
      for (let j = 0; j < i; j++) value -= L[i * n + j] * x[j];
      x[i] = value / L[i * n + i];
    }
    return x;
  }

  /* x with L^T x = b. */
  function backward(L, n, b) {
    const x = Float64Array.from(b);
    for (let i = n - 1; i >= 0; i--) {
      x[i] /= L[i * n + i];
      for (let j = 0; j < i; j++) x[j] -= L[i * n + j] * x[i];
    }
    return x;
  }

  const solve = (L, n, b) => backward(L, n, forward(L, n, b));

  // ---------------------------------------------------------------------------------------------- eigenvalues
  /* Householder's reduction to a tridiagonal matrix: its diagonal, its off-diagonal, and the reflectors. */
  function tridiagonal(A, n) {
    const T = Float64Array.from(A);
    const d = new Float64Array(n), e = new Float64Array(n), reflectors = [];
    for (let k = 0; k < n; k++) {
      d[k] = T[k * n + k];
      if (k < n - 2) {
        const v = reflector(T, n, k);
        e[k] = v.length ? v.image : T[k * n + k + 1];
        if (v.length) reflect(T, n, k + 1, v.vector);
        reflectors.push(v.length ? v.vector : null);
      } else if (k === n - 2) {
        e[k] = T[k * n + k + 1];
      }
    }
    return { d, e, reflectors };
  }

  /* The unit vector v with (I - 2 v v^T) x = image * e_1, where x is what stands beside the diagonal in row k. */
  function reflector(T, n, k) {
    const vector = T.slice(k * n + k + 1, (k + 1) * n);
    const length = Math.sqrt(dot(vector, vector));
    const rest = vector.subarray(1);
    if (dot(rest, rest) === 0) return { length: 0 };
    const image = vector[0] > 0 ? -length : length;
    vector[0] -= image;
    const norm = Math.sqrt(dot(vector, vector));
    for (let i = 0; i < vector.length; i++) vector[i] /= norm;
    return { length, image, vector };
  }

  /* T <- H T H for the block of T that begins at `start`. */
  function reflect(T, n, start, v) {
    const m = v.length, p = new Float64Array(m);
    for (let i = 0; i < m; i++) p[i] = 2 * dot(v, T.subarray((start + i) * n + start, (start + i + 1) * n));
    const half = dot(p, v);
    for (let i = 0; i < m; i++) p[i] -= half * v[i];
    for (let i = 0; i < m; i++) {
      const at = (start + i) * n + start;
      for (let j = 0; j < m; j++) T[at + j] -= v[i] * p[j] + p[i] * v[j];
    }
  }

  /* Rows of Q^T, Q the product of the reflectors. */
  function accumulated(reflectors, n) {
    const Q = new Float64Array(n * n);
    for (let i = 0; i < n; i++) Q[i * n + i] = 1;
    for (let k = reflectors.length - 1; k >= 0; k--) {
      const v = reflectors[k];
      if (!v) continue;
      for (let i = k + 1; i < n; i++) {
        const part = Q.subarray(i * n + k + 1, (i + 1) * n);
        const along = 2 * dot(v, part);
        for (let j = 0; j < v.length; j++) part[j] -= along * v[j];
      }
    }
    return Q;
  }

  /* One implicit QR step with Wilkinson's shift on the block lo ... hi; the rows of V turn with it. */
  function step(d, e, lo, hi, V, n) {
    const half = (d[hi - 1] - d[hi]) / 2, last = e[hi - 1];
    const shift = d[hi] - (last * last) / (half + (half < 0 ? -1 : 1) * Math.hypot(half, last));
    let x = d[lo] - shift, z = e[lo];
    for (let k = lo; k < hi; k++) {
      const r = Math.hypot(x, z), c = r ? x / r : 1, s = r ? z / r : 0;
      if (k > lo) e[k - 1] = r;
      const a = d[k], b = d[k + 1], f = e[k];
      d[k] = c * c * a + 2 * c * s * f + s * s * b;
      d[k + 1] = s * s * a - 2 * c * s * f + c * c * b;
      e[k] = c * s * (b - a) + (c * c - s * s) * f;
      if (k < hi - 1) {
        x = e[k];
        z = s * e[k + 1];
        e[k + 1] *= c;
      }
      if (V) rotate(row(V, n, k), row(V, n, k + 1), c, s);
    }
  }

  function rotate(a, b, c, s) {
    for (let i = 0; i < a.length; i++) {
      const x = a[i], y = b[i];
      a[i] = c * x + s * y;
      b[i] = c * y - s * x;
    }
  }

  /* Eigenvalues, largest first, and if asked for the eigenvectors as rows of `vectors`. */
  function eigen(A, n, wanted) {
    const { d, e, reflectors } = tridiagonal(A, n);
    const V = wanted ? accumulated(reflectors, n) : null;
    let norm = 0;
    for (let i = 0; i < n; i++) norm = Math.max(norm, Math.abs(d[i]) + Math.abs(e[i]));
    let hi = n - 1, left = 60 * n;
    while (hi > 0 && left-- > 0) {
      if (Math.abs(e[hi - 1]) <= EPS * norm) { e[--hi] = 0; continue; }
      let lo = hi - 1;
      while (lo > 0 && Math.abs(e[lo - 1]) > EPS * norm) lo--;
      step(d, e, lo, hi, V, n);
    }
    const order = Array.from(d.keys()).sort((i, j) => d[j] - d[i]);
    return { values: order.map((i) => d[i]), vectors: V && order.map((i) => row(V, n, i)) };
  }

  // ---------------------------------------------------------------------------------------------- support vectors
  /* min 1/2 b^T K b - y^T b  with  sum b = 0  and  b_i between 0 and C y_i: sequential minimal optimisation, the pair of
     largest gain at each step, and now and then Newton's step of all free variables, without which kernels of few features take
     very long where C is large. Ends when slopes are less than tol apart, or after `most` steps. */
  function smo(K, n, y, C, tol, most) {
    const b = new Float64Array(n), g = Float64Array.from(y, (v) => -v);
    const low = y.map((v) => (v > 0 ? 0 : -C)), high = y.map((v) => (v > 0 ? C : 0));
    let steps = 0;
    for (; steps < most; steps++) {
      const pair = worst(K, n, b, g, low, high, tol);
      if (!pair) break;
      move(K, n, b, g, low, high, pair);
      if (steps % (4 * n) === 4 * n - 1) for (let left = n; left > 0 && newton(K, n, b, g, low, high); left--);
    }
    for (let i = 0; i < n; i++) g[i] = dot(row(K, n, i), b) - y[i]; // without the rounding of the steps
    return { b, steps, ...threshold(b, g, low, high) };
  }

  function worst(K, n, b, g, low, high, tol) {
    let i = -1, top = -Infinity;
    for (let t = 0; t < n; t++) {
      if (b[t] < high[t] && (i < 0 || g[t] < g[i])) i = t;
      if (b[t] > low[t] && g[t] > top) top = g[t];
    }
    if (i < 0 || top - g[i] < tol) return null;
    let j = -1, best = 0, curvature = 0;
    for (let t = 0; t < n; t++) {
      const lead = g[t] - g[i];
      if (b[t] <= low[t] || lead <= 0) continue;
      const bend = Math.max(K[i * n + i] + K[t * n + t] - 2 * K[i * n + t], 1e-12);
      if (lead * lead > best * bend) { j = t; best = (lead * lead) / bend; curvature = bend; }
    }
    return { i, j, curvature };
  }

  function move(K, n, b, g, low, high, { i, j, curvature }) {
    const wanted = (g[j] - g[i]) / curvature, up = high[i] - b[i], down = b[j] - low[j];
    const by = Math.min(wanted, up, down);
    b[i] = by === up ? high[i] : b[i] + by; // a border is met exactly
    b[j] = by === down ? low[j] : b[j] - by;
    for (let t = 0; t < n; t++) g[t] += by * (K[i * n + t] - K[j * n + t]);
  }

  /* The best place of the free variables while the others stay, or as far towards it as the borders allow; true if a border was
     met, so that there is one free variable less. */
  function newton(K, n, b, g, low, high) {
    const free = [...b.keys()].filter((i) => b[i] > low[i] && b[i] < high[i]), m = free.length;
    const A = new Float64Array(m * m);
    free.forEach((i, p) => free.forEach((j, q) => { A[p * m + q] = K[i * n + j]; }));
    const ridge = 1e-12 * free.reduce((total, i) => total + K[i * n + i], 1e-30);
    for (let p = 0; p < m; p++) A[p * m + p] += ridge; // a direction without curvature is followed to the border
    const L = m > 1 ? cholesky(A, m) : null;
    if (!L) return false;
    const u = solve(L, m, free.map((i) => g[i])), w = solve(L, m, new Array(m).fill(1));
    const level = u.reduce((a, v) => a + v, 0) / w.reduce((a, v) => a + v, 0);
    return walk(K, n, b, g, low, high, free, u.map((v, p) => level * w[p] - v));
  }

  function walk(K, n, b, g, low, high, free, way) {
    let length = 1, stop = -1;
    free.forEach((i, p) => {
      const room = (way[p] > 0 ? high[i] - b[i] : low[i] - b[i]) / way[p];
      if (way[p] !== 0 && room < length) { length = room; stop = i; }
    });
    free.forEach((i, p) => {
      const by = length * way[p];
      b[i] = i === stop ? (way[p] > 0 ? high[i] : low[i]) : Math.min(Math.max(b[i] + by, low[i]), high[i]);
      for (let t = 0; t < n; t++) g[t] += by * K[i * n + t];
    });
    return stop >= 0;
  }

  /* Where the slopes of free variables meet; between the borders if none is free. */
  function threshold(b, g, low, high) {
    let near = 0, top = -Infinity, bottom = Infinity, sum = 0, free = 0;
    for (const v of b) near = Math.max(near, 1e-10 * Math.abs(v));
    for (let t = 0; t < b.length; t++) {
      const rises = b[t] < high[t] - near, falls = b[t] > low[t] + near;
      if (falls) top = Math.max(top, g[t]);
      if (rises) bottom = Math.min(bottom, g[t]);
      if (rises && falls) { sum += g[t]; free++; }
    }
    const ends = [top, bottom].filter(Number.isFinite);
    const middle = ends.reduce((a, v) => a + v, 0) / Math.max(ends.length, 1);
    return { intercept: -(free ? sum / free : middle), violation: Math.max(top - bottom, 0) };
  }

  Mercer.linalg = { EPS, backward, cholesky, dot, eigen, forward, row, smo, solve };
})((globalThis.Mercer = globalThis.Mercer || {}));
