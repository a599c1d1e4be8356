// The total of each tile of each line.
//
//   line 0   tile 0 | tile 1 | tile 2 |      a workgroup takes one tile of 2^log_lines neighbouring lines:
//   line 1   tile 0 | tile 1 | tile 2 |      2^log_leaves leaves of four elements each
//
// 1. Every invocation loads leaves, several at a time, and puts each one's total into workgroup memory.
// 2. The tile's blocks are joined (tile.wgsl).
// 3. Each line's total is stored: as a result, or as an element of the next pass.
// Holes: load_quad (elements, or totals of an earlier pass), combine, store_total.

// The total of a whole leaf: left to right, or, of totals, a balanced tree.
fn whole_total(quad: Quad) -> Acc {
    let left = combine(quad.a, quad.b);
    if (LEAVES_ARE_BALANCED) {
        return combine(left, combine(quad.c, quad.d));
    }
    return combine(combine(left, quad.c), quad.d);
}

// The total of a leaf with `count` elements left in its line.
fn leaf_total(quad: Quad, count: u32) -> Acc {
    if (count >= 4u) {
        return whole_total(quad);
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

// Puts the totals of four rows of an even tile.
fn write_even_rows(slot: u32, rows: Rows) {
    write_slot(bank_of(slot), whole_total(rows.a));
    write_slot(bank_of(slot + GROUP_SIZE), whole_total(rows.b));
    write_slot(bank_of(slot + 2u * GROUP_SIZE), whole_total(rows.c));
    write_slot(bank_of(slot + 3u * GROUP_SIZE), whole_total(rows.d));
}

// Puts the total of one leaf of any tile.
fn write_leaf(tile: Tile, slot: u32, at: vec2<u32>, quad: Quad) {
    if (slot < tile.slots) {
        write_slot(bank_of(slot), leaf_total(quad, P.length - at.y));
    }
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
    let tile = tile_of(group);
    if (tile.is_even) {
        let start = place_of(tile, lane);
        for (var row = 0u; row < tile.slots / GROUP_SIZE; row += 8u) {
            // Both halves load before either is used, so that eight loads are under way.
            let near = load_even_rows(tile, start, row);
            var far = near;
            if (SLOTS > 4u * GROUP_SIZE) {
                far = load_even_rows(tile, start, row + 4u);
            }
            write_even_rows(lane + row * GROUP_SIZE, near);
            if (SLOTS > 4u * GROUP_SIZE) {
                write_even_rows(lane + (row + 4u) * GROUP_SIZE, far);
            }
        }
    } else {
        // Two loads under way. What does not exist is loaded from the last place that does, and never joined.
        for (var slot = lane; slot < tile.slots; slot += 2u * GROUP_SIZE) {
            let near_place = place_of(tile, slot);
            let far_place = place_of(tile, slot + GROUP_SIZE);
            let near = load_quad(near_place.x, near_place.y);
            let far = load_quad(far_place.x, far_place.y);
            write_leaf(tile, slot, near_place, near);
            write_leaf(tile, slot + GROUP_SIZE, far_place, far);
        }
    }
    sweep(lane, tile.leaves, P.log_leaves, P.log_leaves + P.log_lines);
    let last_leaf = (1u << P.log_leaves) - 1u;
    for (var line = lane; line < tile.lines; line += GROUP_SIZE) {
        let slot = select(line << P.log_leaves, line, P.log_stride != 0u) + (last_leaf << P.log_stride);
        store_total(tile.first_line + line, tile.number, read_slot(bank_of(slot)));
    }
}
