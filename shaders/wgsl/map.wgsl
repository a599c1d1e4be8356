// Every element of the output from the elements at its place.
//
//   group 0             group 1
//   row 0  row 1 … row 3            a row is 256 quads, one per invocation: neighbours load and store together
//
// Holes: load_quad evaluates the expression at four neighbouring elements, store_quad writes four results.
// The last quad may reach past the end; loads stay inside, and the output has room for whole quads.

const ROWS_PER_GROUP: u32 = 4u;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = id.x + id.y * count.x;
    if (group >= P.groups) {
        return;
    }
    for (var row = 0u; row < ROWS_PER_GROUP; row++) {
        let i = ((group * ROWS_PER_GROUP + row) * GROUP_SIZE + lane) * 4u;
        if (i < P.length) {
            store_quad(0u, i, load_quad(0u, i));
        }
    }
}
