//! Every kernel of a wide catalogue is valid WGSL and lowers to MSL and SPIR-V; equal specifications give equal bytes.

use std::collections::BTreeMap;

use kiln_array::kernel::KernelSpec;
use kiln_array::recorder::{Recorder, kernels};
use kiln_array::reduce::Reduce;
use kiln_array::scan::Scan;
use kiln_array::{Array, ArrayOps, Element, keep, s};
use kiln_shaders::{Target, lower, render};

/// Runs everything once for one element type, through every access pattern.
fn everything<T: Element>(x: &Array<T>) {
    let views = [
        x.clone(),
        x.slice(s![1.., .., ..]).unwrap(),
        x.slice(s![.., 1..;2, ..;-1]).unwrap(),
        x.transpose(),
        x.permute([1, 0, 2]).unwrap(),
        x.slice(s![0, 0, 0]).unwrap(),
        x.slice(s![0, 0..1, ..]).unwrap().broadcast_to([60, 70, 80]).unwrap(),
    ];
    for view in &views {
        view.copy().unwrap();
        view.cast::<f32>().eval().unwrap();
        view.cast::<i32>().eval().unwrap();
        view.cast::<u32>().eval().unwrap();
        view.cast::<bool>().eval().unwrap();
        for comparison in [view.lt(x), view.le(x), view.gt(x), view.ge(x), view.eq(x), view.ne(x)] {
            let _ = comparison.eval();
        }
        for axis in -i32::try_from(view.ndim()).unwrap()..0 {
            view.sum(axis).unwrap();
            view.max(keep(axis)).unwrap();
            view.mean(axis).unwrap();
            view.cumsum(axis as isize).unwrap();
            view.cummin(axis as isize).unwrap();
        }
        view.prod(..).unwrap();
        view.min(..).unwrap();
        view.reduce(.., |a, b| a.minimum(b)).unwrap();
    }
}

#[test]
fn the_catalogue_lowers() {
    let recorder = Recorder::new(Recorder::gpu_caps());
    let device = recorder.device();
    let shape = [60, 70, 80];
    let size = shape.iter().product();
    let f = device.array(&vec![1.5f32; size], shape).unwrap();
    let i = device.array(&vec![1i32; size], shape).unwrap();
    let u = device.array(&vec![1u32; size], shape).unwrap();
    let b = device.array(&vec![true; size], shape).unwrap();
    everything(&f);
    everything(&i);
    everything(&u);
    everything(&b);
    let e = ((&f + 1.0) * &f - &f / 2.0) % 3.0;
    e.abs().sqrt().exp().ln().sin().cos().tanh().eval().unwrap();
    (-&f).is_nan().select(&f, 0.0).eval().unwrap();
    ((&i + 1) * &i - &i / 3).abs().eval().unwrap();
    ((&i % 5) & 3 | !&i ^ -&i).eval().unwrap();
    ((&u + 1) * &u - &u / 3).eval().unwrap();
    ((&u % 5) & 3 | !&u ^ 7).eval().unwrap();
    ((&b & true) | !&b ^ &b).eval().unwrap();
    b.minimum(&b).maximum(false).eval().unwrap();
    i.minimum(&i).maximum(3).eval().unwrap();
    u.minimum(&u).maximum(3).eval().unwrap();
    f.minimum(&f).maximum(3.0).eval().unwrap();
    b.any(..).unwrap();
    b.all(1).unwrap();
    f.reduce_from(2.0, 1, |a, b| a * b + 1.0).unwrap();
    f.scan(2, |a, b| a * b + 1.0).unwrap();

    let mut seen = BTreeMap::new();
    let recordings = recorder.take();
    for spec in kernels(&recordings) {
        seen.entry(spec.key()).or_insert(spec);
    }
    assert!(seen.len() > 150, "{}", seen.len());
    for (key, spec) in &seen {
        let text = render(spec, Target::default()).unwrap();
        assert_eq!(text, render(&KernelSpec::clone(spec), Target::default()).unwrap(), "{key} {spec}");
        let lowered = lower(spec, &text).unwrap_or_else(|error| panic!("{spec}\n{error}\n{text}"));
        assert!(lowered.msl.contains("kernel void") && lowered.spirv[0] == 0x0723_0203, "{spec}");
    }
    println!("{} kernels lowered", seen.len());
}
