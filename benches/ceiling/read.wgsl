// The fastest plain read: each invocation folds sixteen vectors, and stores where the fold has one value in four
// thousand million. So every load counts, and next to nothing is written.
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<u32>>;

const GROUP: u32 = 256u;
const ITEMS: u32 = 16u;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (group.x + group.y * groups.x) * (GROUP * ITEMS) + lane;
    let length = arrayLength(&source);
    var fold = vec4<u32>();
    for (var item = 0u; item < ITEMS; item++) {
        let at = first + item * GROUP;
        if at < length {
            fold ^= source[at];
        }
    }
    let word = fold.x ^ fold.y ^ fold.z ^ fold.w;
    if word == 0x9e3779b9u {
        target_[group.x & 1u] = fold;
    }
}
