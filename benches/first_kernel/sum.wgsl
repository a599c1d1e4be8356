// Each workgroup adds its share of the elements and leaves one total.
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> totals: array<f32>;

var<workgroup> parts: array<f32, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    var total = 0.0;
    for (var at = group.x * 256u + lane; at < arrayLength(&source); at += groups.x * 256u) {
        total += source[at];
    }
    parts[lane] = total;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            parts[lane] += parts[lane + half];
        }
    }
    if lane == 0u {
        totals[group.x] = parts[0];
    }
}
