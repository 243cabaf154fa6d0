"""Compile generated kernels for sm_90 without a GPU: what the interpreter cannot see (types in loops, layouts, registers)."""
import os, sys, time, subprocess, tempfile, re
sys.path.insert(0, 'tests')
import numpy as np, torch, triton
import triton.compiler as tc
from triton.backends.compiler import GPUTarget
import mercer.engines._triton_run as tr
from mercer.engines._tensor_tiles import Place
from mercer.gram import gram
from mercer import kernels as mk
from cases import kernel_cases
PTX = os.path.join(os.path.dirname(triton.__file__), 'backends/nvidia/bin/ptxas-blackwell'), os.path.join(os.path.dirname(triton.__file__), 'backends/nvidia/bin/ptxas')
ptxas = [p for p in PTX if os.path.exists(p)][0]
def attempt(job, tiles):
    fn = tr._function(job.code.text)
    names = fn.arg_names
    real = '*fp64' if job.place.dtype == np.float64 else '*fp32'
    total = '*fp32' if job.place.fast else '*fp64'
    kinds = {'one': [total], 'many': [total], 'block': [real], 'max': [real]*2, 'argmin': [real, real, '*i64'], 'logsumexp': [real, real, '*fp64']}[job.mode]
    sig = {}
    for name in names:
        if name in ('O','O1','O2'):
            i = ('O','O1','O2').index(name); sig[name] = kinds[i] if i < len(kinds) else kinds[0]
        elif name == 'T': sig[name] = '*fp64'
        elif name in ('RI','QI'): sig[name] = '*i64'
        elif name in ('n','m','p','per'): sig[name] = 'i32'
        elif name in ('BM','BN','BK','BP','PREC'): sig[name] = 'constexpr'
        elif name[0] in 'EF' and job.layout.statistics[int(name[1:])].function == 'equal': sig[name] = '*fp64'
        else: sig[name] = real
    const = {'BM': tiles.BM, 'BN': tiles.BN, 'BK': tiles.BK, 'BP': 16, 'PREC': job._precision()}
    attrs = {(i,): [['tt.divisibility', 16]] for i, name in enumerate(names) if sig[name].startswith('*')}
    src = tc.ASTSource(fn, sig, {k: v for k, v in const.items()}, attrs)
    found = triton.compile(src, target=GPUTarget('cuda', 90, 32), options={'enable_fp_fusion': True, 'num_warps': tiles.warps, 'num_stages': tiles.stages})
    with tempfile.NamedTemporaryFile('w', suffix='.ptx', delete=False) as f: f.write(found.asm['ptx'])
    said = subprocess.run([ptxas, '-v', '-arch=sm_90a', f.name, '-o', '/dev/null'], capture_output=True, text=True).stderr
    os.unlink(f.name)
    if 'Used' not in said: print(said[:500])
    regs = re.search(r'Used (\d+) registers', said); spill = re.search(r'(\d+) bytes spill stores', said)
    return (int(regs[1]) if regs else -1, int(spill[1]) if spill else -1, found.metadata.shared)
def job_for(K, mode, precision='accurate'):
    dtype = {'fast': np.float32, 'float64': np.float64}.get(precision, K.x.dtype)
    place = Place(torch.device('cpu'), np.dtype(dtype), precision == 'fast', True)
    V = torch.zeros((K.shape[1], 3 if mode == 'many' else 1))
    return tr._Job(place, mode, K.x.lowered.expression, K.x, K.y, V)
def tiles_for(job):
    return tr._DOUBLE if job.place.dtype == np.float64 else tr._MANY if job.mode == 'many' else tr._SINGLE
if __name__ == '__main__':
    what = sys.argv[1]
    if what == 'shapes':
        for d in (10, 28, 90, 784):
            X = np.random.default_rng(0).standard_normal((300, d)).astype('float32') 
            for k in (mk.RBF(float(np.sqrt(d))), 2*mk.RBF(float(np.sqrt(d))) + mk.Matern(1.5, float(np.sqrt(d)))*mk.Linear()):
                K = gram(k, X, X[:50] + 0, engine='torch')
                for mode in ('one', 'many'):
                    for prec in ('accurate', 'fast') + (('float64',) if d < 90 else ()):
                        job = job_for(K, mode, prec)
                        for t in tiles_for(job):
                            try: s = time.time(); r = attempt(job, t); print(d, repr(k)[:20], mode, prec, t, 'regs %d spills %d shared %d' % r, '%.1fs' % (time.time()-s), flush=True)
                            except Exception as e: print(d, repr(k)[:20], mode, prec, t, type(e).__name__, str(e)[:200], flush=True)
    else:
        n = bad = 0
        for case in kernel_cases(composites=int(sys.argv[2])):
            if not case.vectors: continue
            for dt in ('float32', 'float64'):
                K = case.gram('torch', dt, cross=False)
                if tr.compiled([K.x.lowered.expression], K.x)[1].host: continue
                for mode in sys.argv[3:]:
                    job = job_for(K, mode)
                    t = tiles_for(job)[-2]
                    try: n += 1; r = attempt(job, t)
                    except Exception as e:
                        bad += 1; print(case, dt, mode, type(e).__name__, str(e)[:400], flush=True)
        print('compiled', n, 'bad', bad)
