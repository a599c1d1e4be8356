// The total of each tile of each line.
//
//   line 0   tile 0 | tile 1 | tile 2 |      a workgroup takes one tile of 2^log_lines neighbouring lines:
//   line 1   tile 0 | tile 1 | tile 2 |      2^log_leaves leaves of four elements each
//
// 1. Every invocation loads leaves and puts each one's total into workgroup memory.
// 2. The tile's blocks are joined (tile.wgsl).
// 3. Each line's total is stored: as a result, or as an element of the next pass.
// Holes: load_quad (elements, or totals of an earlier pass), combine, store_total.

// The total of a leaf: four elements left to right, or, of totals, a balanced tree.
fn leaf_total(line: u32, leaf: u32) -> Acc {
    let i = leaf * 4u;
    let quad = load_quad(line, i);
    let count = P.length - i;
    if (count >= 4u) {
        let left = combine(quad.a, quad.b);
        if (LEAVES_ARE_BALANCED) {
            return combine(left, combine(quad.c, quad.d));
        }
        return combine(combine(left, quad.c), quad.d);
    }
    var total = quad.a;
    if (count > 1u) {
        total = combine(total, quad.b);
    }
    if (count > 2u) {
        total = combine(total, quad.c);
    }
    return total;
}

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
    let tile = group % P.tiles;
    let first_line = (group / P.tiles) << P.log_lines;
    let first_leaf = tile << P.log_leaves;
    let leaves = min((P.length + 3u) / 4u - first_leaf, 1u << P.log_leaves);
    let slots = 1u << (P.log_leaves + P.log_lines);
    for (var row = 0u; row < SLOTS / GROUP_SIZE; row++) {
        let slot = row * GROUP_SIZE + lane;
        let place = place_of(slot, P.log_leaves);
        if (slot < slots && place.leaf < leaves && first_line + place.line < P.lines) {
            let total = leaf_total(first_line + place.line, first_leaf + place.leaf);
            write_slot(slot_of(place.line, place.leaf, P.log_leaves), total);
        }
    }
    sweep(lane, leaves, P.log_leaves);
    let lines = min(P.lines - first_line, 1u << P.log_lines);
    for (var line = lane; line < lines; line += GROUP_SIZE) {
        store_total(first_line + line, tile, read_slot(block_slot(line, 0u, P.log_leaves, P.log_leaves)));
    }
}
