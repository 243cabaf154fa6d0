/* The Python script that learns the same from the same points with mercer. The kernel is written from its tree, so that nothing
   but names of kernels and numbers can get into the script. */
"use strict";

(function (Mercer) {
  const { TABS, rowsOf, treeOf } = Mercer.machines;

  /* For each tab: what to import, the lines that fit and ask, and what is printed. */
  const DECISIONS = '{"values": model.decision_function(Q).tolist(), "labels": model.predict(Q).tolist()}';
  const MODELS = {
    svm: ({ C }) => [["SVC"], [`model = SVC(C=${C}, kernel=kernel, tol=1e-9).fit(X, y)`], DECISIONS],
    ridge: ({ alpha, mean }) => [["GaussianProcessRegressor", "KernelRidge"], [
      `ridge = KernelRidge(alpha=${alpha}, kernel=kernel, fit_intercept=${mean === "constant" ? "True" : "False"}).fit(X, y)`,
      `model = GaussianProcessRegressor(kernel, alpha=${alpha}, mean="${mean}", optimizer=None).fit(X, y)`,
      "mean, std = model.predict(Q, return_std=True)",
    ], '{"values": mean.tolist(), "std": std.tolist(), "ridge": ridge.predict(Q).tolist()}'],
    pca: () => [["KernelPCA"], ['model = KernelPCA(4, kernel=kernel, eigen_solver="dense").fit(X)'],
      '{"scores": model.transform(Q).tolist()}'],
    perceptron: ({ variant, passes }) => [["KernelPerceptron"], [
      `model = KernelPerceptron(kernel, variant="${variant}", max_iter=${passes}, shuffle=False).fit(X, y)`,
    ], DECISIONS],
    density: ({ window, bandwidth }) => [["KernelDensity"], [`model = KernelDensity(${bandwidth}, kernel="${window}").fit(X)`],
      '{"values": np.exp(model.score_samples(Q)).tolist()}'],
    smooth: ({ spread }) => [["NadarayaWatson"], [
      `model = NadarayaWatson(kernel, None, target_bandwidth=${spread}).fit(X, y)`,
      "mean, std = model.predict(Q, return_std=True)",
    ], '{"values": mean.tolist(), "std": std.tolist()}'],
  };

  /* The queries that a script asks, the same for every state of a kind. */
  function queries(state) {
    const at = [-2.5, -1.25, 0, 1.25, 2.5];
    if (TABS[state.tab].on === "plane") return at.flatMap((x) => at.map((y) => [x, y]));
    return Array.from({ length: 25 }, (_, i) => [-3 + i / 4]);
  }

  const ASKED = {
    plane: ["at = [-2.5, -1.25, 0.0, 1.25, 2.5]", "Q = np.array([[a, b] for a in at for b in at])"],
    line: ["Q = np.linspace(-3.0, 3.0, 25)[:, None]"],
  };

  function array(name, list, width) {
    const lines = [];
    for (let i = 0; i < list.length; i += width) lines.push(`    ${list.slice(i, i + width).join(", ")},`);
    return [`${name} = np.array([`, ...lines, "])"];
  }

  function python(state) {
    const { X, y } = rowsOf(state), tree = treeOf(state), [names, lines, shown] = MODELS[state.tab](state);
    const windowed = state.tab === "density", labelled = !windowed && state.tab !== "pca";
    const kernels = [...new Set(Mercer.kernels.leaves(tree).map((l) => l.name))].sort();
    return [
      "import json", "", "import numpy as np", "", `from mercer import ${names.join(", ")}`,
      ...(windowed ? [] : [`from mercer.kernels import ${kernels.join(", ")}`]), "",
      ...array("X", X.map((x) => `[${x.join(", ")}]`), 6), ...(labelled ? array("y", y, 12) : []),
      ...ASKED[TABS[state.tab].on], "",
      ...(windowed ? [] : [`kernel = ${Mercer.kernels.write(tree)}`]), ...lines, `print(json.dumps(${shown}))`, "",
    ].join("\n");
  }

  Object.assign(Mercer.api, { python, queries });
})((globalThis.Mercer = globalThis.Mercer || {}));
