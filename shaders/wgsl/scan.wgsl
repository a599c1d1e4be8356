// The running combination within each tile of each line, after the blocks of tiles to its left.
//
// 1. Every invocation loads leaves, runs through each from the left, keeps the four values in registers and puts the
//    leaf's total into workgroup memory.
// 2. The tile's blocks are joined, and every block's total kept (tile.wgsl).
// 3. To each leaf's values come the totals of the blocks to its left: first those of the tile, from the nearest and
//    smallest to the largest, then those of earlier tiles, which the spine left in the same arrangement.
//    Clearing the lowest set bit of a leaf's number walks them.
// Holes: load_quad, combine, load_total (one of an earlier tile), store_quad (applies finish).

fn after(left: Acc, quad: Quad) -> Quad {
    return Quad(combine(left, quad.a), combine(left, quad.b), combine(left, quad.c), combine(left, quad.d));
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
    var quads: array<Quad, SLOTS / GROUP_SIZE>;
    for (var row = 0u; row < SLOTS / GROUP_SIZE; row++) {
        let slot = row * GROUP_SIZE + lane;
        let place = place_of(slot, P.log_leaves);
        if (slot < slots && place.leaf < leaves && first_line + place.line < P.lines) {
            var quad = load_quad(first_line + place.line, (first_leaf + place.leaf) * 4u);
            quad.b = combine(quad.a, quad.b);
            quad.c = combine(quad.b, quad.c);
            quad.d = combine(quad.c, quad.d);
            quads[row] = quad;
            // The last leaf of a line may be shorter, but nothing is to the right of it.
            write_slot(slot_of(place.line, place.leaf, P.log_leaves), quad.d);
        }
    }
    sweep(lane, leaves, P.log_leaves);
    for (var row = 0u; row < SLOTS / GROUP_SIZE; row++) {
        let slot = row * GROUP_SIZE + lane;
        let place = place_of(slot, P.log_leaves);
        let line = first_line + place.line;
        if (slot < slots && place.leaf < leaves && line < P.lines) {
            var quad = quads[row];
            for (var rest = place.leaf; rest != 0u; rest &= rest - 1u) {
                quad = after(read_slot(slot_of(place.line, rest - 1u, P.log_leaves)), quad);
            }
            if (READS_TOTALS) {
                for (var rest = tile; rest != 0u; rest &= rest - 1u) {
                    quad = after(load_total(line * P.tiles + rest - 1u), quad);
                }
            }
            store_quad(line, (first_leaf + place.leaf) * 4u, quad);
        }
    }
}
