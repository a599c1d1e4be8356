// The fastest plain copy: each invocation moves four vectors, neighbours move neighbouring ones.
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<u32>>;

const GROUP: u32 = 256u;
const ITEMS: u32 = 4u;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (group.x + group.y * groups.x) * (GROUP * ITEMS) + lane;
    let length = arrayLength(&source);
    for (var item = 0u; item < ITEMS; item++) {
        let at = first + item * GROUP;
        if at < length {
            target_[at] = source[at];
        }
    }
}
